"""Functions that the tests' Python jobs run."""

import ctypes
import os
import signal
import time

from taskflow import current


def add(a: int, b: int = 0) -> int:
    """Say so, and add."""
    print(f"adding {a} and {b}")  # noqa: T201 - to be seen in the log
    return a + b


def print_at_length(what: str, times: int) -> None:
    """One long line."""
    print("x" + what * times)  # noqa: T201 - to be seen in the log


def spin(seconds: float) -> str:
    """Compute for so long, without a pause."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))
    return "done"


def crash() -> None:
    """End the process in the worst way."""
    ctypes.string_at(0)


def vanish() -> None:
    """As the kernel ends a process that takes too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)


async def who() -> dict[str, object]:
    """What the attempt knows of itself."""
    context = current()
    context.progress(0.5, "half way")
    return {"job_id": context.job_id, "attempt": context.attempt}
