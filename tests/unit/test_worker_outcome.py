"""Every way an attempt can end becomes one report, or none."""

from __future__ import annotations

import msgpack
import pytest

from taskflow import Fatal
from taskflow_streams import Ending, Failure, How
from taskflow_worker.outcome import (
    MESSAGE_CHARS,
    TRACEBACK_CHARS,
    Failed,
    Outcome,
    Stopped,
    Succeeded,
    TimedOut,
    ending_of,
    failed,
)

TOKEN = ("job", 3)
BOOM = Failed(Failure("Boom", "it broke"))


@pytest.mark.parametrize(
    ("outcome", "stopped", "how"),
    [
        (Succeeded(b"1"), None, How.COMPLETED),
        (BOOM, None, How.FAILED),
        (Failed(BOOM.failure, fatal=True), None, How.FATAL),
        (TimedOut(2), None, How.FAILED),
        (None, None, How.RELEASED),
        (Succeeded(b"1"), Stopped.CANCELED, How.COMPLETED),
        (BOOM, Stopped.CANCELED, How.CANCELED),
        (TimedOut(2), Stopped.CANCELED, How.CANCELED),
        (None, Stopped.CANCELED, How.CANCELED),
        (Succeeded(b"1"), Stopped.RELEASED, How.COMPLETED),
        (BOOM, Stopped.RELEASED, How.RELEASED),
        (None, Stopped.RELEASED, How.RELEASED),
        (Succeeded(b"1"), Stopped.LOST, None),
        (BOOM, Stopped.LOST, None),
        (None, Stopped.LOST, None),
    ],
)
def test_the_table(outcome: Outcome | None, stopped: Stopped | None, how: How | None) -> None:
    """What succeeded has succeeded; what was stopped ends as its reason says; what is lost says nothing."""
    ending = ending_of(TOKEN, outcome, stopped)

    assert (ending and ending.how) == how
    if ending is not None:
        assert (ending.job_id, ending.fence) == TOKEN
        assert (ending.value is not None) == (how is How.COMPLETED)
        assert (ending.failure is not None) == (how in (How.FAILED, How.FATAL))


def test_a_timeout_names_its_limit() -> None:
    """So that one knows which number to change."""
    assert ending_of(TOKEN, TimedOut(1.5), None) == Ending(
        *TOKEN, How.FAILED, failure=Failure("TimedOut", "it took longer than 1.5 s")
    )


def test_a_failure_can_always_be_stored() -> None:
    """However long it is, whatever characters it holds, and even if it cannot tell itself."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    for error in (ValueError("x" * 100_000), ValueError("half a pair: \ud800"), Mute()):
        failure = failed(error).failure
        assert len(failure.message) <= MESSAGE_CHARS
        assert len(failure.traceback or "") <= TRACEBACK_CHARS
        assert msgpack.unpackb(failure.pack())["error"]["class"] == type(error).__name__


def test_fatal_is_fatal() -> None:
    """Also a class of one's own that derives from it."""

    class NoSuchCustomer(Fatal): ...

    assert failed(NoSuchCustomer("17")).fatal
    assert not failed(ValueError("17")).fatal
