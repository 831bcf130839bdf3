"""Workers come and go: a job whose handler nobody has waits, costs no attempt, and is found again."""

import pytest

from taskflow_domain import JobStatus
from taskflow_streams import Pool, Store
from tests.support.engine import (
    Clock,
    Worker,
    a_job,
    a_running_job,
    a_worker,
    new_job,
    reap,
    record,
    stall,
    status,
)

PAINT = Pool(frozenset({"paint"}))


async def test_a_job_without_a_handler_waits(store: Store) -> None:
    """It is READY, nobody takes it, and it has lost no attempt when its worker comes at last."""
    workers = store.partitions[0].workers
    job = await a_job(store, handler="paint")
    other = await a_worker(store, "w1")

    assert await other.lease(5) == []
    assert not await workers.able("paint")
    assert (await store.partitions[0].queues.get("q")).waiting == 0

    painter = await a_worker(store, "w2", PAINT)
    assert await workers.able("paint")
    assert await painter.hears_bell()
    held = await painter.take()
    assert (held.job_id, held.lease.attempt) == (job, 1)


async def test_join_twice_is_join_once(store: Store) -> None:
    """A worker that lost the reply says it again."""
    worker = await a_worker(store)
    await worker.join()

    assert [shown.id for shown in await store.partitions[0].workers.list()] == ["w1"]
    assert await store.partitions[0].workers.leave("w1")
    assert not await store.partitions[0].workers.able("work")


async def test_the_last_leave_closes_the_lane(store: Store) -> None:
    """While one of a pool, or another pool with the handler, is there, the jobs can be leased."""
    workers = store.partitions[0].workers
    first, second = await a_worker(store, "w1"), await a_worker(store, "w2")
    third = await a_worker(store, "w3", Pool(frozenset({"work", "paint"})))
    await store.submit([new_job(store) for _ in range(3)])

    await workers.leave("w1")
    assert len(await second.lease(1)) == 1
    await second.release((await Worker(store.partitions[0], "w2").lease(1))[0])
    await store.partitions[0].leases.resync("w2", [])
    await workers.leave("w2")
    assert len(await third.lease(1)) == 1
    await store.partitions[0].leases.resync("w3", [])
    await workers.leave("w3")

    assert not await workers.able("work")
    assert await first.lease(3) == []
    assert len(await (await a_worker(store, "w4")).lease(5)) == 3


async def test_a_job_submitted_while_nobody_is_there_is_found_by_all_queues(store: Store) -> None:
    """Lanes of several queues open together."""
    await store.submit([new_job(store, queue=queue) for queue in ("a", "b", "c")])

    assert len(await (await a_worker(store)).lease(5)) == 3


async def test_a_worker_that_changes_its_pool_leaves_the_old_one(store: Store) -> None:
    """What it could do once does not count as somebody's skill any more."""
    workers = store.partitions[0].workers
    await a_worker(store, "w1")

    await a_worker(store, "w1", PAINT)

    assert not await workers.able("work")
    assert await workers.able("paint")
    await workers.leave("w1")
    assert not await workers.able("paint")


async def test_who_leaves_with_leases_stays_on_the_list_until_they_are_gone(store: Store) -> None:
    """Its jobs are reaped first; then nothing of it is left."""
    workers = store.partitions[0].workers
    held = await a_running_job(store)

    assert not await workers.leave("w1")
    assert [shown.id for shown in await workers.list()] == ["w1"]
    await stall(store, held)
    assert await reap(store) == (1, 0)
    assert await workers.leave("w1")
    assert await workers.list() == []


async def test_a_silent_worker_is_buried_and_a_living_one_is_not(store: Store, clock: Clock) -> None:
    """Who has spoken since is left alone; who was buried learns of it and joins again."""
    workers, leases = store.partitions[0].workers, store.partitions[0].leases
    await a_worker(store, "dead")
    clock.forward(20)
    await a_worker(store, "alive")
    seen_before = clock.now_ms - 15_000

    assert await workers.silent_since(seen_before) == [("dead", clock.now_ms - 20_000, False)]
    assert await workers.bury("dead", seen_before, forget=False) == "left"
    assert await workers.bury("alive", seen_before, forget=False) == "alive"

    assert await workers.silent_since(seen_before) == [("dead", clock.now_ms - 20_000, True)]
    assert await leases.renew("dead", []) == ([], False)
    assert await leases.renew("alive", [], {"running": 2}) == ([], True)
    shown = {worker.id: worker.fields for worker in await workers.list()}
    assert shown["alive"]["running"] == "2"
    assert "buried" in shown["dead"]
    await a_worker(store, "dead")
    assert await leases.renew("dead", []) == ([], True)


async def test_burying_the_last_of_a_pool_parks_its_jobs(store: Store, clock: Clock) -> None:
    """A handler that only the dead had is a handler nobody has."""
    held = await a_running_job(store)
    clock.forward(60)
    await stall(store, held)
    await reap(store)

    assert await store.partitions[0].workers.bury("w1", clock.now_ms, forget=True) == "left"

    assert await status(store, held.job_id) is JobStatus.READY
    assert await Worker(store.partitions[0]).lease(1) == []
    assert await store.partitions[0].workers.list() == []


async def test_a_buried_worker_may_still_report(store: Store, clock: Clock) -> None:
    """The fence decides who holds a job, not the list of workers."""
    held = await a_running_job(store)
    clock.forward(60)
    assert await store.partitions[0].workers.bury("w1", clock.now_ms, forget=True) == "holding"

    assert await Worker(store.partitions[0]).complete(held) == "ok"

    assert (await record(store, held.job_id)).status is JobStatus.COMPLETED


@pytest.mark.parametrize("handler", ["a.b", "a:b", "@shell", "weird name ü"])
async def test_any_name_will_do_for_a_handler(store: Store, handler: str) -> None:
    """Colons and spaces in it are nobody's separators."""
    held = await a_running_job(store, handler=handler)

    assert held.lease.handler == handler
    assert await Worker(store.partitions[0]).complete(held) == "ok"
