"""How an attempt ended, as a value; `ending_of` is the one place that turns it into a report."""

import traceback
from enum import Enum, auto
from types import TracebackType

from taskflow import Fatal
from taskflow.calling import RESULT_MAX_BYTES, is_result
from taskflow.context import storable
from taskflow.executor import Failed, Outcome, Succeeded, TimedOut
from taskflow_streams import Ending, Failure, How, Token

KIND_CHARS = 100
MESSAGE_CHARS = 2_000
TRACEBACK_CHARS = 16_000  # of its end, where the cause stands
VALUE_BYTES = RESULT_MAX_BYTES + 1024  # with what an executor puts around a result, such as an exit code
_OURS = ("taskflow_worker.", "taskflow.calling")


__all__ = ["Failed", "Outcome", "Stopped", "Succeeded", "TimedOut", "checked", "ending_of", "failed"]


class Stopped(Enum):
    """Why an attempt was told to stop."""

    CANCELED = auto()  # by order of a user
    LOST = auto()  # the lease is another's by now, or the job is gone
    RELEASED = auto()  # the worker stops; another one shall run it
    FELLED = auto()  # something ends the worker unasked; perhaps this very job, so the attempt counts


def ending_of(token: Token, outcome: Outcome | None, stopped: Stopped | None) -> Ending | None:
    """What to report; None: nothing, for the job is not ours any more.

    An outcome of None is that of an attempt that was stopped before it said anything.  What succeeds although it
    was told to stop has succeeded.
    """
    if stopped is Stopped.LOST:
        return None
    match outcome:
        case Succeeded(value):
            return Ending(*token, How.COMPLETED, value)
        case _ if stopped is Stopped.CANCELED:
            return Ending(*token, How.CANCELED)
        case _ if stopped is Stopped.RELEASED:
            return Ending(*token, How.RELEASED)
        case _ if stopped is Stopped.FELLED:
            return Ending(
                *token, How.FAILED, failure=Failure("WorkerFelled", "its worker was ended by one of its jobs")
            )
        case TimedOut(limit_s):
            return Ending(*token, How.FAILED, failure=Failure("TimedOut", f"it took longer than {limit_s:g} s"))
        case Failed(failure, fatal, value):
            return Ending(*token, How.FATAL if fatal else How.FAILED, value, failure)
        case None:
            return Ending(*token, How.RELEASED)


def checked(outcome: object, handler: str) -> Outcome:
    """What an executor returned, if it can be told and stored; else a failure that says what is wrong with it."""
    match outcome:
        case Succeeded(value) if is_result(value, VALUE_BYTES):
            return Succeeded(value)
        case Failed(Failure(str(kind), str(message), None | str() as trace), fatal, value) if is_result(
            value, VALUE_BYTES
        ):
            return Failed(_failure(kind, message, trace), bool(fatal), value)
        case Succeeded() | Failed():
            why = f"returned {type(outcome).__name__} with what cannot be stored: values are JSON text, 1 MiB of bytes"
        case _:
            why = f"returned {type(outcome).__name__}, and not Succeeded or Failed"
    return Failed(Failure("BadOutcome", f"the executor {handler} {why}"))


def failed(error: BaseException) -> Failed:
    """An exception as an outcome.  Whatever it holds, it can be stored."""
    try:
        trace = traceback.TracebackException(type(error), error, _below_the_worker(error.__traceback__))
        failure = _failure(type(error).__name__, _message(error), "".join(trace.format()))
    except BaseException:  # code of its own failed, or there is no memory left to say more
        failure = Failure(type(error).__name__, "it failed, and so did telling of it")
    return Failed(failure, isinstance(error, Fatal))


def _failure(kind: str, message: str, trace: str | None) -> Failure:
    return Failure(
        storable(kind[:KIND_CHARS]) or "Error",
        storable(message[:MESSAGE_CHARS]),
        None if trace is None else storable(trace[-TRACEBACK_CHARS:]),
    )


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # its own __str__ failed
        return f"<{type(error).__name__} without a message>"


def _below_the_worker(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the handler on; our own frames above it explain nothing."""
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_OURS):
        trace = trace.tb_next
    return trace
