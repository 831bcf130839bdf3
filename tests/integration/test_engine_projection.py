"""Apply: the projector's position moves with what it writes, or neither does."""

import asyncio
from typing import Any

from taskflow_streams import Store

NOTHING: dict[str, Any] = {"adds": [], "removes": [], "totals": [], "minutes": [], "minute_ttl_ms": 60_000}


async def test_changes_and_position_are_one_step(store: Store) -> None:
    """Indexes, totals and minutes are written once."""
    partition = store.partitions[0]
    changes = {
        **NOTHING,
        "adds": [["*:READY:5", [-2000, "b", -1000, "a"]]],
        "totals": [["job.submitted", 2]],
        "minutes": [[29_000_000, [["job.submitted", 2]]]],
    }

    assert await partition.projection.apply("0-0", "5-1", changes) == "5-1"

    assert await partition.projection.position() == "5-1"
    index = partition.keys("index", "*:READY:5")
    assert await store.redis.zrange(index, 0, -1) == [b"b", b"a"]
    assert await partition.projection.totals() == {"job.submitted": 2}
    minute = partition.keys("minute", "29000000")
    assert await store.redis.hgetall(minute) == {b"job.submitted": b"2"}
    assert 0 < await store.redis.pttl(minute) <= 60_000


async def test_from_another_position_nothing_is_written(store: Store) -> None:
    """A projector that was overtaken learns where it is now."""
    projection = store.partitions[0].projection
    await projection.apply("0-0", "5-1", {**NOTHING, "totals": [["n", 1]]})

    assert await projection.apply("0-0", "7-7", {**NOTHING, "totals": [["n", 1]]}) == "5-1"
    assert await projection.apply("5-0", "7-7", {**NOTHING, "totals": [["n", 1]]}) == "5-1"

    assert await projection.totals() == {"n": 1}


async def test_of_many_projectors_at_once_one_writes(store: Store) -> None:
    """Each step is taken by exactly one."""
    projection = store.partitions[0].projection

    async def step(at: str, to: str) -> str:
        return await projection.apply(at, to, {**NOTHING, "totals": [["n", 1]]})

    for i in range(5):
        await asyncio.gather(*(step(f"{i}-0", f"{i + 1}-0") for _ in range(4)))

    assert await projection.totals() == {"n": 5}


async def test_what_leaves_an_index_is_gone(store: Store) -> None:
    """An index that becomes empty is no key any more."""
    partition = store.partitions[0]
    await partition.projection.apply("0-0", "1-0", {**NOTHING, "adds": [["x", [-1, "a"]]]})

    changes = {**NOTHING, "removes": [["x", ["a", "never there"]], ["y", ["z"]]]}
    await partition.projection.apply("1-0", "2-0", changes)

    assert await store.redis.exists(partition.keys("index", "x")) == 0


async def test_thousands_of_members_in_one_step(store: Store) -> None:
    """A whole batch may go into one index."""
    partition = store.partitions[0]
    members = [part for i in range(3500) for part in (-i, f"job{i}")]

    await partition.projection.apply("0-0", "1-0", {**NOTHING, "adds": [["x", members]]})

    assert await store.redis.zcard(partition.keys("index", "x")) == 3500


async def test_one_projector_is_active(store: Store) -> None:
    """The others stand by until it is silent."""
    projection = store.partitions[0].projection

    assert await projection.hold("first")
    assert not await projection.hold("second")
    assert await projection.hold("first")
    await store.redis.delete(store.partitions[0].keys("projector"))  # as if it had expired
    assert await projection.hold("second")
    assert not await projection.hold("first")
