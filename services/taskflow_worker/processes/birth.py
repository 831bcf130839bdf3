"""From the fork to the job's own code: a session, descriptors, limits and an environment of its own."""

import ctypes
import fcntl
import os
import resource
import signal
import sys
import traceback
from collections.abc import Mapping
from typing import Any, NoReturn

from taskflow_worker.processes import guest
from taskflow_worker.processes.messages import frame

PR_SET_PDEATHSIG = 1
LINE_FD = 3
HIGH_FD = 512
NOT_STARTED = 127

_LIMITS = {"cpu_s": resource.RLIMIT_CPU, "memory_bytes": resource.RLIMIT_AS, "open_files": resource.RLIMIT_NOFILE}
_libc: Any = ctypes.CDLL(None) if sys.platform == "linux" else None


def start(order: Mapping[str, Any], fds: list[int]) -> int:
    """Fork; the pid."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _be_born(order, fds, parent)
    return pid


def _be_born(order: Mapping[str, Any], fds: list[int], parent: int) -> NoReturn:
    status = NOT_STARTED
    try:
        os.setsid()
        if _libc is not None:
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(status)
        _descriptors(fds)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o022)
        why = _settle(order)
        if why:
            os.write(LINE_FD, frame({"error": ["NotStarted", why, None, False]}))
        elif order["kind"] == "exec":
            os.set_inheritable(LINE_FD, False)
            os.execve(order["argv"][0], order["argv"], order["env"])
        else:
            status = guest.run(order)
    except OSError as error:
        os.write(LINE_FD, frame({"error": ["NotStarted", str(error), None, False]}))
    except BaseException:
        traceback.print_exc()  # a module with tasks that cannot be imported; the job's output shows it
    finally:
        os._exit(status)


def _descriptors(fds: list[int]) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, HIGH_FD) for fd in (null, *fds)]
    for target, fd in enumerate(high):
        os.dup2(fd, target)
    os.closerange(LINE_FD + 1, os.sysconf("SC_OPEN_MAX"))


def _settle(order: Mapping[str, Any]) -> str | None:
    try:
        if order["cwd"]:
            os.chdir(order["cwd"])
    except OSError as error:
        return f"cwd: {order['cwd']} cannot be entered: {error.strerror}"
    for name, what in _LIMITS.items():
        value = order["limits"].get(name)
        if value is not None:
            _, hard = resource.getrlimit(what)
            ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(what, (ceiling, ceiling + 5 if what == resource.RLIMIT_CPU and hard < 0 else ceiling))
    if order["limits"].get("nice"):
        os.nice(order["limits"]["nice"])
    return None
