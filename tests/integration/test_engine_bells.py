"""Bells: an idle worker sleeps until there is something for it, and one ring wakes as many as are needed."""

import asyncio

import pytest

from taskflow_streams import Change, Ending, How, Order, Pool, Store
from tests.support.engine import (
    Clock,
    Worker,
    a_job,
    a_running_job,
    a_worker,
    an_ended_job,
    new_job,
    reap,
    settle,
    stall,
)


async def test_an_idle_worker_wakes_when_a_job_comes(store: Store) -> None:
    """It sleeps in one blocking read, and a submit ends that."""
    worker = await a_worker(store)
    sleep = asyncio.create_task(store.partitions[0].leases.wait("w1", worker.pool, 10))

    job = await a_job(store)

    assert await asyncio.wait_for(sleep, 10) is True
    assert (await worker.take()).job_id == job


async def test_nothing_happens_and_the_sleep_ends(store: Store) -> None:
    """The worker looks around by itself now and then."""
    worker = await a_worker(store)

    assert await store.partitions[0].leases.wait("w1", worker.pool, 0.01) is False


async def test_one_ring_wakes_one_and_it_passes_the_ring_on(store: Store) -> None:
    """However many jobs come at once: a pool has one bell, rung again while work is left."""
    workers = [await a_worker(store, f"w{i}") for i in range(3)]
    await store.submit([new_job(store) for _ in range(5)])

    assert await workers[0].hears_bell()
    assert not await workers[1].hears_bell()
    assert len(await workers[0].lease(2)) == 2
    assert await workers[1].hears_bell()
    assert len(await workers[1].lease(2)) == 2
    assert await workers[2].hears_bell()
    assert len(await workers[2].lease(2)) == 1
    assert not await workers[0].hears_bell()


async def test_work_left_in_another_queue_is_passed_on_too(store: Store) -> None:
    """Also where the worker that was woken took nothing from that queue."""
    worker = await a_worker(store)
    await store.submit([new_job(store, queue=queue) for queue in ("a", "b", "c")])
    assert await worker.hears_bell()

    assert len(await worker.lease(1)) == 1

    assert await worker.hears_bell()


async def test_only_pools_that_want_the_job_are_woken(store: Store) -> None:
    """Those of another queue, or without the handler, sleep on."""
    wants = await a_worker(store, "w1", Pool(frozenset({"work"}), (("q", None),)))
    everything = await a_worker(store, "w2")
    other_queue = await a_worker(store, "w3", Pool(frozenset({"work"}), (("qq", None), ("x", None))))
    other_handler = await a_worker(store, "w4", Pool(frozenset({"paint"})))

    await a_job(store)

    heard = [await worker.hears_bell() for worker in (wants, everything, other_queue, other_handler)]
    assert heard == [True, True, False, False]


async def test_a_freed_slot_of_a_limited_queue_rings(store: Store) -> None:
    """Whoever sleeps because the queue was at its limit is woken, however the slot was freed."""
    partition = store.partitions[0]
    await partition.queues.set("q", {"max_concurrent": 1})
    busy, idle = await a_worker(store, "busy"), await a_worker(store, "idle")
    await store.submit([new_job(store) for _ in range(6)])

    async def frees(how: str) -> bool:
        held = await busy.take()
        while await idle.hears_bell():
            assert await idle.lease(1) == []
        match how:
            case "complete":
                await busy.complete(held)
            case "fail":
                await busy.fail(held)
            case "lost":
                await stall(store, held)
                await reap(store)
            case "delete":
                await store.delete(held.job_id)
            case "unknown":
                await partition.leases.resync("busy", [])
        return await idle.hears_bell()

    assert [await frees(how) for how in ("complete", "fail", "lost", "delete", "unknown")] == [True] * 5


async def test_a_slot_that_an_expired_job_did_not_take_is_offered_again(store: Store, clock: Clock) -> None:
    """At the limit, too: the worker that met the expired job is not the last to look."""
    await store.partitions[0].queues.set("q", {"max_concurrent": 1})
    worker = await a_worker(store)
    await a_job(store, ttl_ms=1)
    good = await a_job(store, order=9)
    clock.forward(1)
    await worker.hears_bell()

    assert await worker.lease(1) == []

    assert await worker.hears_bell()
    assert (await worker.take()).job_id == good


