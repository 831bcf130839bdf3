"""Child processes that cannot outlive the one that started them, not even when it is killed with SIGKILL.

On Linux the kernel does it: the child asks for SIGKILL at its parent's death.  The kernel means the *thread*
that forked, so this way is taken on the main thread alone.  Everywhere else a guard, a tiny process of its
own, holds the reading end of a pipe and kills the child when the writing end closes.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

PR_SET_PDEATHSIG = 1

_GUARD = """
import os, signal, sys
fd, pid = int(sys.argv[1]), int(sys.argv[2])
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, signal.SIG_IGN)
os.read(fd, 1)
try:
    os.kill(pid, signal.SIGKILL)
except ProcessLookupError:
    pass
"""


def kernel_watches() -> bool:
    """Whether a child forked here and now can be tied to us by the kernel."""
    return sys.platform == "linux" and threading.current_thread() is threading.main_thread()


def follow_parent() -> Callable[[], None] | None:
    """What a child calls between fork and exec (`preexec_fn`) to die with us; None where that cannot be."""
    if not kernel_watches():
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl  # looked up here: after a fork no lock is safe to take
    parent = os.getpid()

    def ask_for_death() -> None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return ask_for_death


class Guard:
    """A process that kills `pid` when this one ends, however it ends.  Dismiss it when `pid` has ended."""

    def __init__(self, pid: int) -> None:
        reading, self._writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _GUARD, str(reading), str(pid)],
                pass_fds=(reading,),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(reading)

    def dismiss(self) -> None:
        """End the guard and leave what it guarded alone."""
        self._process.kill()
        self._process.wait()
        os.close(self._writing)
