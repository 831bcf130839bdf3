"""The worker's side of the nursery: children as objects whose output, words and end come to the event loop."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

from taskflow_worker.processes.messages import PACKET_BYTES, Frames, Order, pack, unpack

READ_BYTES = 64 << 10
DRAIN_S = 2.0  # for pipes that something still holds open although the process and its group are gone
FULL_PAUSE_S = 0.002

OnData = Callable[[bytes], None]
OnWord = Callable[[dict[str, Any]], None]


class NurseryGone(Exception):
    """The process that starts jobs has died, and what it had started with it."""


class Child:
    """One process that was asked for."""

    def __init__(self, nursery: "Nursery", number: int, pipes: "list[Pipe]", line: socket.socket | None) -> None:
        self.line = line  # to tell it something, if it serves
        self._nursery, self._number, self._pipes = nursery, number, pipes
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

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
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_S):
                    for pipe in self._pipes:
                        await pipe.finished.wait()
            return status
        finally:
            if self.ended:
                self.close()

    async def kill(self, grace_s: float) -> None:
        """SIGTERM, the grace, SIGKILL; returns when it has ended.  Cancelled meanwhile, it kills at once."""
        self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await self.wait()
        except (TimeoutError, asyncio.CancelledError):
            pass
        finally:
            self.signal(signal.SIGKILL)
        with suppress(NurseryGone):
            await self.wait()

    def drain(self) -> None:
        """Read what is in the pipes by now."""
        for pipe in self._pipes:
            pipe.read_all()

    def close(self) -> None:
        """Nothing of it is wanted any more."""
        for pipe in self._pipes:
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
    """The reading end of one, emptied as fast as it fills."""

    def __init__(self, fd: int, on_data: OnData) -> None:
        self.finished = asyncio.Event()
        self._fd, self._on_data, self._open = fd, on_data, True
        os.set_blocking(fd, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(fd, self._readable)

    def _readable(self) -> bool:
        """Read once; False when there is nothing now."""
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self._on_data(data)
            return True
        self.close()
        return False

    def read_all(self) -> None:
        """What is there by now."""
        while self._open and self._readable():
            pass

    def close(self) -> None:
        """Read no more."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self.finished.set()


class Nursery:
    """Starts itself when it is needed, and again after it died."""

    def __init__(self) -> None:
        self._children: dict[int, Child] = {}
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None

    async def start(self) -> None:
        """Start the process; called early, so that it has nothing of the user's."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                end.setsockopt(socket.SOL_SOCKET, option, PACKET_BYTES)
        command = [sys.executable, "-m", "taskflow_worker.processes.server", str(theirs.fileno())]
        self._process = subprocess.Popen(  # noqa: ASYNC220 - a fork and an exec, once
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()
        ours.setblocking(False)
        self._line = ours
        asyncio.get_running_loop().add_reader(ours.fileno(), self._hear)

    async def close(self) -> None:
        """End it, and all that it has started."""
        self._lose("the worker stops")

    async def spawn(self, order: Order, on_out: OnData, on_err: OnData, on_word: OnWord) -> Child:
        """Start a process.  What it prints and says comes in calls, on the event loop."""
        if self._line is None:
            await self.start()
        number = next(self._numbers)
        frames = Frames()

        def on_line(data: bytes) -> None:
            for word in frames.feed(data):
                on_word(word)

        out, err = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        line: socket.socket | None = None
        if order.kind == "serve":
            line, far = socket.socketpair()
            near_fd, far_fd = os.dup(line.fileno()), far.detach()
        else:
            near_fd, far_fd = os.pipe2(os.O_CLOEXEC)
        pipes = [Pipe(out[0], on_out), Pipe(err[0], on_err), Pipe(near_fd, on_line)]
        child = self._children[number] = Child(self, number, pipes, line)
        try:
            await self._send(order.pack(number), [out[1], err[1], far_fd])
        except BaseException:
            self._children.pop(number, None)
            child.close()
            raise
        finally:
            for fd in (out[1], err[1], far_fd):
                os.close(fd)
        return child

    def signal(self, number: int, what: int) -> None:
        """Pass a signal on."""
        if self._line is not None:
            with suppress(OSError):
                self._line.send(pack({"number": number, "signal": what}))

    async def _send(self, packet: bytes, fds: list[int]) -> None:
        while True:
            if self._line is None:
                raise NurseryGone("the process that starts jobs died")
            try:
                socket.send_fds(self._line, [packet], fds)
                return
            except BlockingIOError:
                await asyncio.sleep(FULL_PAUSE_S)
            except OSError as error:
                if self._line is not None and isinstance(error, ConnectionError):
                    self._lose("the process that starts jobs died")
                raise NurseryGone(f"the order could not be given: {error.strerror}") from None

    def _hear(self) -> None:
        assert self._line is not None
        try:
            packet = self._line.recv(PACKET_BYTES)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self._lose("the process that starts jobs died")
            return
        news = unpack(packet)
        child = self._children.pop(news["number"], None)
        if child is not None:
            child.settle(news["status"], news["why"])

    def _lose(self, why: str) -> None:
        if self._line is not None:
            asyncio.get_running_loop().remove_reader(self._line.fileno())
            self._line.close()
            self._line = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
            self._process.kill()
            self._process = None
        children, self._children = list(self._children.values()), {}
        for child in children:
            child.settle(0, why)
