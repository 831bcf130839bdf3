"""The nursery itself: forks, reaps, and kills what is left.  One thread, so that a fork is safe."""

import ctypes
import os
import selectors
import signal
import socket
import sys
from contextlib import suppress
from typing import Any, NoReturn

import setproctitle

from taskflow_worker.processes import birth
from taskflow_worker.processes.messages import PACKET_BYTES, pack, unpack


class Server:
    """Children by number, as the worker counts them, and by pid."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._pids: dict[int, int] = {}
        self._numbers: dict[int, tuple[int, str]] = {}

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
            for key, _ in selector.select():
                if key.fd == wake:
                    with suppress(BlockingIOError):
                        os.read(wake, 4096)
                    self._reap()
                elif not self._obey():
                    self._end()

    def _obey(self) -> bool:
        try:
            packet, fds, _, _ = socket.recv_fds(self._line, PACKET_BYTES, 3)
        except ConnectionError:
            return False
        if not packet:
            return False
        order = unpack(packet)
        if "signal" in order:
            self._signal(order["number"], order["signal"])
            return True
        try:
            pid = birth.start(order, fds)
        except OSError as error:
            self._tell(order["number"], 0, f"no process could be started: {error.strerror}")
        else:
            self._pids[order["number"]] = pid
            self._numbers[pid] = order["number"], order["mark"]
        for fd in fds:
            os.close(fd)
        return True

    def _signal(self, number: int, what: int) -> None:
        pid = self._pids.get(number)
        if pid is not None:
            try:
                os.killpg(pid, what)
            except ProcessLookupError:
                with suppress(ProcessLookupError):
                    os.kill(pid, what)

    def _reap(self) -> None:
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if ended is None:
                break
            pid = ended.si_pid
            number, _ = self._numbers.pop(pid, (None, ""))
            if number is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)  # before its number can be another's
            _, status = os.waitpid(pid, 0)
            if number is not None:
                del self._pids[number]
                self._tell(number, os.waitstatus_to_exitcode(status))
        self._kill_strangers()

    def _kill_strangers(self) -> None:
        """Processes that left their group came to us when their parents ended; those of ended jobs are killed."""
        try:
            with open(f"/proc/self/task/{os.getpid()}/children") as file:
                children = [int(pid) for pid in file.read().split()]
        except OSError:
            return
        strangers = [pid for pid in children if pid not in self._numbers]
        if not strangers:
            return
        alive = {mark.encode() for _, mark in self._numbers.values() if mark}
        for pid in strangers:
            with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
                if not alive.intersection(file.read().split(b"\0")):
                    os.kill(pid, signal.SIGKILL)

    def _tell(self, number: int, status: int, why: str | None = None) -> None:
        try:
            self._line.send(pack({"number": number, "status": status, "why": why}))
        except OSError:
            self._end()

    def _end(self) -> NoReturn:
        for pid in self._numbers:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        self._numbers.clear()
        self._kill_strangers()
        os._exit(0)


def main() -> NoReturn:
    """Begin; the socket's descriptor is the argument."""
    setproctitle.setproctitle("taskflow nursery")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    libc: Any = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)
    line = socket.socket(fileno=int(sys.argv[1]))
    line.set_inheritable(False)
    Server(line).run()


if __name__ == "__main__":
    main()
