"""Reap: a lease that was not renewed ends as a failed attempt, without backoff, exactly once."""

import asyncio

from taskflow_domain import JobStatus, RetryPolicy
from taskflow_streams import Reported, Store
from tests.support.engine import (
    Worker,
    a_job,
    a_running_job,
    a_worker,
    history,
    new_job,
    reap,
    record,
    settle,
    stall,
    status,
)


async def test_a_lost_lease_puts_the_job_back_at_once(store: Store) -> None:
    """It is READY without delay, the attempt counts, and the late worker's token is void."""
    held = await a_running_job(store)
    await stall(store, held, seconds=31)

    assert await reap(store) == (1, 0)

    kept = await record(store, held.job_id)
    assert (kept.status, kept.attempt, kept.fence, kept.worker) == (JobStatus.READY, 1, 2, None)
    lost = (await history(store, held.job_id))[-1]
    assert (lost.type, lost.worker, lost.more["error"]) == ("job.lost", "w1", "LeaseLost")
    assert lost.more["idle_ms"] >= 31_000
    again = await (await a_worker(store, "w2")).take()
    assert (again.job_id, again.lease.attempt, again.lease.fence) == (held.job_id, 2, 3)
    assert await Worker(store.partitions[0], "w1").complete(held) is Reported.STALE
    assert await Worker(store.partitions[0], "w2").complete(again) is Reported.OK


async def test_nothing_is_reaped_twice(store: Store) -> None:
    """Two reapers at once end a lease once."""
    worker = await a_worker(store)
    await store.submit([new_job(store) for _ in range(20)])
    for held in await worker.lease(20):
        await stall(store, held)

    reaped = await asyncio.gather(*(reap(store) for _ in range(4)))

    assert sum(count for count, _ in reaped) == 20
    assert await reap(store) == (0, 0)


async def test_a_poison_job_ends(store: Store) -> None:
    """A job that takes its workers with it is tried as often as its policy says, and says what happened."""
    job = await a_job(store, retry=RetryPolicy(max_attempts=2))
    child = await a_job(store, dependencies=(job,))
    results = []
    for name in ("w1", "w2"):
        await stall(store, await (await a_worker(store, name)).take())
        results.append(await reap(store))

    assert results == [(1, 0), (1, 1)]
    kept = await record(store, job)
    assert (kept.status, kept.attempt) == (JobStatus.FAILED, 2)
    assert kept.failure is not None
    assert kept.failure.kind == "LeaseLost"
    assert "w2" in kept.failure.message
    await settle(store)
    assert await status(store, child) is JobStatus.BLOCKED


async def test_a_lost_job_that_was_to_be_cancelled_is_canceled(store: Store) -> None:
    """Its worker will not tell; the reaper does."""
    held = await a_running_job(store)
    await store.cancel(held.job_id)
    await stall(store, held)

    assert await reap(store) == (1, 0)

    assert await status(store, held.job_id) is JobStatus.CANCELED
    assert await Worker(store.partitions[0]).complete(held) is Reported.STALE


async def test_several_queues_in_one_call_and_only_those(store: Store) -> None:
    """All together up to the limit."""
    worker = await a_worker(store)
    await store.submit([new_job(store, queue=queue) for queue in ("a", "a", "b", "c")])
    for held in await worker.lease(4):
        await stall(store, held)
    upkeep = store.partitions[0].upkeep

    assert await upkeep.reap("a", "b", visibility_ms=15_000, limit=2) == (2, 0)
    assert await upkeep.reap("a", "b", visibility_ms=15_000, limit=2) == (1, 0)
    assert (await store.partitions[0].queues.get("c")).running == 1


async def test_a_queue_that_nobody_ever_used(store: Store) -> None:
    """A queue that only has settings can be swept like any other."""
    await store.partitions[0].queues.set("quiet", {"weight": 2})

    assert await store.partitions[0].queues.names() == ["quiet"]
    assert await reap(store, "quiet") == (0, 0)


async def test_the_lease_of_a_deleted_job_is_no_lease(store: Store) -> None:
    """Deleting it has ended it already."""
    held = await a_running_job(store)
    await store.delete(held.job_id)

    assert await reap(store, visibility_ms=0) == (0, 0)
