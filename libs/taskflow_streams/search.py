"""Search over the indexes of all partitions: filters, cursor, offset, totals.

Sorted by `created_at DESC, id ASC`.  The records of a page are loaded and filtered again, so what is shown is
current even where an index lags; `barrier` waits until the indexes have caught up with the moment of the
question.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING

from taskflow_domain import JobStatus, priority_of_order
from taskflow_streams.connection import Client
from taskflow_streams.errors import translated
from taskflow_streams.history import id_key
from taskflow_streams.indexes import ALL, index_name, owner_scope, queue_scope
from taskflow_streams.records import JobRecord

if TYPE_CHECKING:
    from taskflow_streams.store import Partition, Store

BARRIER_SECONDS = 0.25
SKIP_CHUNK = 1000
MAX_ROUNDS = 50  # of loading a page whose candidates have all changed meanwhile
Place = tuple[int, str]  # (-created_ms, id): what results are sorted by


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for; everything combines with AND."""

    queue: str | None = None
    owner: str | None = None
    statuses: tuple[JobStatus, ...] = tuple(JobStatus)
    priority_min: int = 1
    priority_max: int = 10
    created_from_ms: int | None = None  # inclusive
    created_before_ms: int | None = None  # exclusive

    def matches(self, job: JobRecord) -> bool:
        """Whether a record, as it is now, is what was looked for."""
        return (
            job.status in self.statuses
            and (self.queue is None or job.queue == self.queue)
            and (self.owner is None or job.owner == self.owner)
            and self.priority_min <= priority_of_order(job.order) <= self.priority_max
        )

    def index_names(self) -> list[str]:
        """The sorted sets that hold every match, and little else."""
        scope = queue_scope(self.queue) if self.queue is not None else ALL
        if self.queue is None and self.owner is not None:
            scope = owner_scope(self.owner)
        low, high = max(self.priority_min, 1), min(self.priority_max, 10)
        return [index_name(scope, status, p) for status in self.statuses for p in range(low, high + 1)]

    def partner_names(self) -> list[str] | None:
        """With both a queue and an owner: the sets, in the same order, that hold every match too; else None."""
        if self.queue is None or self.owner is None:
            return None
        return replace(self, queue=None).index_names()

    def scores(self, after: Place | None) -> tuple[str, str]:
        """The range of scores (-created_ms) still to be seen."""
        low = "-inf" if self.created_before_ms is None else str(-self.created_before_ms + 1)
        high = "+inf" if self.created_from_ms is None else str(-self.created_from_ms)
        if after is not None and (low == "-inf" or after[0] > int(low)):
            low = str(after[0])
        return low, high


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the results, and whether there are more."""

    items: list[JobRecord]
    has_more: bool


class Search:
    """Search over all partitions of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(self, query: Query, limit: int, after: Place | None = None, offset: int = 0) -> Page:
        """The next `limit` results after a place, or after skipping `offset` of them."""
        while offset > 0:
            skipped = await self._places(query, after, min(offset, SKIP_CHUNK))
            if not skipped:
                return Page([], has_more=False)
            offset -= len(skipped)
            after = skipped[-1]
        found: list[JobRecord] = []
        for _ in range(MAX_ROUNDS):
            wanted = limit + 1 - len(found)
            places = await self._places(query, after, wanted)
            records = await self._store.get([job_id for _, job_id in places])
            found += [record for record in records if record is not None and query.matches(record)]
            if len(found) > limit or len(places) < wanted:
                break
            after = places[-1]
        return Page(found[:limit], has_more=len(found) > limit)

    async def total(self, query: Query) -> int:
        """How many match, by the indexes.  With both a queue and an owner the smaller set of each pair is walked."""
        low, high = query.scores(None)
        counts = await asyncio.gather(
            *(self._count(partition, query, low, high) for partition in self._store.partitions)
        )
        return sum(counts)

    async def barrier(self, seconds: float = BARRIER_SECONDS) -> int:
        """Wait until the indexes show all that had happened when asked; the lag in ms that is left (0: none)."""
        lags = await asyncio.gather(*(_catch_up(partition, seconds) for partition in self._store.partitions))
        return max(lags)

    async def _places(self, query: Query, after: Place | None, count: int) -> list[Place]:
        """The next `count` places over all sets of all partitions."""
        rows = await asyncio.gather(
            *(
                _common_ranges(partition, query, after, count)
                if query.partner_names()
                else _ranges(partition.redis, _index_keys(partition, query.index_names()), query, after, count)
                for partition in self._store.partitions
            )
        )
        merged = heapq.merge(*(row for partition_rows in rows for row in partition_rows))
        places: list[Place] = []
        for place in merged:  # a job that moves between two reads can stand in two sets
            if not places or places[-1] != place:
                places.append(place)
            if len(places) == count:
                break
        return places

    async def _count(self, partition: Partition, query: Query, low: str, high: str) -> int:
        if query.partner_names():
            return sum(len(row) for row in await _common_ranges(partition, query, None, None))
        with translated():
            async with partition.redis.pipeline(transaction=False) as pipe:
                for name in query.index_names():
                    pipe.zcount(partition.keys("index", name), low, high)
                return sum(await pipe.execute())


