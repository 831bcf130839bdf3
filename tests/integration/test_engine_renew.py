"""Renew and resync: a worker keeps what it holds, and gives back what it does not know of."""

import pytest

from taskflow_domain import JobStatus
from taskflow_streams import Renewed, Store
from tests.support.engine import (
    VISIBILITY_MS,
    Worker,
    a_running_job,
    a_worker,
    history,
    new_job,
    reap,
    record,
    stall,
    status,
)


async def test_a_renewed_lease_is_not_reaped(store: Store) -> None:
    """Its idle time starts again; that of the others does not."""
    worker = await a_worker(store)
    await store.submit([new_job(store) for _ in range(2)])
    kept, lost = await worker.lease(2)
    await stall(store, kept)
    await stall(store, lost)

    assert await worker.renew(kept) == [Renewed.OK]

    assert await reap(store) == (1, 0)
    assert await status(store, kept.job_id) is JobStatus.RUNNING
    assert await worker.renew(kept, lost) == [Renewed.OK, Renewed.LOST]


async def test_renewing_again_and_again(store: Store) -> None:
    """Each time it is the same lease."""
    worker = Worker(store.partitions[0])
    held = await a_running_job(store)

    for _ in range(3):
        await stall(store, held)
        assert await worker.renew(held) == [Renewed.OK]

    kept = await record(store, held.job_id)
    assert (kept.attempt, kept.fence) == (1, 1)


@pytest.mark.parametrize("fate", ["reaped", "taken", "done", "released", "deleted", "stranger"])
async def test_a_lease_that_is_not_held_any_more_is_lost(store: Store, fate: str) -> None:
    """And renewing it does not bring it back."""
    worker = Worker(store.partitions[0])
    held = await a_running_job(store)
    match fate:
        case "reaped" | "taken":
            await stall(store, held)
            await reap(store)
            if fate == "taken":
                await (await a_worker(store, "w2")).take()
        case "done":
            await worker.complete(held)
        case "released":
            await worker.release(held)
        case "deleted":
            await store.delete(held.job_id)
        case "stranger":
            worker = await a_worker(store, "w2")
    before = await status(store, held.job_id)

    assert await worker.renew(held) == [Renewed.LOST]

    assert await status(store, held.job_id) is before


async def test_a_cancelled_job_is_renewed_but_shall_stop(store: Store) -> None:
    """The heartbeat is the second way the worker hears of it."""
    held = await a_running_job(store)
    await store.cancel(held.job_id)
    await stall(store, held)

    assert await Worker(store.partitions[0]).renew(held) == [Renewed.CANCEL]

    assert await reap(store) == (0, 0)


async def test_hundreds_of_leases_in_one_heartbeat(store: Store) -> None:
    """More than a batch, in the order asked."""
    worker = await a_worker(store)
    await store.submit([new_job(store) for _ in range(1000)])
    held = [one for _ in range(2) for one in await worker.lease(500)]
    await worker.complete(held[700])

    words = await worker.renew(*held)

    assert [i for i, word in enumerate(words) if word is Renewed.LOST] == [700]


async def test_what_the_worker_does_not_know_goes_back_at_no_cost(store: Store) -> None:
    """After a lost reply: the leases it knows stay, the others are READY again with their attempt back."""
    worker = await a_worker(store)
    await store.submit([new_job(store, queue=queue) for queue in ("a", "b", "a", "b")])
    held = await worker.lease(4)
    known, unknown = held[:2], held[2:]
    leases = store.partitions[0].leases

    assert await leases.resync("w1", [one.token for one in known]) == 2
    assert await leases.resync("w1", [one.token for one in known]) == 0

    for one in known:
        assert await status(store, one.job_id) is JobStatus.RUNNING
    for one in unknown:
        kept = await record(store, one.job_id)
        assert (kept.status, kept.attempt) == (JobStatus.READY, 0)
        assert (await history(store, one.job_id))[-1].type == "job.released"
        assert await worker.renew(one) == [Renewed.LOST]
    assert await worker.renew(*known) == [Renewed.OK, Renewed.OK]


async def test_a_job_known_by_an_older_fence_goes_back(store: Store) -> None:
    """The worker speaks of an attempt it has lost; the one it was given since is unknown to it."""
    worker = Worker(store.partitions[0])
    held = await a_running_job(store)
    await worker.release(held)
    await worker.take()

    assert await store.partitions[0].leases.resync("w1", [held.token]) == 1

    assert await status(store, held.job_id) is JobStatus.READY


async def test_resync_leaves_the_leases_of_others_alone(store: Store) -> None:
    """Who knows nothing takes nothing from others."""
    held = await a_running_job(store, worker="w1")

    assert await store.partitions[0].leases.resync("w2", []) == 0

    assert await status(store, held.job_id) is JobStatus.RUNNING


async def test_a_cancelled_job_nobody_knows_of_is_canceled(store: Store) -> None:
    """There is no process to stop any more."""
    held = await a_running_job(store)
    await store.cancel(held.job_id)

    assert await store.partitions[0].leases.resync("w1", []) == 1

    assert await status(store, held.job_id) is JobStatus.CANCELED


async def test_the_visibility_timeout_is_exact(store: Store) -> None:
    """A lease a second younger than that is left alone."""
    held = await a_running_job(store)
    await stall(store, held, seconds=VISIBILITY_MS / 1000 - 1)

    assert await reap(store) == (0, 0)

    assert await status(store, held.job_id) is JobStatus.RUNNING