@pytest.mark.parametrize("what", ["release", "retry", "lost", "resolve", "promote", "resume", "raise", "move"])
async def test_whatever_makes_a_job_leasable_rings(store: Store, clock: Clock, what: str) -> None:
    """Not only its submission."""
    partition = store.partitions[0]
    worker = await a_worker(store)
    await store.partitions[0].queues.set("held", {"paused": 1, "max_concurrent": 0})
    if what == "resolve":
        parent = await a_running_job(store)
        await a_job(store, dependencies=(parent.job_id,))
    elif what == "promote":
        await a_job(store, delay_ms=5_000)
    elif what in {"resume", "raise", "move"}:
        moved = await a_job(store, queue="held")
        await partition.queues.set("held", {"paused": 0} if what == "raise" else {"max_concurrent": 9})
        assert await worker.lease(1) == []
    else:
        held = await a_running_job(store)
    await worker.hears_bell()

    match what:
        case "release":
            await worker.release(held)
        case "retry":
            await worker.fail(held, delay_ms=0)
        case "lost":
            await stall(store, held)
            await reap(store)
        case "resolve":
            await worker.complete(parent)
            await settle(store)
        case "promote":
            clock.forward(5)
            await partition.upkeep.promote()
        case "resume":
            await partition.queues.set("held", {"paused": 0})
        case "raise":
            await partition.queues.set("held", {"max_concurrent": 1})
        case "move":
            await store.update(moved, 0, Change({"queue": "free"}))

    assert await worker.hears_bell()
    assert len(await worker.lease(5)) == 1


async def test_a_worker_that_leaves_hands_its_ring_on(store: Store) -> None:
    """It may have taken the bell with it."""
    leaving, staying = await a_worker(store, "w1"), await a_worker(store, "w2")
    await a_job(store)
    assert await leaving.hears_bell()

    await store.partitions[0].workers.leave("w1")

    assert await staying.hears_bell()


async def test_an_order_comes_before_the_bell(store: Store) -> None:
    """A sleeping worker hears of a cancel at once, even where there is work, too."""
    held = await a_running_job(store)
    await a_job(store)
    leases = store.partitions[0].leases

    await store.cancel(held.job_id)

    assert await leases.wait("w1", Worker(store.partitions[0]).pool, 10) == Order("cancel", held.job_id, 1)
    assert await leases.wait("w1", Worker(store.partitions[0]).pool, 10) is True


async def test_who_waits_for_orders_alone_leaves_the_bell_to_others(store: Store) -> None:
    """A worker with no free slot sleeps until it is told something, and may wake itself."""
    worker = await a_worker(store)
    await a_job(store)
    leases = store.partitions[0].leases
    sleep = asyncio.create_task(leases.wait("w1", None, 10))

    await leases.nudge("w1")

    assert await asyncio.wait_for(sleep, 10) == Order("wake")
    assert await worker.hears_bell()
    assert await leases.wait("w1", None, 0.01) is False


async def test_orders_can_be_read_without_waiting(store: Store) -> None:
    """A worker with no free slot does not listen to the bell."""
    held = await a_running_job(store)
    leases = store.partitions[0].leases
    await store.cancel(held.job_id)
    await store.cancel(held.job_id)

    assert await leases.orders("w1") == [Order("cancel", held.job_id, 1)]
    assert await leases.orders("w1") == []
    await Worker(store.partitions[0]).report(held, How.CANCELED)


async def test_a_report_that_takes_all_leaves_the_bell_alone(store: Store) -> None:
    """Nobody is woken for what is gone already."""
    worker = await a_worker(store)
    await an_ended_job(store)
    await store.submit([new_job(store) for _ in range(2)])
    held = await worker.take()
    while await worker.hears_bell():
        pass

    ending = Ending(held.job_id, held.lease.fence, How.COMPLETED)
    _, leases = await store.partitions[0].leases.report("w1", [ending], worker.pool, 4)

    assert len(leases) == 1
    assert not await worker.hears_bell()
