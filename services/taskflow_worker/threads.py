"""Threads for handlers that block.

They are daemons: a thread cannot be stopped from outside, and one that hangs must not keep the process from ending.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class ThreadRun(Generic[T]):
    """One call in a thread.  Its `result` may be given up; the thread is busy until `finished`."""

    def __init__(self, function: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        self.function = function
        self.result: asyncio.Future[T] = loop.create_future()
        self.finished = False
        self._afterwards: list[Callable[[], None]] = []

    def when_finished(self, action: Callable[[], None]) -> None:
        """Call it once the thread is free: at once, or on the event loop."""
        if self.finished:
            action()
        else:
            self._afterwards.append(action)

    def settle(self, value: T) -> None:
        """The thread is free."""
        self.finished = True
        if not self.result.done():
            self.result.set_result(value)
        for action in self._afterwards:
            action()


class Threads:
    """As many threads as are busy at the same time, kept for the next calls.  For functions that never raise."""

    def __init__(self, name: str = "handler") -> None:
        self._name = name
        self._work: SimpleQueue[ThreadRun[object]] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0

    def run(self, function: Callable[[], T]) -> ThreadRun[T]:
        """Begin the call; `await run.result` on this event loop."""
        run = ThreadRun(function, asyncio.get_running_loop())
        self._work.put(run)  # type: ignore[arg-type]
        if not self._idle.acquire(blocking=False):
            self._count += 1
            threading.Thread(target=self._serve, name=f"{self._name}-{self._count}", daemon=True).start()
        return run

    def _serve(self) -> None:
        while True:
            run = self._work.get()
            loop, value = run.result.get_loop(), run.function()
            with suppress(RuntimeError):  # the loop is closed: nobody wants to know
                loop.call_soon_threadsafe(run.settle, value)
            self._idle.release()
