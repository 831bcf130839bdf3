"""The reaper ends lost leases, but judges only what it has watched; it expires, buries and forgets."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from taskflow_domain import JobStatus, RetryPolicy
from taskflow_reaper.settings import ReaperSettings
from taskflow_reaper.sweep import Sweeper, Swept
from taskflow_streams import Pool, Reported, Store, Unavailable
from taskflow_streams.embedded import EmbeddedServer
from tests.support.engine import (
    Clock,
    Worker,
    a_job,
    a_running_job,
    a_worker,
    an_ended_job,
    new_job,
    record,
    settle,
    stall,
    status,
)


@dataclass
class Ticks:
    """A reaper's sense of time, in the test's hands."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


def a_sweeper(store: Store, ticks: Ticks, **settings: float) -> Sweeper:
    return Sweeper(store, store.partitions[0], ReaperSettings(**settings), clock=ticks)  # type: ignore[arg-type]


async def watched(sweeper: Sweeper, ticks: Ticks, seconds: float = 15) -> Swept:
    """Let the reaper tick once a second for so long; what the last tick did."""
    swept = await sweeper.run_once()
    for _ in range(int(seconds)):
        ticks.now_s += 1
        swept = await sweeper.run_once()
    return swept


async def test_a_silent_workers_job_goes_back_at_once(store: Store) -> None:
    """A lease that was not renewed in time is a failed attempt without backoff."""
    held = await a_running_job(store)
    ticks = Ticks()
    sweeper = a_sweeper(store, ticks)
    await watched(sweeper, ticks, 14)
    await stall(store, held, 15)

    ticks.now_s += 1
    swept = await sweeper.run_once()

    assert swept.reaped == 1
    job = await record(store, held.job_id)
    assert (job.status, job.attempt, job.worker) == (JobStatus.READY, 1, None)


async def test_a_late_worker_changes_nothing_after_the_reaper(store: Store) -> None:
    """A worker that lost its lease can neither finish nor lose the job it held."""
    held = await a_running_job(store, worker="w1")
    await stall(store, held, 15)
    ticks = Ticks()
    assert (await watched(a_sweeper(store, ticks), ticks)).reaped == 1
    second = await a_worker(store, "w2")
    again = await second.take()

    assert await Worker(store.partitions[0], "w1").complete(held) is Reported.STALE

    assert (await record(store, again.job_id)).worker == "w2"


async def test_a_poison_job_ends(store: Store) -> None:
    """A job that takes its worker down each time fails when its attempts are used up, and says why."""
    held = await a_running_job(store, retry=RetryPolicy(max_attempts=1))
    await stall(store, held, 15)
    ticks = Ticks()

    swept = await watched(a_sweeper(store, ticks), ticks)

    assert (swept.reaped, swept.failed) == (1, 1)
    job = await record(store, held.job_id)
    assert job.status is JobStatus.FAILED
    assert job.failure is not None
    assert job.failure.kind == "LeaseLost"


async def test_a_reaper_that_just_started_judges_nothing(store: Store) -> None:
    """However idle a lease is, it is reaped only after a whole visibility time-out of watching."""
    held = await a_running_job(store)
    await stall(store, held, 3600)
    ticks = Ticks()

    swept = await watched(a_sweeper(store, ticks), ticks, 14)

    assert swept.reaped == 0
    assert await status(store, held.job_id) is JobStatus.RUNNING


async def test_an_outage_costs_no_running_job_an_attempt() -> None:
    """Redis is away for longer than the visibility time-out; the worker renews when it is back, and keeps its job."""
    with EmbeddedServer.temporary(durable=True) as server:
        store = await Store.connect(server.url)
        held = await a_running_job(store)
        ticks = Ticks()
        sweeper = a_sweeper(store, ticks)
        await watched(sweeper, ticks, 20)

        server.kill()
        ticks.now_s += 1
        with pytest.raises(Unavailable):
            await sweeper.run_once()
        server.start()
        await stall(store, held, 60)  # idle time runs on while the server is down
        ticks.now_s += 1
        assert (await watched(sweeper, ticks, 5)).reaped == 0
        assert await Worker(store.partitions[0], "w1").renew(held) == ["ok"]
        swept = await watched(sweeper, ticks, 15)

        assert swept.reaped == 0
        assert await Worker(store.partitions[0], "w1").complete(held) is Reported.OK
        await store.close()


