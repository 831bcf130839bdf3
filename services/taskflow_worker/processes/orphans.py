"""Who loses their parent comes to us, so that nobody escapes.  Where the kernel cannot do that, groups are killed."""

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PATIENCE_S = 5.0  # with processes that the kernel does not let die
PAUSE_S = 0.002


def adopt() -> None:
    """From now on, orphans among our descendants are our children."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def when_parent_dies(number: int) -> None:
    """Get this signal then."""
    _prctl(PR_SET_PDEATHSIG, number)


def children() -> list[int]:
    """All of ours, adopted ones too; none where it cannot be known."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def next_ended() -> int:
    """A child that has ended and is to be waited for; 0 when there is none.  May raise ChildProcessError."""
    if not hasattr(os, "waitid"):  # macOS
        return next_zombie()
    ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return ended.si_pid if ended is not None else 0


def next_zombie() -> int:
    """The same, where the kernel does not tell without being waited for."""
    import psutil  # only here: the nursery and its guardian stay small

    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if child.status() == psutil.STATUS_ZOMBIE:
                return child.pid
    return 0


def end_all() -> None:
    """Kill children, and theirs as they become ours, until there are none."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for pid in children():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(PAUSE_S)


def _prctl(what: int, value: int) -> None:
    if sys.platform == "linux":
        libc: Any = ctypes.CDLL(None)
        libc.prctl(what, value, 0, 0, 0)
