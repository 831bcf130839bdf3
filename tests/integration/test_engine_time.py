"""What time does: due jobs enter their lanes, and what never started by its deadline expires."""

import pytest

from taskflow_domain import JobStatus
from taskflow_streams import Store
from tests.support.engine import (
    Clock,
    Worker,
    a_job,
    a_running_job,
    a_worker,
    history,
    messages,
    new_job,
    record,
    settle,
    status,
    statuses,
)


async def test_a_due_job_is_promoted_when_its_time_has_come(store: Store, clock: Clock) -> None:
    """Not a millisecond before; promoting again moves nothing."""
    upkeep, worker = store.partitions[0].upkeep, await a_worker(store)
    job = await a_job(store, delay_ms=5_000)
    clock.forward(4.999)
    assert await upkeep.promote() == (0, 1)
    assert await worker.lease(1) == []

    clock.forward(0.001)
    assert await upkeep.promote() == (1, None)
    assert await upkeep.promote() == (0, None)

    assert (await worker.take()).job_id == job
    assert [event.type for event in await history(store, job)] == ["job.submitted", "job.started"]


async def test_promote_says_how_long_it_may_sleep(store: Store, clock: Clock) -> None:
    """Until the next is due; not at all while some are left."""
    upkeep = store.partitions[0].upkeep
    await store.submit([new_job(store, due_ms=clock.now_ms + ms) for ms in (1_000, 1_000, 1_000, 8_000)])
    clock.forward(1)

    assert await upkeep.promote(limit=2) == (2, 0)
    assert await upkeep.promote(limit=2) == (1, 7_000)


async def test_promoted_jobs_stand_by_their_age_not_by_their_due_time(store: Store, clock: Clock) -> None:
    """Order inside a queue is priority, then creation."""
    old = await a_job(store, delay_ms=2_000)
    clock.forward(1)
    young = await a_job(store)
    clock.forward(1)
    await store.partitions[0].upkeep.promote()

    assert [held.job_id for held in await (await a_worker(store)).lease(2)] == [old, young]


async def test_due_and_dependent_is_both(store: Store, clock: Clock) -> None:
    """A job waits for its dependencies first, and then for its time, if that is later."""
    worker = await a_worker(store)
    parent = await a_job(store)
    child = await a_job(store, dependencies=(parent,), delay_ms=10_000)
    assert await messages(store) == []
    await worker.complete(await worker.take())
    assert (await store.partitions[0].graph.resolve(parent)).moved == 1

    assert await status(store, child) is JobStatus.READY
    assert await worker.lease(1) == []
    assert await messages(store) == [("ended", parent), ("due", "")]
    clock.forward(10)
    assert await store.partitions[0].upkeep.promote() == (1, None)
    assert (await worker.take()).job_id == child


async def test_a_lost_or_released_job_that_was_delayed_goes_back_at_once(store: Store, clock: Clock) -> None:
    """Its due time has passed for good."""
    worker = await a_worker(store)
    job = await a_job(store, delay_ms=1_000)
    clock.forward(1)
    await store.partitions[0].upkeep.promote()
    await worker.release(await worker.take())

    assert (await worker.take()).job_id == job


@pytest.mark.parametrize("state", ["ready", "parked", "delayed", "pending"])
async def test_what_never_started_expires_wherever_it_waits(store: Store, clock: Clock, state: str) -> None:
    """And those that wait for it are blocked."""
    extra: dict[str, object] = {}
    if state == "parked":
        extra = {"handler": "nobody"}
    if state == "delayed":
        extra = {"delay_ms": 60_000}
    if state == "pending":
        extra = {"dependencies": (await a_job(store),)}
    job = await a_job(store, expires_ms=clock.now_ms + 2_000, **extra)
    child = await a_job(store, dependencies=(job,))
    upkeep = store.partitions[0].upkeep
    assert await upkeep.expire() == 0
    clock.forward(2)

    assert await upkeep.expire() == 1
    assert await upkeep.expire() == 0

    kept = await record(store, job)
    assert (kept.status, kept.finished_ms, kept.attempt) == (JobStatus.EXPIRED, clock.now_ms, 0)
    await settle(store)
    assert await status(store, child) is JobStatus.BLOCKED


async def test_what_has_started_does_not_expire(store: Store, clock: Clock) -> None:
    """Neither while it runs nor when it waits for another attempt."""
    held = await a_running_job(store, ttl_ms=1_000)
    clock.forward(2)
    assert await store.partitions[0].upkeep.expire() == 0
    await Worker(store.partitions[0]).fail(held)
    clock.forward(2)

    assert await store.partitions[0].upkeep.expire() == 0

    assert await status(store, held.job_id) is JobStatus.READY


async def test_expiry_goes_in_batches(store: Store, clock: Clock) -> None:
    """At most `limit` in one call."""
    jobs = [new_job(store, ttl_ms=10) for _ in range(5)]
    await store.submit(jobs)
    clock.forward(1)
    upkeep = store.partitions[0].upkeep

    assert [await upkeep.expire(limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert await statuses(store, [job.id for job in jobs]) == ["EXPIRED"] * 5


async def test_the_server_has_the_time_when_nobody_says_otherwise(store: Store) -> None:
    """In milliseconds since 1970, for all alike."""
    before = await store.now_ms()
    job = await a_job(store)
    after = await store.now_ms()

    assert before <= (await record(store, job)).created_ms <= after