async def test_a_job_that_never_started_in_time_expires(store: Store, clock: Clock) -> None:
    """A time to live ends a job that waits, and never one that ran."""
    running = await a_running_job(store, ttl_ms=10_000)
    waiting = await a_job(store, ttl_ms=10_000)
    clock.forward(11)

    assert (await a_sweeper(store, Ticks(), retention_s=1e9).run_once()).expired == 1

    assert await status(store, waiting) is JobStatus.EXPIRED
    assert await status(store, running.job_id) is JobStatus.RUNNING


async def test_a_dead_worker_is_buried_and_its_handlers_with_it(store: Store) -> None:
    """A worker without heartbeats leaves its pool; jobs for its handler are parked until another one comes."""
    await a_worker(store, "w1")
    keys = store.partitions[0].keys
    await store.redis.zadd(keys("workers"), {"w1": 1})
    ticks = Ticks()

    swept = await watched(a_sweeper(store, ticks), ticks)

    assert swept.buried == 1
    assert await store.partitions[0].workers.able("work") is False
    assert await store.partitions[0].workers.list() == []  # its last heartbeat is older than worker_forget_s too


async def test_old_endings_are_forgotten_and_waited_ones_kept(store: Store, clock: Clock) -> None:
    """Retention removes what ended long ago, but never what a live job still waits for."""
    old = await an_ended_job(store)
    needed = await an_ended_job(store)
    waits = await a_job(store, dependencies=(needed, await a_job(store)))
    await store.redis.sadd(store.partitions[0].keys("waited", needed), waits)  # as if nobody had told it yet
    clock.forward(2 * 3600)
    recent = await an_ended_job(store, worker="w2", order=0)

    swept = await a_sweeper(store, Ticks(), retention_s=3600).run_once()

    assert swept.retired == 1
    assert await status(store, old) is None
    assert await status(store, needed) is JobStatus.COMPLETED
    await store.redis.delete(store.partitions[0].keys("waited", needed))
    assert await status(store, recent) is JobStatus.COMPLETED


async def test_a_reap_that_comes_late_does_nothing(store: Store) -> None:
    """A call that waited in a server that stood still must not judge: the renewals waited with it."""
    held = await a_running_job(store)
    await stall(store, held, 15)
    upkeep, now_ms = store.partitions[0].upkeep, await store.now_ms()

    assert await upkeep.reap("q", visibility_ms=15_000, by_ms=now_ms - 1) == (0, 0)
    assert await upkeep.reap("q", visibility_ms=15_000, by_ms=now_ms + 60_000) == (1, 0)


async def test_thousands_of_lost_leases_are_ended_whole(store: Store) -> None:
    """However many end at once, each is recorded, and who waits for one of them hears of it."""
    pool = Pool(frozenset({"work"}))
    worker = await a_worker(store)
    queues = [f"q{number}" for number in range(9)]
    once = RetryPolicy(max_attempts=1)
    for queue in queues:
        await store.submit([new_job(store, queue=queue, retry=once) for _ in range(500)])
    parent = ""
    while leases := await store.partitions[0].leases.lease("w1", pool, 500):
        parent = leases[0].job_id
    child = await a_job(store, dependencies=(parent,))

    total = failed = 0
    while (swept := await store.partitions[0].upkeep.reap(*queues, visibility_ms=0, limit=5000)) != (0, 0):
        total, failed = total + swept[0], failed + swept[1]
    await settle(store)

    assert (total, failed) == (4500, 4500)
    assert await store.redis.zcard(store.partitions[0].keys("ended")) == 4501
    assert await status(store, child) is JobStatus.BLOCKED
    assert await worker.lease(1) == []
