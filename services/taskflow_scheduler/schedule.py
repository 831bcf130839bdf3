"""One partition's scheduler: promote what is due, resolve what ended, and sleep until either happens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from time import monotonic

from taskflow_runtime.standing import StandingRead
from taskflow_scheduler.resolve import Resolver
from taskflow_streams import BATCH, Message, Partition, Store

LONGEST_SLEEP_MS = 1_000  # so that a stop is noticed
CONSUMER_GONE_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Scheduled:
    """What one pass did."""

    promoted: int = 0
    messages: int = 0
    moved: int = 0


class PartitionScheduler:
    """Any number of these may work on one partition: they share the graph's consumer group."""

    def __init__(self, store: Store, partition: Partition, consumer: str, take_over_after_s: float) -> None:
        self._partition = partition
        self._resolver = Resolver(store, partition)
        self._consumer = consumer
        self._take_over_ms = int(take_over_after_s * 1000)
        self._look_again_at = 0.0
        self._reading = StandingRead(partial(partition.graph.read, consumer, LONGEST_SLEEP_MS))

    async def run_once(self) -> Scheduled:
        """Promote, then wait for messages, but never past the next due time."""
        asked_s = monotonic()
        promoted, wait_ms = await self._partition.upkeep.promote()
        messages: list[Message] | None = None
        if monotonic() >= self._look_again_at:
            messages = await self._partition.graph.take_over(self._consumer, self._take_over_ms)
            await self._partition.graph.retire_consumers(CONSUMER_GONE_MS)
            self._look_again_at = monotonic() + self._take_over_ms / 2000
        if not messages:
            sleep_ms = LONGEST_SLEEP_MS if wait_ms is None else min(wait_ms, LONGEST_SLEEP_MS)
            slept_s = monotonic() - asked_s
            messages = await self._reading.within(sleep_ms / 1000 - slept_s if promoted < BATCH else 0)
        resolved = await self._resolver.handle(messages or [])
        return Scheduled(promoted, resolved.messages, resolved.moved)

    async def finish(self) -> None:
        """Deal with what a read that is under way still brings."""
        await self._resolver.handle(await self._reading.last() or [])
