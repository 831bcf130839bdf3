"""From the nursery to the job's own code: a session, descriptors, limits and an environment of its own.

A program is spawned, which copies nothing of the nursery.  Python code needs a fork; some are made ahead, warm, and
wait for their order.  A program with limits or a directory of its own needs one too, for that is set between the fork
and the program; the nursery itself never enters a directory, which may be one that hangs.
"""

import ctypes
import gc
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from taskflow_worker.processes import guest
from taskflow_worker.processes.messages import Frames, frame

PR_SET_PDEATHSIG = 1
LINE_FD = 3
NOT_STARTED = 127
READ_BYTES = 64 << 10
UMASK = 0o022

_LIMITS = {"cpu_s": resource.RLIMIT_CPU, "memory_bytes": resource.RLIMIT_AS, "open_files": resource.RLIMIT_NOFILE}
_OURS = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)
_PYTHONS = (signal.SIGPIPE, signal.SIGXFSZ)  # ignored in Python, which raises OSError instead; nowhere else
_libc: Any = ctypes.CDLL(None) if sys.platform == "linux" else None


class Spare:
    """A process that was forked ahead, and waits for the one thing it will do."""

    def __init__(self) -> None:
        self._line, far = socket.socketpair()
        self.pid = _fork(lambda: _wait_for_order(far))
        far.close()

    def give(self, order: Mapping[str, Any], fds: list[int]) -> bool:
        """Hand the order over; False when it is no more."""
        try:
            packed = frame(order)
            sent = socket.send_fds(self._line, [packed], fds)
            if sent < len(packed):
                self._line.sendall(packed[sent:])
        except OSError:
            return False
        finally:
            self.close()
        return True

    def close(self) -> None:
        """Whoever waits at the other end, and has no order, ends."""
        self._line.close()


def start(order: Mapping[str, Any], fds: list[int]) -> int:
    """The pid of a new process that does it.  Raises OSError with a sentence when there can be none."""
    if order["kind"] == "exec" and not order["cwd"] and not any(order["limits"].values()):
        with suppress(NotImplementedError):  # no session for what is spawned, on this system
            return _spawn(order, fds)
    return _fork(lambda: _obey(order, fds))


def _spawn(order: Mapping[str, Any], fds: list[int]) -> int:
    return os.posix_spawn(
        order["argv"][0],
        order["argv"],
        order["env"],
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(fds, 1)],
        setsid=True,
        setsigmask=(),
        setsigdef=_OURS + _PYTHONS,
    )


def _fork(then: Callable[[], int]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        status = NOT_STARTED
        try:
            _apart(parent)
            status = then()
        except OSError as error:
            with suppress(OSError):
                os.write(LINE_FD, frame({"error": ["NotStarted", error.strerror or str(error), None, False]}))
        except BaseException:
            traceback.print_exc()  # a module with tasks that cannot be imported; the job's output shows it
        finally:
            os._exit(status)
    return pid


def _apart(parent: int) -> None:
    os.setsid()
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(NOT_STARTED)
    signal.set_wakeup_fd(-1)
    _default(_OURS)


def _default(numbers: Iterable[int]) -> None:
    for number in numbers:
        signal.signal(number, signal.SIG_DFL)


def _wait_for_order(line: socket.socket) -> int:
    for target in (1, 2):
        os.dup2(0, target)
    os.dup2(line.detach(), LINE_FD, inheritable=False)
    os.closerange(LINE_FD + 1, os.sysconf("SC_OPEN_MAX"))
    guest.rehearse()
    line = socket.socket(fileno=LINE_FD)
    frames, fds = Frames(), []
    while True:
        data, more, _, _ = socket.recv_fds(line, READ_BYTES, 3)
        fds += more
        if not data:
            return 0
        for order in frames.feed(data):
            line.detach()
            return _obey(order, fds)


def _obey(order: Mapping[str, Any], fds: list[int]) -> int:
    for target, fd in enumerate(fds, 1):
        os.dup2(fd, target, inheritable=target != LINE_FD)
    os.closerange(LINE_FD + 1, os.sysconf("SC_OPEN_MAX"))
    if order["cwd"]:
        _enter(order["cwd"])
    _limit(order["limits"])
    if order["kind"] == "exec":
        _default(_PYTHONS)
        os.execve(order["argv"][0], order["argv"], order["env"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.enable()
    return guest.run(order)


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise OSError(error.errno, f"cwd: {folder} cannot be entered: {error.strerror}") from None


def _limit(limits: Mapping[str, int | None]) -> None:
    for name, what in _LIMITS.items():
        value = limits.get(name)
        if value is not None:
            _, hard = resource.getrlimit(what)
            ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(what, (ceiling, ceiling + 5 if what == resource.RLIMIT_CPU and hard < 0 else ceiling))
    os.nice(limits.get("nice") or 0)
