"""How a process ended, in words."""

import signal

from taskflow.executor import Failed
from taskflow_streams import Failure

_CAUSES = {
    signal.SIGKILL: "; perhaps the kernel did, for want of memory",
    signal.SIGXCPU: "; it used more CPU time than it may",
    signal.SIGSEGV: "; it touched memory that is not its own",
}


def by_signal(number: int) -> Failed:
    """A process that a signal ended."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    cause = next((text for known, text in _CAUSES.items() if known == number), "")
    return Failed(Failure("Killed", f"the process was killed by {name}{cause}"))


def ended_early(status: int) -> Failed:
    """A process that ended without a word: by a signal, or by leaving in the middle."""
    if status < 0:
        return by_signal(-status)
    return Failed(Failure("Exited", f"the process exited with {status} before it had a result"))


def from_word(error: list[object]) -> Failed:
    """An error as a child told it."""
    kind, message, trace, fatal = error
    return Failed(Failure(str(kind), str(message), None if trace is None else str(trace)), bool(fatal))
