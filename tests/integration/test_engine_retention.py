"""Retention: what ended first goes first, by age, count and bytes; never what is waited for or not yet projected."""

import pytest

from taskflow_domain import JobStatus
from taskflow_streams import Store, Submitted, id_key
from tests.support.engine import (
    Clock,
    Worker,
    a_job,
    a_running_job,
    an_ended_job,
    history,
    new_job,
    settle,
    status,
    statuses,
)
from tests.support.picture import take

FOREVER = 1 << 40


async def ended_jobs(store: Store, clock: Clock, count: int) -> list[str]:
    """Jobs that ended one second after the other."""
    jobs = []
    for _ in range(count):
        jobs.append(await an_ended_job(store))
        clock.forward(1)
    return jobs


async def test_by_age(store: Store, clock: Clock) -> None:
    """What ended before then goes; what ended at that moment stays."""
    jobs = await ended_jobs(store, clock, 4)
    upkeep = store.partitions[0].upkeep

    assert await upkeep.retire(clock.now_ms - 2_000) == (2, 0)
    assert await upkeep.retire(clock.now_ms - 2_000) == (0, 0)

    assert await statuses(store, jobs) == ["MISSING", "MISSING", "COMPLETED", "COMPLETED"]
    deleted = (await history(store, jobs[0]))[-1]
    assert (deleted.type, deleted.more) == ("job.deleted", {"reason": "retention"})


async def test_by_count(store: Store, clock: Clock) -> None:
    """The newest stay, however old they are."""
    jobs = await ended_jobs(store, clock, 4)

    assert await store.partitions[0].upkeep.retire(0, max_count=1) == (3, 0)

    assert await statuses(store, jobs) == ["MISSING"] * 3 + ["COMPLETED"]


async def test_by_bytes(store: Store, clock: Clock) -> None:
    """As many go as it takes, counted with their payloads, results and output."""
    partition = store.partitions[0]
    jobs = []
    for _ in range(4):
        held = await a_running_job(store, payload=b'"%s"' % (b"p" * 1_000))
        await partition.leases.log("w1", held.token, [("stdout", b"o" * 2_000)], 10_000)
        await Worker(partition).complete(held, b'"%s"' % (b"r" * 3_000))
        jobs.append(held.job_id)
        clock.forward(1)

    assert await partition.upkeep.retire(0, max_bytes=14_000) == (2, 0)

    assert await statuses(store, jobs) == ["MISSING"] * 2 + ["COMPLETED"] * 2


async def test_what_is_waited_for_stays(store: Store, clock: Clock) -> None:
    """Until those who wait have been told; and it is not in the way of the others."""
    upkeep = store.partitions[0].upkeep
    parent = await a_running_job(store)
    child = await a_job(store, dependencies=(parent.job_id,))
    await Worker(store.partitions[0]).complete(parent)
    others = await ended_jobs(store, clock, 2)
    clock.forward(60)

    assert await upkeep.retire(clock.now_ms, max_count=0, max_bytes=0) == (2, 1)

    assert await statuses(store, [parent.job_id, *others]) == ["COMPLETED", "MISSING", "MISSING"]
    await settle(store)
    assert await upkeep.retire(clock.now_ms) == (1, 0)
    assert await status(store, child) is JobStatus.READY


async def test_live_jobs_stay_whatever_the_limits(store: Store, clock: Clock) -> None:
    """Only what has ended is old."""
    ready = await a_job(store)
    clock.forward(FOREVER / 1e9)

    assert await store.partitions[0].upkeep.retire(clock.now_ms, max_count=0, max_bytes=0) == (0, 0)

    assert await status(store, ready) is JobStatus.READY


async def test_at_most_so_many_in_one_call(store: Store, clock: Clock) -> None:
    """Redis serves nobody else meanwhile."""
    await ended_jobs(store, clock, 5)
    upkeep = store.partitions[0].upkeep

    assert [await upkeep.retire(clock.now_ms, limit=2) for _ in range(4)] == [(2, 0), (2, 0), (1, 0), (0, 0)]


async def test_a_keyed_job_leaves_a_mark(store: Store, clock: Clock) -> None:
    """So the id its key is tied to does not run twice."""
    job = new_job(store, has_key=True)
    await store.submit([job])
    await store.cancel(job.id)
    clock.forward(1)
    await store.partitions[0].upkeep.retire(clock.now_ms)

    assert await store.submit([job]) == [Submitted.GONE]


async def test_when_all_is_removed_nothing_is_left(store: Store, clock: Clock) -> None:
    """No bytes are counted any more, and no key of any job is there."""
    partition = store.partitions[0]
    parent = await an_ended_job(store)
    child = await an_ended_job(store, JobStatus.FAILED, dependencies=(parent,))
    await a_job(store, dependencies=(child,), ttl_ms=60_000)
    await an_ended_job(store, JobStatus.CANCELED, delay_ms=5_000, ttl_ms=60_000)
    clock.forward(1)

    assert await partition.upkeep.retire(clock.now_ms) == (4, 0)

    picture = await take(partition)
    assert picture.hashes["meta"][""]["bytes"] == "0"
    shelves = (picture.strings, picture.hashes, picture.sets, picture.zsets, picture.streams)
    left = {name for shelf in shelves for name, keys in shelf.items() if keys}
    permanent = {"meta", "queues", "queue", "work", "graph", "events"}
    assert left <= permanent | {"worker", "workers", "pools", "members", "skills", "able", "bell"}


async def project(store: Store, position: str) -> None:
    """Say that the projector has come so far."""
    empty: dict[str, list[object]] = {"adds": [], "removes": [], "totals": [], "minutes": []}
    projection = store.partitions[0].projection
    await projection.apply(await projection.position(), position, {**empty, "minute_ttl_ms": 1})


async def test_history_is_never_trimmed_past_the_projector(store: Store) -> None:
    """However old or large it is."""
    partition = store.partitions[0]
    await store.submit([new_job(store) for _ in range(1000)])
    middle = (await partition.history.after("0-0", 500))[-1].id

    assert await partition.upkeep.trim_events(FOREVER * 2, 0) == 0
    await project(store, middle)
    for _ in range(20):
        await partition.upkeep.trim_events(FOREVER * 2, 0)

    left = await partition.history.after("0-0", 2000)
    assert id_key(left[0].id) <= id_key(middle)
    assert 500 <= len(left) < 700


@pytest.mark.parametrize("chunk", [50, 1000])
async def test_a_large_batch_in_one_millisecond_does_not_stop_the_trimming(store: Store, chunk: int) -> None:
    """All events of one script have the same time; they go all the same, a chunk at a time."""
    partition = store.partitions[0]
    for _ in range(2):
        await store.submit([new_job(store) for _ in range(1000)])
    tip = await partition.history.tip()
    await project(store, tip)

    removed = [await partition.upkeep.trim_events(0, 20_000, chunk) for _ in range(60)]

    assert sum(removed) > 1_800
    assert max(removed) <= chunk + 100
    assert (await partition.history.after("0-0", 5000))[-1].id == tip


async def test_history_is_trimmed_by_age(store: Store) -> None:
    """Only what is older; what is young stays, projected or not."""
    partition = store.partitions[0]
    await store.submit([new_job(store) for _ in range(300)])
    tip = await partition.history.tip()
    await project(store, tip)
    now_ms = await store.now_ms()

    assert await partition.upkeep.trim_events(now_ms - 60_000, FOREVER) == 0
    assert await partition.upkeep.trim_events(now_ms + 60_000, FOREVER) >= 200

    assert await partition.history.tip() == tip
