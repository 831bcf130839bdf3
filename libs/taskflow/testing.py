"""Test your tasks without any server: inside `inline()` every job runs in this process.

    with taskflow.testing.inline() as jobs:
        assert add.delay(1, 2).result() == 3
    assert jobs[0].name == "add"

All clients of the process are diverted, whatever their addresses.  Payloads and results go through JSON as in
production, what jobs print and log is their output, `current()` works, retries follow the policy but nobody waits for
them, and dependencies are obeyed.  Time limits, `ttl_s` and isolation are not enforced.

With pytest, the fixture `taskflow_jobs` does the same: put `pytest_plugins = ["taskflow.testing"]` into conftest.py.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, overload

from taskflow.inline import Bench, calls
from taskflow.job import Job
from taskflow.link import put_in_place
from taskflow.tasks import registry

__all__ = ["Jobs", "inline"]


class Jobs(Sequence[Job]):
    """What was enqueued, in that order, each as it is now."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def __len__(self) -> int:
        return len(self._bench.entries)

    @overload
    def __getitem__(self, index: int) -> Job: ...

    @overload
    def __getitem__(self, index: slice) -> list[Job]: ...

    def __getitem__(self, index: int | slice) -> Job | list[Job]:
        entries = list(self._bench.entries.values())[index]
        return [entry.job() for entry in entries] if isinstance(entries, list) else entries.job()

    def __repr__(self) -> str:
        return f"<{len(self)} jobs: {', '.join(f'{job.name} {job.status}' for job in self)}>"

    def of(self, task: str | Callable[..., Any]) -> list[Job]:
        """Those of one task."""
        name = task if isinstance(task, str) else registry.get(task).name
        return [entry.job() for entry in self._bench.entries.values() if entry.new.handler == name]

    def run(self) -> int:
        """Run what waits, also what is for later, and what comes of it; how many attempts that were."""
        from taskflow.client import at_once

        return at_once(self._bench.run(calls.blocking))

    async def run_async(self) -> int:
        """The same, with coroutine functions on this event loop."""
        return await self._bench.run(calls.awaited)


@contextmanager
def inline(*, at_once: bool = True) -> Iterator[Jobs]:
    """Run jobs in this process instead of sending them to a server.

    `at_once=False` only takes them; they run with `jobs.run()`, or when their result is asked for.
    """
    bench = Bench(at_once=at_once)
    before = put_in_place(bench)
    try:
        yield Jobs(bench)
    finally:
        put_in_place(before)


try:
    import pytest
except ImportError:  # only those who test with it have it
    pass
else:

    @pytest.fixture
    def taskflow_jobs() -> Iterator[Jobs]:
        """`inline()` for the length of a test."""
        with inline() as jobs:
            yield jobs
