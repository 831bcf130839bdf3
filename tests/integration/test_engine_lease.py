"""Lease: exact order, never more than a queue allows, and nothing that should not run."""

import asyncio
import random

import pytest

from taskflow_domain import JobStatus
from taskflow_streams import BATCH, Ending, How, Pool, Store
from tests.support.engine import (
    Clock,
    Worker,
    a_job,
    a_running_job,
    a_worker,
    history,
    new_job,
    record,
    settle,
    status,
)

BOTH = Pool(frozenset({"cut", "glue"}))


async def test_a_lease_is_an_attempt_with_a_fence(store: Store, clock: Clock) -> None:
    """The record, the event and the lease tell the same."""
    job = await a_job(store, payload=b"[1]", timeout_ms=7_000, due_ms=clock.now_ms - 3)
    clock.forward(2)

    held = await (await a_worker(store)).take()

    assert (held.job_id, held.lease.fence, held.lease.attempt, held.lease.timeout_ms) == (job, 1, 1, 7_000)
    assert (held.lease.spec.payload, held.lease.queue, held.lease.handler) == (b"[1]", "q", "work")
    assert (held.lease.created_ms, held.lease.due_ms) == (clock.now_ms - 2_000, clock.now_ms - 2_003)
    kept = await record(store, job)
    assert (kept.status, kept.attempt, kept.fence, kept.worker) == (JobStatus.RUNNING, 1, 1, "w1")
    assert kept.started_ms == kept.updated_ms == clock.now_ms
    started = (await history(store, job))[-1]
    assert (started.type, started.attempt, started.fence, started.worker) == ("job.started", 1, 1, "w1")


async def test_order_is_priority_then_age_then_id(store: Store, clock: Clock) -> None:
    """Over two lanes of a queue, whatever the order of submission and the size of the takes."""
    random.seed(7)
    jobs = []
    for _ in range(12):
        clock.forward(random.choice([0, 0, 0.001, 1]))
        batch = [
            new_job(store, order=random.choice([-1000, -1, 0, 5, 1000]), handler=random.choice(["cut", "glue"]))
            for _ in range(random.randint(1, 4))
        ]
        await store.submit(batch)
        jobs += [(job.order, clock.now_ms, job.id) for job in batch]
    worker = await a_worker(store, pool=BOTH)

    taken = [held.job_id for want in [1, 3, 2, 5, 100] for held in await worker.lease(want)]

    assert taken == [job_id for _, _, job_id in sorted(jobs)]


async def test_a_worker_takes_only_what_it_can_run_in_order(store: Store) -> None:
    """A more urgent job of another handler is neither taken nor in the way."""
    cut = [await a_job(store, handler="cut", order=order) for order in (5, 1)]
    glue = [await a_job(store, handler="glue", order=order) for order in (0, 9)]
    cutter = await a_worker(store, "w1", Pool(frozenset({"cut"})))
    gluer = await a_worker(store, "w2", Pool(frozenset({"glue"})))

    assert [held.job_id for held in await cutter.lease(10)] == [cut[1], cut[0]]
    assert [held.job_id for held in await gluer.lease(10)] == glue


async def test_a_worker_takes_only_from_its_queues(store: Store) -> None:
    """Subscribed to one, it does not see the other; subscribed to all, it sees those that appear later."""
    await a_job(store, queue="a")
    await a_job(store, queue="b")
    narrow = await a_worker(store, "w1", Pool(frozenset({"work"}), (("b", None), ("never", None))))
    wide = await a_worker(store, "w2")

    assert [held.lease.queue for held in await narrow.lease(10)] == ["b"]
    assert [held.lease.queue for held in await wide.lease(10)] == ["a"]


async def test_want_is_an_upper_limit_and_zero_is_nothing(store: Store) -> None:
    """A worker never gets more than its free slots."""
    await store.submit([new_job(store) for _ in range(5)])
    worker = await a_worker(store)

    assert await worker.lease(0) == []
    assert len(await worker.lease(2)) == 2
    assert len(await worker.lease(100)) == 3
    assert await worker.lease(1) == []


async def test_one_call_takes_at_most_a_batch(store: Store) -> None:
    """Redis serves nobody else while a script runs."""
    await store.submit([new_job(store) for _ in range(BATCH + 1)])

    assert len(await (await a_worker(store)).lease(10_000)) == BATCH


async def test_a_job_is_leased_once(store: Store) -> None:
    """Many workers at once share the jobs, and nobody shares a job."""
    jobs = [new_job(store) for _ in range(100)]
    await store.submit(jobs)
    workers = [await a_worker(store, f"w{i}") for i in range(10)]

    shares = await asyncio.gather(*(worker.lease(3) for worker in workers * 5))

    taken = [held.job_id for share in shares for held in share]
    assert sorted(taken) == sorted(job.id for job in jobs)


