"""Fairness: queues share the workers by weight, over all workers together, and idleness earns nothing."""

from collections import Counter

from taskflow_streams import Pool, Store
from tests.support.engine import HANDLER, Worker, a_job, a_worker, new_job


async def fill(store: Store, count: int = 100, **queues: int) -> None:
    """`count` jobs into each queue, or as many as it says."""
    for queue in queues:
        await store.submit([new_job(store, queue=queue) for _ in range(count)])


async def served(worker: Worker, calls: int, want: int) -> Counter[str]:
    """How many jobs of each queue the worker got."""
    taken = [held for _ in range(calls) for held in await worker.lease(want)]
    return Counter(held.lease.queue for held in taken)


async def test_a_long_queue_does_not_starve_a_short_one(store: Store) -> None:
    """Two queues of equal weight are served in turn, however much waits in one."""
    await store.submit([new_job(store, queue="long") for _ in range(500)])
    await store.submit([new_job(store, queue="short") for _ in range(3)])
    worker = await a_worker(store)

    assert await served(worker, 6, want=1) == Counter(long=3, short=3)


async def test_shares_follow_the_weights(store: Store) -> None:
    """3 to 1, in one large take and in many small ones."""
    await store.partitions[0].queues.set("heavy", {"weight": 3})
    await fill(store, heavy=1, light=1)
    worker = await a_worker(store)

    assert await served(worker, 1, want=40) == Counter(heavy=30, light=10)
    assert await served(worker, 40, want=1) == Counter(heavy=30, light=10)


async def test_a_pool_may_have_weights_of_its_own(store: Store) -> None:
    """They outrank the queue's."""
    await store.partitions[0].queues.set("a", {"weight": 100})
    await fill(store, a=1, b=1)
    worker = await a_worker(store, pool=Pool(frozenset({"work"}), (("a", 1.0), ("b", 4.0))))

    assert await served(worker, 5, want=10) == Counter(a=10, b=40)


async def test_fairness_is_over_all_workers_together(store: Store) -> None:
    """Each worker alone may look unfair; the sum is not."""
    await fill(store, a=1, b=1)
    workers = [await a_worker(store, f"w{i}") for i in range(5)]

    total: Counter[str] = Counter()
    for worker in workers:
        total += await served(worker, 2, want=3)

    assert total == Counter(a=15, b=15)


async def test_a_queue_that_was_idle_gets_no_credit(store: Store) -> None:
    """It joins at the present, at most one job ahead, and does not shut the others out until it has caught up."""
    worker = await a_worker(store)
    await fill(store, busy=1)
    assert await served(worker, 1, want=60) == Counter(busy=60)

    await fill(store, late=1)

    assert await served(worker, 1, want=20) == Counter(busy=9, late=11)


async def test_a_queue_cannot_win_by_being_empty_now_and_then(store: Store) -> None:
    """What it has had is remembered when its last job is taken."""
    worker = await a_worker(store)
    await fill(store, steady=1)
    total: Counter[str] = Counter()
    for _ in range(10):
        await a_job(store, queue="bursty")
        total += await served(worker, 1, want=2)

    assert total == Counter(steady=10, bursty=10)


async def test_what_one_queue_leaves_goes_to_the_others(store: Store) -> None:
    """Weights divide what is wanted; no slot stays empty for fairness' sake."""
    await store.partitions[0].queues.set("rich", {"weight": 1000})
    await store.submit([new_job(store, queue="rich") for _ in range(2)])
    await store.submit([new_job(store, queue="poor") for _ in range(50)])

    assert await served(await a_worker(store), 1, want=20) == Counter(rich=2, poor=18)


async def test_a_limit_bounds_a_share(store: Store) -> None:
    """A queue at its limit gives its turn away, and is back when it has room."""
    await store.partitions[0].queues.set("small", {"max_concurrent": 2})
    await fill(store, small=1, big=1)
    worker = await a_worker(store)

    assert await served(worker, 1, want=10) == Counter(small=2, big=8)
    await store.partitions[0].queues.set("small", {"max_concurrent": 4})
    assert (await served(worker, 1, want=10))["small"] == 2


async def test_a_worker_of_all_queues_may_weigh_some(store: Store) -> None:
    """`heavy=3,*`: three from one for each of the other, though the queues themselves weigh the same."""
    for _ in range(8):
        await a_job(store, queue="heavy")
        await a_job(store, queue="light")
    pool = Pool(frozenset({HANDLER}), None, (("heavy", 3.0),))
    await store.partitions[0].workers.join("w1", pool, {})

    taken = [lease.queue for lease in await store.partitions[0].leases.lease("w1", pool, 8)]

    assert (taken.count("heavy"), taken.count("light")) == (6, 2)
