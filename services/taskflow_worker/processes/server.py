"""The nursery itself: starts, reaps, and kills what is left.  One thread, so that a fork is safe."""

import gc
import os
import selectors
import signal
import socket
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

import setproctitle

from taskflow_worker.processes import birth, guest, orphans
from taskflow_worker.processes.messages import Frames, frame

READ_BYTES = 64 << 10
SPARES = 2
MARK = b"TASKFLOW_ATTEMPT_"  # begins the variable by which processes of an attempt are known
QUIET_S = 0.01  # then they are made: not while the CPU is needed for what runs


class Job(NamedTuple):
    """What one of our processes is for."""

    number: int
    mark: str
    cpu_s: int | None
    is_call: bool


class Server:
    """Children by number, as the worker counts them, and by pid."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._frames = Frames()
        self._fds: deque[int] = deque()
        self._pids: dict[int, int] = {}
        self._jobs: dict[int, Job] = {}
        self._spares: deque[birth.Spare] = deque()
        self._inherited = _marks("self")  # a worker may itself be a job
        self._suspects: dict[int, set[int]] = {}  # strangers whose job is not known, and the jobs that may be theirs
        self._has_calls = False  # until there are some, none is made ready for
        self._needs_tasks = False  # jobs load modules with tasks

    def run(self) -> NoReturn:
        """Serve until the worker is gone."""
        wake, woken = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        selector = selectors.DefaultSelector()
        selector.register(self._line, selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        while True:
            wants_spare = self._has_calls and len(self._spares) < SPARES
            events = selector.select(QUIET_S if wants_spare else None)
            if not events:
                with suppress(OSError):
                    self._spares.append(birth.Spare())
            for key, _ in events:
                if key.fd == wake:
                    with suppress(BlockingIOError):
                        os.read(wake, 4096)
                    self._reap()
                elif not self._obey():
                    self.end()

    def _obey(self) -> bool:
        try:
            data, fds, _, _ = socket.recv_fds(self._line, READ_BYTES, 3)
        except ConnectionError:
            return False
        for fd in fds:
            os.set_inheritable(fd, False)
        self._fds += fds
        for order in self._frames.feed(data):
            if "signal" in order:
                self._signal(order["number"], order["signal"])
            else:
                self._start(order, [self._fds.popleft() for _ in range(order["fds"])])
        return bool(data)

    def _start(self, order: Mapping[str, Any], fds: list[int]) -> None:
        if (order["kind"] == "serve" or self._needs_tasks) and not guest.has_tasks():
            guest.load_tasks()
            while self._spares:  # they do not have it
                self._spares.popleft().close()
        try:
            pid = self._spare(order, fds) or birth.start(order, fds)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            self._tell(order["number"], 0, f"no process could be started: {why}")
        else:
            self._pids[order["number"]] = pid
            self._jobs[pid] = Job(order["number"], order["mark"], order["limits"].get("cpu_s"), order["kind"] == "call")
        for fd in fds:
            os.close(fd)

    def _spare(self, order: Mapping[str, Any], fds: list[int]) -> int | None:
        """A process that was made ahead, if there is one for such an order."""
        if order["kind"] == "call":
            self._has_calls = True
            guest.look_around(order["path"])
            while self._spares:
                spare = self._spares.popleft()
                if spare.give(order, fds):
                    return spare.pid
        return None

    def _signal(self, number: int, what: int) -> None:
        pid = self._pids.get(number)
        if pid is not None:
            try:
                os.killpg(pid, what)
            except ProcessLookupError:  # it has no group yet
                with suppress(ProcessLookupError):
                    os.kill(pid, what)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while pid := orphans.next_ended():
                if pid in self._jobs:
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(pid, signal.SIGKILL)  # before its number can be another's
                _, status, used = os.wait4(pid, 0)
                job = self._jobs.pop(pid, None)
                if job is not None:
                    del self._pids[job.number]
                    code = _code(status, used.ru_utime + used.ru_stime, job.cpu_s)
                    self._tell(job.number, code)
                    self._needs_tasks |= job.is_call and code == guest.LOADED_TASKS
        self._kill_strangers()

    def _kill_strangers(self) -> None:
        """Processes that left their group came to us when their parents ended; those of ended jobs are killed.

        Their environment says whose they are, unless they have cleared it or written over it, as some daemons do.  Then
        they may belong to any job that ran when they were first seen, and end with the last of these.
        """
        known = self._jobs.keys() | {spare.pid for spare in self._spares}
        strangers = [pid for pid in orphans.children() if pid not in known]
        self._suspects = {pid: jobs & self._jobs.keys() for pid, jobs in self._suspects.items() if pid in strangers}
        for pid in strangers:
            with suppress(OSError):
                if not self._may_live(pid):
                    os.kill(pid, signal.SIGKILL)

    def _may_live(self, pid: int) -> bool:
        """Whether it belongs, or may belong, to a job that has not ended."""
        if os.getsid(pid) in self._jobs:
            return True
        marked = {job.mark.encode(): own for own, job in self._jobs.items() if job.mark}
        if marks := _marks(pid) - self._inherited:
            return not marks.isdisjoint(marked)
        return bool(self._suspects.setdefault(pid, set(marked.values())))

    def _tell(self, number: int, status: int, why: str | None = None) -> None:
        try:
            self._line.sendall(frame({"number": number, "status": status, "why": why}))
        except OSError:
            self.end()

    def end(self) -> NoReturn:
        """Kill all, and stop."""
        for pid in self._jobs:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        orphans.end_all()
        os._exit(0)


def _marks(pid: int | str) -> set[bytes]:
    """By which attempts' names a process is known; none where it cannot be told."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return {entry for entry in file.read().split(b"\0") if entry.startswith(MARK)}
    except OSError:
        return set()


def _code(status: int, used_s: float, limit_s: int | None) -> int:
    """The exit code; the kernel's SIGKILL for one that did not hear its SIGXCPU counts as that."""
    code = os.waitstatus_to_exitcode(status)
    return -signal.SIGXCPU if code == -signal.SIGKILL and limit_s is not None and used_s >= limit_s else code


def serve(line: socket.socket) -> NoReturn:
    """Be the nursery, for whoever is at the other end."""
    setproctitle.setproctitle("taskflow nursery")
    orphans.adopt()
    os.umask(birth.UMASK)
    server = Server(line)
    signal.signal(signal.SIGUSR2, lambda *_: server.end())
    orphans.when_parent_dies(signal.SIGUSR2)
    guest.prepare()
    gc.disable()  # each of our children enables it for itself; what is loaded by now it need not look through,
    gc.freeze()  # for that would copy it
    server.run()