async def test_a_limit_is_never_exceeded(store: Store) -> None:
    """max_concurrent counts over all workers and lanes, and a lowered limit stops the next lease."""
    queues = store.partitions[0].queues
    await store.submit([new_job(store, handler=handler) for handler in ["cut", "glue"] * 5])
    await queues.set("q", {"max_concurrent": 3})
    workers = [await a_worker(store, f"w{i}", BOTH) for i in range(3)]

    held = [one for worker in workers for one in await worker.lease(2)]
    assert len(held) == 3

    await Worker(store.partitions[0], "w0", BOTH).complete(held[0])
    assert [len(await worker.lease(2)) for worker in workers] == [1, 0, 0]
    await queues.set("q", {"max_concurrent": 1})
    await Worker(store.partitions[0], held[2].worker, BOTH).complete(held[2])
    assert [len(await worker.lease(2)) for worker in workers] == [0, 0, 0]
    await queues.set("q", {}, clear=("max_concurrent",))
    assert len(await workers[0].lease(100)) == 6


async def test_a_limit_of_zero_stops_a_queue(store: Store) -> None:
    """Like a pause."""
    await a_job(store)
    await store.partitions[0].queues.set("q", {"max_concurrent": 0})

    assert await (await a_worker(store)).lease(5) == []


async def test_a_report_takes_the_slot_it_frees(store: Store) -> None:
    """Finishing and leasing the next is one call, also at the limit."""
    partition = store.partitions[0]
    await store.submit([new_job(store) for _ in range(3)])
    await partition.queues.set("q", {"max_concurrent": 1})
    worker = await a_worker(store)
    held = await worker.take()

    _, leases = await partition.leases.report("w1", [Ending(held.job_id, 1, How.COMPLETED)], worker.pool, 5)

    assert len(leases) == 1


async def test_a_paused_queue_gives_nothing_until_it_resumes(store: Store) -> None:
    """What runs goes on; what waits keeps its place."""
    partition = store.partitions[0]
    first = await a_running_job(store)
    second = await a_job(store)
    await partition.queues.set("q", {"paused": 1, "reason": "maintenance"})
    worker = Worker(partition)

    assert await worker.lease(5) == []
    await worker.complete(first)
    assert await worker.lease(5) == []
    shown = await partition.queues.get("q")
    assert (shown.paused, shown.reason, shown.waiting, shown.running) == (True, "maintenance", 1, 0)

    await partition.queues.set("q", {"paused": 0}, clear=("reason",))
    assert (await worker.take()).job_id == second
    assert (await partition.queues.get("q")).reason is None


@pytest.mark.parametrize("idle", ["paused", "full"])
async def test_many_queues_that_give_nothing_do_not_hide_one_that_does(store: Store, idle: str) -> None:
    """A worker finds the one queue with work behind hundreds that are paused or at their limit."""
    partition = store.partitions[0]
    worker = await a_worker(store)
    for i in range(300):
        setting: dict[str, str | int | float] = {"paused": 1} if idle == "paused" else {"max_concurrent": 0}
        await partition.queues.set(f"q{i}", setting)
    await store.submit([new_job(store, queue=f"q{i}") for i in range(300)])
    last = await a_job(store, queue="zzz")

    taken = [held.job_id for _ in range(3) for held in await worker.lease(1)]

    assert taken == [last]


async def test_what_should_have_started_by_now_expires_instead(store: Store, clock: Clock) -> None:
    """Even where no sweep has seen it yet; the jobs behind it are taken."""
    late = [await a_job(store, ttl_ms=1_000) for _ in range(2)]
    child = await a_job(store, dependencies=(late[0],))
    good = await a_job(store, order=9)
    worker = await a_worker(store)
    clock.forward(1)

    taken = [held.job_id for _ in range(2) for held in await worker.lease(2)]

    assert taken == [good]
    assert [await status(store, job) for job in late] == [JobStatus.EXPIRED] * 2
    await settle(store)
    assert await status(store, child) is JobStatus.BLOCKED


async def test_a_second_attempt_does_not_expire(store: Store, clock: Clock) -> None:
    """Only what never ran does."""
    held = await a_running_job(store, ttl_ms=1_000)
    worker = Worker(store.partitions[0])
    await worker.fail(held, delay_ms=5_000)
    clock.forward(6)
    await store.partitions[0].upkeep.promote()

    assert await store.partitions[0].upkeep.expire() == 0
    assert (await worker.take()).lease.attempt == 2


async def test_a_queue_left_by_other_pools_is_clean(store: Store) -> None:
    """A lane emptied by one pool while another lane had jobs is closed, and the queue rests at the end."""
    await store.submit([new_job(store, handler="cut", order=0), *(new_job(store, handler="glue") for _ in range(5))])
    both = await a_worker(store, "w1", BOTH)
    gluer = await a_worker(store, "w2", Pool(frozenset({"glue"})))

    assert len(await both.lease(2)) == 2
    assert len(await gluer.lease(100)) == 4

    assert await store.redis.zcard(store.partitions[0].keys("active")) == 0
