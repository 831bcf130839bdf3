"""`current()` is the attempt that the code runs in, in a coroutine as in a thread."""

from __future__ import annotations

import asyncio
import threading

import pytest

from taskflow import Context, current
from taskflow.context import enter


def a_context(job_id: str) -> Context:
    """An attempt."""
    return Context(job_id, 1, 1, "q", "name", "worker", None)


def test_outside_of_a_job_there_is_none() -> None:
    """A sentence, not a puzzle."""
    with pytest.raises(RuntimeError, match="inside a job"):
        current()


async def test_each_coroutine_and_each_thread_has_its_own() -> None:
    """They do not see one another's."""
    both = asyncio.Barrier(2)

    async def attempt(job_id: str) -> str:
        enter(a_context(job_id))
        await both.wait()
        return await asyncio.create_task(seen())

    async def seen() -> str:
        return current().job_id

    assert list(await asyncio.gather(attempt("a"), attempt("b"))) == ["a", "b"]

    found: list[str] = []

    def in_a_thread() -> None:
        enter(a_context("c"))
        found.append(current().job_id)
        enter(a_context("d"))
        found.append(current().job_id)

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    assert found == ["c", "d"]
    with pytest.raises(RuntimeError):
        current()


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_progress_is_a_fraction(fraction: float) -> None:
    """From 0 to 1."""
    with pytest.raises(ValueError, match="from 0 to 1"):
        a_context("a").progress(fraction)


def test_progress_is_passed_on() -> None:
    """With its note."""
    told: list[tuple[float, str]] = []
    context = a_context("a")
    context._progress = lambda fraction, note: told.append((fraction, note))

    context.progress(1, "done")

    assert told == [(1.0, "done")]