def _index_keys(partition: Partition, names: Sequence[str]) -> list[str]:
    return [partition.keys("index", name) for name in names]


async def _common_ranges(
    partition: Partition, query: Query, after: Place | None, count: int | None
) -> list[list[Place]]:
    """For each pair of sets, one of the queue and one of the owner, the next `count` places in both (None: all)."""
    redis = partition.redis
    pairs = list(
        zip(
            _index_keys(partition, query.index_names()),
            _index_keys(partition, query.partner_names() or []),
            strict=True,
        )
    )
    with translated():
        async with redis.pipeline(transaction=False) as pipe:
            for pair in pairs:
                for key in pair:
                    pipe.zcard(key)
            sizes = await pipe.execute()
    rows = []
    for (one, other), first, second in zip(pairs, sizes[::2], sizes[1::2], strict=True):
        if first and second:
            walked, asked = (one, other) if first <= second else (other, one)
            rows.append(await _common(redis, walked, asked, query, after, count))
    return rows


async def _common(
    redis: Client, walked: str, asked: str, query: Query, after: Place | None, count: int | None
) -> list[Place]:
    """The next `count` places that stand in both sets; one is walked, in chunks, and the other asked."""
    found: list[Place] = []
    while count is None or len(found) < count:
        [places] = await _ranges(redis, [walked], query, after, SKIP_CHUNK)
        if not places:
            break
        with translated():
            scores = await redis.zmscore(asked, [job_id for _, job_id in places])
        found += [place for place, score in zip(places, scores, strict=True) if score is not None]
        after = places[-1]
    return found if count is None else found[:count]


async def _ranges(
    redis: Client, keys: Sequence[str], query: Query, after: Place | None, count: int
) -> list[list[Place]]:
    """For each set, its next `count` places after one."""
    low, high = query.scores(after)
    # Jobs of the cursor's own millisecond are read whole and cut by id: the cursor's job may be gone.
    resumes = after is not None and low == str(after[0])
    with translated():
        async with redis.pipeline(transaction=False) as pipe:
            for key in keys:
                if resumes:
                    pipe.zrangebyscore(key, low, low)
                pipe.zrangebyscore(key, f"({low}" if resumes else low, high, start=0, num=count, withscores=True)
            rows = await pipe.execute()
    if not resumes or after is None:
        return [[(int(score), member.decode()) for member, score in row] for row in rows]
    same = [[(after[0], member.decode()) for member in row if member.decode() > after[1]] for row in rows[::2]]
    later = [[(int(score), member.decode()) for member, score in row] for row in rows[1::2]]
    return [first + second for first, second in zip(same, later, strict=True)]


async def _catch_up(partition: Partition, seconds: float) -> int:
    tip = id_key(await partition.history.tip())
    deadline = monotonic() + seconds
    pause = 0.001
    while id_key(position := await partition.projection.position()) < tip:
        if monotonic() >= deadline:
            unseen = await partition.history.after(position, 1)
            return max(1, tip[0] - id_key(unseen[0].id)[0] + int(seconds * 1000)) if unseen else 0
        await asyncio.sleep(pause)  # the projector is a millisecond or two behind; nothing to block on is worth it
        pause = min(pause * 2, 0.02)
    return 0
