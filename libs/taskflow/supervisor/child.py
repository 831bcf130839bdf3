"""One service process: started, read line by line, started again when it ends, stopped when asked.

The process leads a session of its own, so a Ctrl-C at the terminal reaches us alone, and whatever it leaves
behind in its process group is killed with it.  It cannot outlive us: the kernel sees to it on Linux; elsewhere
the service watches a pipe (`TASKFLOW_PARENT_FD`) that ends when we do.
"""

import asyncio
import contextlib
import os
import signal
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Self

from taskflow.supervisor import health
from taskflow.supervisor.backoff import Backoff
from taskflow.supervisor.plan import Program
from taskflow_runtime.logs import Log
from taskflow_streams.lifeline import follow_parent, kernel_watches

REFUSALS = (2, 3)  # a setting, an address or a broker that will not do: the same again after a restart
LONGEST_LINE = 1 << 20
READY_POLL_S = 0.1
READY_POLL_LONGEST_S = 1.0  # a service may have to wait for its broker for hours
OUTPUT_GRACE_S = 1.0  # for the last lines of a process that has ended


@dataclass(frozen=True, slots=True)
class Lifeline:
    """What ties children to this process where the kernel does not: a pipe that ends with it."""

    fds: tuple[int, ...] = ()

    @classmethod
    def here(cls) -> Self:
        """What is needed on this system.  The pipe's other end stays open as long as this process lives."""
        if kernel_watches():
            return cls()
        reading, _writing = os.pipe()
        return cls((reading,))

    @property
    def environment(self) -> dict[str, str]:
        """How a service learns which descriptor to watch."""
        return {"TASKFLOW_PARENT_FD": str(self.fds[0])} if self.fds else {}


class Child:
    """Keeps one program running until `stop` or `kill`."""

    def __init__(self, program: Program, show: Callable[[bytes], None], log: Log, lifeline: Lifeline) -> None:
        self.program = program
        self.ready = asyncio.Event()
        self.refused = False
        self._show = show
        self._log = log.bind(service=program.name)
        self._lifeline = lifeline
        self._process: Process | None = None
        self._stopping = asyncio.Event()
        self._ever_ready = False

    @property
    def name(self) -> str:
        """What it is called in logs."""
        return self.program.name

    async def run(self) -> None:
        """Start the process, and again whenever it ends, until it is to stop."""
        backoff = Backoff()
        while not self._stopping.is_set():
            started = time.monotonic()
            status = await self._live()
            if self._stopping.is_set():
                return
            if status == 0:  # it wants to be started anew, however short its life was: no crash to be wary of
                self._log.info("service.recycled")
                continue
            pause_s = backoff.after(time.monotonic() - started)
            if status in REFUSALS and not self._ever_ready:
                self._log.error("service.refused", status=status)
                self.refused = True
                return
            self._log.warning("service.ended", status=status, restart_in_s=pause_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)

    async def stop(self, grace_s: float) -> None:
        """Ask it to finish what it has in hand; kill it when that takes longer than `grace_s`."""
        self._stopping.set()
        process = self._process
        if process is None:
            return
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), grace_s)
        except TimeoutError:
            self._log.warning("service.killed", after_s=grace_s)
            self.kill()

    def kill(self) -> None:
        """End it and all of its process group, now."""
        self._stopping.set()
        if self._process is not None:
            _kill_group(self._process.pid)

    async def _live(self) -> int:
        """One life of the process, from start to end; its exit status."""
        reading, writing = os.pipe()
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *self.program.command,
                env={**os.environ, **self.program.environment, **self._lifeline.environment},
                stdin=DEVNULL,
                stdout=writing,
                stderr=writing,
                pass_fds=self._lifeline.fds,
                start_new_session=True,
                preexec_fn=follow_parent(),
            )
        finally:
            os.close(writing)
        if self._stopping.is_set():  # while it was being started
            self.kill()
        output = asyncio.create_task(self._read(reading))
        greeting = asyncio.create_task(self._greet())
        try:
            return await process.wait()
        finally:
            self.ready.clear()
            greeting.cancel()
            _kill_group(process.pid)
            self._process = None
            await asyncio.wait([output, greeting], timeout=OUTPUT_GRACE_S)
            output.cancel()

    async def _greet(self) -> None:
        pause_s = READY_POLL_S
        while not await health.is_ready(self.program.host, self.program.port):
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.05, READY_POLL_LONGEST_S)
        if self._ever_ready:
            self._log.info("service.back")
        self._ever_ready = True
        self.ready.set()

    async def _read(self, fd: int) -> None:
        async for line in _lines(fd):
            self._show(line)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)


async def _lines(fd: int) -> AsyncIterator[bytes]:
    """The lines that come out of a pipe.  One without end comes in pieces."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", buffering=0)
    )
    try:
        pending = b""
        while chunk := await reader.read(1 << 16):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                yield line
            if len(pending) > LONGEST_LINE:
                yield pending
                pending = b""
        if pending:
            yield pending
    finally:
        transport.close()


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
