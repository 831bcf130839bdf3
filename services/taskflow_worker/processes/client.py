"""The worker's side of the nursery: children as objects whose output, words and end come to the event loop."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

from taskflow_worker.processes.messages import Frames, Order, frame
from taskflow_worker.processes.orphans import PATIENCE_S

READ_BYTES = 64 << 10
DRAIN_READS = 32  # more than a pipe holds; what goes on after that has somebody alive behind it
LINGER_S = 1.0  # for a process that has said all it had to say
DRAIN_S = 2.0  # for pipes that something still holds open although the process and its group are gone

BABBLE = {"error": ["BadLine", "it wrote to descriptor 3, which is TaskFlow's own", None, False]}

OnData = Callable[[bytes], None]
OnWord = Callable[[dict[str, Any]], None]


class NurseryGone(Exception):
    """The process that starts jobs has died, and what it had started with it; or it could not start one."""


class Child:
    """One process that was asked for."""

    def __init__(self, nursery: "Nursery", number: int, line: socket.socket | None) -> None:
        self.line = line  # to tell it something, if it serves
        self.pipes: list[Pipe] = []
        self._nursery, self._number = nursery, number
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._is_free = False

    @property
    def ended(self) -> bool:
        """Whether it has."""
        return self._ended.done()

    def signal(self, number: int) -> None:
        """To it and all of its group."""
        if not self.ended:
            self._nursery.signal(self._number, number)

    async def wait(self) -> int:
        """Its exit code, or a signal's number below zero, once it has ended and its output was read to the end."""
        try:
            status = await asyncio.shield(self._ended)
            self.drain()
            for pipe in self.pipes:
                if pipe.is_open and not self._is_free:
                    await pipe.finish(DRAIN_S)
            return status
        finally:
            if self.ended:
                self.close()

    def let_go(self) -> None:
        """It has said its last word, after all that it printed; its end, some milliseconds later, is nobody's wait."""
        self._is_free = True
        self._nursery.end_soon(self._number)
        self.settle(0, None)

    async def kill(self, grace_s: float) -> None:
        """SIGTERM, the grace, SIGKILL; returns when it has ended.  Cancelled meanwhile, it kills at once."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # one that is stopped would not hear it
        try:
            async with asyncio.timeout(grace_s):
                await self.wait()
        except (TimeoutError, asyncio.CancelledError, NurseryGone):
            pass
        finally:
            self.signal(signal.SIGKILL)
        with suppress(NurseryGone):
            await self.wait()

    @property
    def is_whole(self) -> bool:
        """Whether it runs, and nothing that leads to it was closed."""
        return not self.ended and all(pipe.is_open for pipe in self.pipes)

    def drain(self) -> None:
        """Read what is in the pipes by now."""
        for pipe in self.pipes:
            pipe.read_all()

    def close(self) -> None:
        """Nothing of it is wanted any more."""
        for pipe in self.pipes:
            pipe.close()
        if self.line is not None:
            self.line.close()

    def settle(self, status: int, why: str | None) -> None:
        """The nursery told of its end."""
        if not self._ended.done():
            if why is None:
                self._ended.set_result(status)
            else:
                self._ended.set_exception(NurseryGone(why))
                self._ended.exception()  # perhaps nobody waits


class Pipe:
    """The reading end of one, emptied as fast as it fills.  `on_data` may end it with ValueError."""

    def __init__(self, fd: int, on_data: OnData) -> None:
        self.is_open = True
        self._fd, self._on_data = fd, on_data
        self._finished: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._readable)

    async def finish(self, within_s: float) -> None:
        """Wait until it has been read to its end."""
        self._finished = self._loop.create_future()
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._finished

    def read_all(self) -> None:
        """What is there by now."""
        for _ in range(DRAIN_READS):
            if not self.is_open or not self._readable():
                return

    def close(self) -> None:
        """Read no more."""
        if self.is_open:
            self.is_open = False
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            if self._finished is not None and not self._finished.done():
                self._finished.set_result(None)

    def _readable(self) -> bool:
        """Read once; False when there is nothing now."""
        try:
            data = os.read(self._fd, READ_BYTES)
            if data:
                self._on_data(data)
                return True
        except BlockingIOError:
            return False
        except (OSError, ValueError):
            pass
        self.close()
        return False


class Nursery:
    """Starts itself when it is needed, and again after it died."""

    def __init__(self) -> None:
        self._folder = ""  # for files of jobs; gone when the nursery is
        self._children: dict[int, Child] = {}
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._frames = Frames()
        self._outbox: deque[tuple[memoryview, list[int]]] = deque()  # with descriptors to pass on, ours to close
        self._losses: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start the process; called early, so that it has nothing of the user's."""
        ours, theirs = socket.socketpair()
        self._folder = tempfile.mkdtemp(prefix="taskflow-")
        command = [sys.executable, "-m", "taskflow_worker.processes.guardian", str(theirs.fileno()), self._folder]
        self._process = subprocess.Popen(  # noqa: ASYNC220 - a fork and an exec, once
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()
        ours.setblocking(False)
        self._line, self._frames = ours, Frames()
        asyncio.get_running_loop().add_reader(ours.fileno(), self._hear)

    async def close(self) -> None:
        """End it, and all that it has started."""
        self._lose("the worker stops")
        await asyncio.gather(*self._losses)

    async def spawn(self, order: Order, on_out: OnData, on_err: OnData, on_word: OnWord) -> Child:
        """Start a process.  What it prints and says comes in calls, on the event loop."""
        if self._line is None:
            await self.start()
        number = next(self._numbers)
        line: socket.socket | None = None
        ends: list[tuple[int, int]] = []
        try:
            ends.append(os.pipe())
            ends.append(os.pipe())
            if order.kind == "serve":
                line, other = socket.socketpair()
                ends.append((os.dup(line.fileno()), other.detach()))
            elif order.kind == "call" or order.cwd or any(order.limits.values()):  # it may have to say why it fails
                ends.append(os.pipe())
        except OSError:  # too many files
            _close([fd for pair in ends for fd in pair])
            raise
        child = self._children[number] = Child(self, number, line)
        readers = (on_out, on_err, _framed(on_word))
        child.pipes = [Pipe(near, reader) for (near, _), reader in zip(ends, readers, strict=False)]
        self._give(order.pack(number, len(ends)), [far for _, far in ends])
        return child

    async def make_folder(self, name: str) -> str:
        """An empty folder for files of one attempt.  What is left of it ends with the nursery."""
        if self._line is None:
            await self.start()
        folder = f"{self._folder}/{name}"
        os.makedirs(folder, mode=0o700)
        return folder

    def signal(self, number: int, what: int) -> None:
        """Pass a signal on."""
        self._give(frame({"number": number, "signal": what}))

    def end_soon(self, number: int) -> None:
        """Kill it unless it ends by itself in a moment."""
        asyncio.get_running_loop().call_later(LINGER_S, self._end_if_alive, number)

    def _end_if_alive(self, number: int) -> None:
        if number in self._children:
            self.signal(number, signal.SIGKILL)

    def _give(self, data: bytes, fds: list[int] | None = None) -> None:
        if self._line is None:  # it has just died; so does all that could be meant
            _close(fds or [])
            return
        self._outbox.append((memoryview(data), fds or []))
        if len(self._outbox) == 1:
            self._flush()

    def _flush(self) -> None:
        """Send what waits, as far as it goes; the rest when there is room."""
        loop = asyncio.get_running_loop()
        while self._outbox and self._line is not None:
            data, fds = self._outbox[0]
            try:
                sent = socket.send_fds(self._line, [data], fds)
            except BlockingIOError:
                loop.add_writer(self._line.fileno(), self._flush)
                return
            except OSError:
                self._lose("the process that starts jobs died")
                return
            _close(fds)
            if sent < len(data):
                self._outbox[0] = data[sent:], []
            else:
                self._outbox.popleft()
        if self._line is not None:
            loop.remove_writer(self._line.fileno())

    def _hear(self) -> None:
        assert self._line is not None
        try:
            data = self._line.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose("the process that starts jobs died")
            return
        for news in self._frames.feed(data):
            child = self._children.pop(news["number"], None)
            if child is not None:
                child.settle(news["status"], news["why"])

    def _lose(self, why: str) -> None:
        """It is gone.  Its children are told once they have ended, too: nobody runs the same job meanwhile."""
        if self._line is None or self._process is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._line.fileno())
        loop.remove_writer(self._line.fileno())
        self._line.close()
        self._line = None
        for _, fds in self._outbox:
            _close(fds)
        self._outbox.clear()
        children, self._children = list(self._children.values()), {}
        loss = asyncio.create_task(_bury(self._process, self._folder, children, why))
        self._losses.add(loss)
        loss.add_done_callback(self._losses.discard)
        self._process = None


async def _bury(process: "subprocess.Popen[bytes]", folder: str, children: list[Child], why: str) -> None:
    with suppress(subprocess.TimeoutExpired):
        await asyncio.to_thread(process.wait, PATIENCE_S)
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)  # if its guardian could not
    for child in children:
        child.settle(0, why)


def _framed(on_word: OnWord) -> OnData:
    frames = Frames()

    def on_data(data: bytes) -> None:
        try:
            for word in frames.feed(data):
                on_word(word)
        except ValueError:
            on_word(BABBLE)
            raise

    return on_data


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
