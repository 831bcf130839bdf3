"""A blocking read that outlasts the pass that began it, so that a pass can end at a precise moment.

The server itself looks for reads whose time is over only at its own tick, every 100 ms by default.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class StandingRead(Generic[T]):
    """Reads again and again with the function it is given, which may block; one read at a time."""

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._task: asyncio.Task[T] | None = None

    async def within(self, seconds: float) -> T | None:
        """What the read brings, or raises, if it does so in time; else None, and the read goes on for the next call."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._read())
        done, _ = await asyncio.wait({self._task}, timeout=max(0.0, seconds))
        if not done:
            return None
        task, self._task = self._task, None
        return task.result()

    async def last(self) -> T | None:
        """What the read brings that is under way, if there is one; there will be no other."""
        task, self._task = self._task, None
        return None if task is None else await task

    async def close(self) -> None:
        """Read no more; what is on its way is lost."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # nobody wants to hear of it any more
