"""Dependencies: whoever waits for a job that has ended moves, in this partition or in another; so does a schedule.

Every effect is written before its message is acknowledged, and all of them are safe to repeat: a scheduler that
dies in the middle is followed by another that does the same again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from taskflow_domain import partition_of
from taskflow_streams import Message, Partition, Store


@dataclass(frozen=True, slots=True)
class Resolved:
    """What one pass did."""

    messages: int = 0
    moved: int = 0


class Resolver:
    """Works through the graph messages of one partition."""

    def __init__(self, store: Store, partition: Partition) -> None:
        self._store = store
        self._here = partition

    async def handle(self, messages: list[Message]) -> Resolved:
        """Write the effects of these messages, then acknowledge them."""
        moved = await self._endings([message.job for message in messages if message.type == "ended"])
        for message in messages:
            if message.type == "subscribe":
                moved += await self._subscribe(message.job, message.dependency)
            elif message.type == "erased":
                await self._unsubscribe(message.job, message.dependency)
        await self._store.schedules.poke({message.schedule for message in messages if message.type == "run"})
        await self._here.graph.done(messages)
        return Resolved(len(messages), moved)

    async def _endings(self, ended: list[str]) -> int:
        moved = 0
        while ended:
            unfinished = []
            for job, resolution in zip(ended, await self._here.graph.resolve_all(ended), strict=True):
                moved += resolution.moved
                if resolution.elsewhere:
                    moved += await self._tell(job, resolution.elsewhere)
                if resolution.left > len(resolution.elsewhere):
                    unfinished.append(job)
            ended = unfinished
        return moved

    async def _tell(self, dependency: str, jobs: Iterable[str]) -> int:
        """Jobs of other partitions wait for one of this partition that has ended."""
        record = (await self._here.jobs.get([dependency]))[0]
        state = record.status.value if record else "MISSING"
        moved = 0
        for job in jobs:
            there = self._store.partition(job)
            if there is not None:
                moved += await there.graph.resolve_far(dependency, state, [job])
            await self._here.graph.forget(dependency, [job])
        return moved

    async def _subscribe(self, job: str, dependency: str) -> int:
        """A job of this partition needs one of another: be told when it ends, or hear at once that it has."""
        there = self._store.partition(dependency)
        state = await there.graph.watch(dependency, job) if there is not None else "MISSING"
        if there is not None and not await self._here.graph.needs(job, dependency):
            # It was erased, or let go, and another scheduler may have heard of that before this.
            await there.graph.forget(dependency, [job], erased=True)
        return await self._here.graph.resolve_far(dependency, state, [job])

    async def _unsubscribe(self, job: str, dependency: str) -> None:
        there = self._store.partition(dependency)
        if there is not None and partition_of(dependency) != self._here.index:
            await there.graph.forget(dependency, [job], erased=True)
