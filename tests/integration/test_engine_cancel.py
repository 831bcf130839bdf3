"""Cancel: what has not started ends at once; what runs is asked to stop, and ends exactly once."""

import pytest

from taskflow_domain import JobStatus
from taskflow_streams import Canceled, How, Order, Reported, Store
from tests.support.engine import (
    Clock,
    Worker,
    a_job,
    a_running_job,
    a_worker,
    an_ended_job,
    history,
    record,
    settle,
    status,
)


@pytest.mark.parametrize("state", ["ready", "parked", "delayed", "pending", "retrying"])
async def test_what_has_not_started_ends_at_once(store: Store, clock: Clock, state: str) -> None:
    """Wherever it waits, it is taken out."""
    match state:
        case "ready":
            await a_worker(store)
            job = await a_job(store, ttl_ms=9_000)
        case "parked":
            job = await a_job(store, handler="nobody has it")
        case "delayed":
            job = await a_job(store, delay_ms=9_000)
        case "pending":
            job = await a_job(store, dependencies=(await a_job(store),))
        case _:
            held = await a_running_job(store)
            await Worker(store.partitions[0]).fail(held)
            job = held.job_id

    assert await store.cancel(job) is Canceled.CANCELED

    kept = await record(store, job)
    assert (kept.status, kept.finished_ms) == (JobStatus.CANCELED, clock.now_ms)
    assert (await history(store, job))[-1].type == "job.canceled"
    assert await store.cancel(job) is Canceled.ENDED


async def test_who_waits_for_a_cancelled_job_is_blocked(store: Store) -> None:
    """All the way down."""
    parent = await a_job(store)
    child = await a_job(store, dependencies=(parent,))
    grandchild = await a_job(store, dependencies=(child,))

    await store.cancel(parent)
    await settle(store)

    assert [await status(store, job) for job in (child, grandchild)] == [JobStatus.BLOCKED] * 2


async def test_a_cancelled_child_is_not_moved_by_its_parent(store: Store) -> None:
    """It does not wait any more, and the parent may be deleted once the child is."""
    parent = await a_running_job(store)
    child = await a_job(store, dependencies=(parent.job_id,))
    await store.cancel(child)

    await Worker(store.partitions[0]).complete(parent)

    assert await settle(store) == 0
    assert await status(store, child) is JobStatus.CANCELED


async def test_a_running_job_is_asked_to_stop(store: Store) -> None:
    """It stays RUNNING until its process has ended, and the holder has one order, however often it was said."""
    held = await a_running_job(store)

    assert await store.cancel(held.job_id) is Canceled.STOPPING
    assert await store.cancel(held.job_id) is Canceled.STOPPING

    kept = await record(store, held.job_id)
    assert (kept.status, kept.canceling) == (JobStatus.RUNNING, True)
    assert await store.partitions[0].leases.orders("w1") == [Order("cancel", held.job_id, 1)]


@pytest.mark.parametrize(
    ("how", "ends"),
    [
        (How.COMPLETED, JobStatus.COMPLETED),
        (How.CANCELED, JobStatus.CANCELED),
        (How.FAILED, JobStatus.CANCELED),
        (How.FATAL, JobStatus.CANCELED),
        (How.RELEASED, JobStatus.CANCELED),
    ],
)
async def test_how_a_job_that_shall_stop_ends(store: Store, how: How, ends: JobStatus) -> None:
    """A success that came first wins; everything else is what was asked for, and nothing is tried again."""
    held = await a_running_job(store)
    await store.cancel(held.job_id)

    assert await Worker(store.partitions[0]).report(held, how) is Reported.OK

    assert await status(store, held.job_id) is ends
    assert await store.cancel(held.job_id) is Canceled.ENDED


async def test_many_in_one_call(store: Store) -> None:
    """A word for each."""
    ended, running = await an_ended_job(store), await a_running_job(store)
    ready = await a_job(store)

    words = await store.partitions[0].jobs.cancel([ended, running.job_id, ready, store.new_id(), ready])

    assert words == [Canceled.ENDED, Canceled.STOPPING, Canceled.CANCELED, Canceled.MISSING, Canceled.ENDED]


@pytest.mark.parametrize("unknown", ["nonsense", "019b7c3f-0000-7000-8010-000000000000"])
async def test_an_id_that_is_none_of_ours(store: Store, unknown: str) -> None:
    """It is simply missing."""
    assert await store.cancel(unknown) is Canceled.MISSING
