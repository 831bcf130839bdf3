"""The scheduler releases jobs when they are due and when their dependencies have ended, also after a crash."""

from __future__ import annotations

from taskflow_domain import JobStatus
from taskflow_scheduler.schedule import PartitionScheduler, Scheduled
from taskflow_streams import Store
from tests.support.engine import Clock, a_job, a_worker, messages, new_job, record, statuses


def a_scheduler(store: Store, name: str = "s1", partition: int = 0) -> PartitionScheduler:
    return PartitionScheduler(store, store.partitions[partition], name, take_over_after_s=5)


async def test_a_due_job_is_released(store: Store, clock: Clock) -> None:
    """A delayed job becomes leasable when its time has come, and not before."""
    worker = await a_worker(store)
    job = await a_job(store, delay_ms=60_000)
    scheduler = a_scheduler(store)
    await scheduler.run_once()  # reads the message about the new earliest due time

    assert await worker.lease(1) == []
    clock.forward(60)
    assert (await scheduler.run_once()).promoted == 1

    assert [held.job_id for held in await worker.lease(1)] == [job]


async def test_the_scheduler_sleeps_no_longer_than_the_next_due_time(store: Store) -> None:
    """A job due in a moment is released by the same scheduler without any other wake-up."""
    worker = await a_worker(store)
    scheduler = a_scheduler(store)
    await a_job(store, delay_ms=80)
    while not (await scheduler.run_once()).promoted:
        pass

    assert len(await worker.lease(1)) == 1


async def test_a_chain_runs_link_by_link(store: Store) -> None:
    """B waits for A and C for B; each is released by the ending before it."""
    worker, scheduler = await a_worker(store), a_scheduler(store)
    a = await a_job(store)
    b = await a_job(store, dependencies=(a,))
    c = await a_job(store, dependencies=(b,))

    for expected in (a, b, c):
        held = await worker.take()
        assert held.job_id == expected
        await worker.complete(held)
        await scheduler.run_once()

    assert await statuses(store, [a, b, c]) == ["COMPLETED"] * 3


async def test_a_diamond_joins_when_both_arms_are_done(store: Store) -> None:
    """D runs only after B and C, which run only after A."""
    worker, scheduler = await a_worker(store), a_scheduler(store)
    a = await a_job(store)
    b, c = await a_job(store, dependencies=(a,)), await a_job(store, dependencies=(a,))
    d = await a_job(store, dependencies=(b, c))
    await worker.complete(await worker.take())
    await scheduler.run_once()

    await worker.complete(await worker.take())
    await scheduler.run_once()
    assert (await statuses(store, [d])) == ["PENDING"]
    await worker.complete(await worker.take())
    await scheduler.run_once()

    assert (await worker.take()).job_id == d


async def test_a_message_of_a_dead_scheduler_is_taken_over(store: Store) -> None:
    """A scheduler that dies after it read a message and before it acted loses nothing."""
    worker = await a_worker(store)
    a = await a_job(store)
    b = await a_job(store, dependencies=(a,))
    await worker.complete(await worker.take())
    graph = store.partitions[0].graph
    [taken] = await graph.read("dead", block_ms=1)

    redis, keys = store.redis, store.partitions[0].keys
    await redis.xclaim(keys("graph"), "scheduler", "dead", 0, [taken.id], idle=6000, justid=True)
    done = await a_scheduler(store).run_once()

    assert done == Scheduled(messages=1, moved=1)
    assert (await record(store, b)).status is JobStatus.READY
    assert await messages(store) == []


async def test_a_dependency_in_another_partition_is_waited_for(wide_store: Store) -> None:
    """A job waits for one of another partition, and is released when that has ended."""
    store = wide_store
    near, far = store._ids.new(1), store._ids.new(2)
    await a_job(store, id=far)
    await a_job(store, id=near, dependencies=(far,))
    here, there = a_scheduler(store, partition=1), a_scheduler(store, partition=2)
    await here.run_once()  # subscribes
    assert await statuses(store, [near]) == ["PENDING"]

    worker = await a_worker(store, partition=2)
    await worker.complete(await worker.take())
    assert (await there.run_once()).moved == 1

    assert await statuses(store, [far, near]) == ["COMPLETED", "READY"]


async def test_a_dependency_elsewhere_that_has_ended_already_is_heard_of_at_once(wide_store: Store) -> None:
    """The subscription itself answers when there is nothing to wait for any more."""
    store = wide_store
    near, far = store._ids.new(1), store._ids.new(2)
    await a_job(store, id=far)
    await store.cancel(far)
    await a_job(store, id=near, dependencies=(far,))

    await a_scheduler(store, partition=1).run_once()

    assert await statuses(store, [near]) == ["BLOCKED"]
    await store.delete(near)
    await a_scheduler(store, partition=1).run_once()
    assert await store.delete(far) == "deleted"


async def test_thousands_that_wait_are_moved_whole(store: Store) -> None:
    """Many parents with many children each end together: every child becomes leasable, in bounded steps."""
    worker = await a_worker(store)
    parents = [new_job(store) for _ in range(12)]
    await store.submit(parents)
    for parent in parents:
        await store.submit([new_job(store, dependencies=(parent.id,)) for _ in range(500)])
    for held in await worker.lease(12):
        await worker.complete(held)

    moved = 0
    while (done := await a_scheduler(store).run_once()).messages:
        moved += done.moved

    assert moved == 6000
    assert await store.redis.zcard(store.partitions[0].keys("ready", "q:work")) == 6000


async def test_a_scheduler_goes_on_after_all_data_were_deleted(store: Store) -> None:
    """Whether it takes messages over or waits for new ones, it makes its group anew, and hears what comes then."""
    graph = store.partitions[0].graph
    for look in (graph.take_over("s", 0), graph.read("s", 1)):
        await store.redis.flushdb()
        assert await look == []
        assert await graph.read("s", 1) == []

    await a_job(store, delay_ms=1_000)
    assert [message.type for message in await graph.read("s", 1)] == ["due"]
