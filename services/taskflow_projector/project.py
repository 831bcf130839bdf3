"""Turns the events of one partition into search indexes and counters, strictly in order, each exactly once.

The position moves by compare-and-set in the script that writes, so a projector that dies between reading and
writing, or two that work at once, neither lose nor double an event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from taskflow_projector.fold import fold
from taskflow_streams import Partition

BLOCK_MS = 1_000
HOLD_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Projected:
    """What one pass did."""

    events: int = 0


class Projector:
    """Projects one partition; of several, one is active and the others stand by."""

    def __init__(self, partition: Partition, owner: str, batch: int, clock: Callable[[], float] = monotonic) -> None:
        self._partition = partition
        self._owner = owner
        self._batch = batch
        self._clock = clock
        self._position: str | None = None
        self._hold_until = 0.0

    async def run_once(self, block_ms: int = BLOCK_MS) -> Projected:
        """Apply the next events, waiting for them if there are none."""
        if not await self._active():
            self._position = None
            await asyncio.sleep(block_ms / 1000)
            return Projected()
        if self._position is None:
            self._position = await self._partition.projection.position()
        events = await self._partition.history.after(self._position, self._batch, block_ms)
        if not events:
            return Projected()
        expected, new = self._position, events[-1].id
        self._position = None  # if the reply is lost, ask
        self._position = await self._partition.projection.apply(expected, new, fold(events))
        return Projected(len(events) if self._position == new else 0)

    async def _active(self) -> bool:
        if self._clock() >= self._hold_until:
            if not await self._partition.projection.hold(self._owner):
                return False
            self._hold_until = self._clock() + HOLD_EVERY_S
        return True
