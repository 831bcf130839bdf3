"""Delete: the job and every trace of it are gone at once, unless something depends on it."""

import pytest

from taskflow_domain import JobStatus
from taskflow_streams import Change, Deleted, Order, Reported, Store, Submitted
from tests.support.engine import (
    Clock,
    Held,
    Worker,
    a_job,
    a_running_job,
    a_worker,
    an_ended_job,
    history,
    new_job,
    record,
    settle,
    status,
)


@pytest.mark.parametrize("state", ["ready", "delayed", "pending", "completed", "failed", "canceled", "blocked"])
async def test_nothing_is_left_of_it(store: Store, clock: Clock, state: str) -> None:
    """Wherever it stood; its events tell that it was."""
    parent = None
    match state:
        case "ready":
            job = await a_job(store, ttl_ms=9_000)
        case "delayed":
            job = await a_job(store, delay_ms=1_000)
        case "pending":
            parent = await a_job(store)
            job = await a_job(store, dependencies=(parent,))
        case "blocked":
            parent = await an_ended_job(store, JobStatus.FAILED)
            job = await a_job(store, dependencies=(parent,))
        case _:
            job = await an_ended_job(store, JobStatus(state.upper()))

    assert await store.delete(job) is Deleted.DELETED
    assert await store.delete(job) is Deleted.MISSING

    assert await status(store, job) is None
    assert await store.exist([job]) == [False]
    assert (await history(store, job))[-1].type == "job.deleted"
    if parent is not None:
        assert await store.delete(parent) is Deleted.DELETED


async def test_all_that_is_deleted_takes_its_bytes_along(store: Store) -> None:
    """Logs and results, too."""
    partition = store.partitions[0]
    held = await a_running_job(store, payload=b'"%s"' % (b"x" * 1000))
    await partition.leases.log("w1", held.token, [("stdout", b"hello " * 100)], 10_000)
    await Worker(partition).complete(held, b'"%s"' % (b"y" * 500))
    assert int(await partition.redis.hget(partition.keys("meta"), "bytes")) > 2_100

    await store.delete(held.job_id)

    assert await partition.redis.hget(partition.keys("meta"), "bytes") == b"0"


async def test_a_running_job_is_fenced_off(store: Store) -> None:
    """Its worker is told to kill it, what it reports is ignored, and its slot is free."""
    held = await a_running_job(store)
    partition = store.partitions[0]

    assert await store.delete(held.job_id) is Deleted.DELETED

    assert await status(store, held.job_id) is None
    assert (await partition.queues.get("q")).running == 0
    assert await partition.leases.orders("w1") == [Order("lost", held.job_id, 1)]
    assert await Worker(partition).complete(held) is Reported.GONE
    assert await partition.leases.log("w1", held.token, [("stdout", b"late")], 100) == "stale"
    assert not await partition.leases.progress("w1", held.token, 0.5)


async def test_what_is_named_cannot_be_deleted(store: Store) -> None:
    """Also when both have ended; when the one that names it is gone or has let go, it can."""
    worker = await a_worker(store)
    parent = await a_job(store)
    child = await a_job(store, dependencies=(parent,))
    other = await a_job(store, dependencies=(parent,))
    assert await store.delete(parent) is Deleted.NAMED
    for _ in range(3):
        held = await worker.lease(1)
        await worker.complete(Held("w1", held[0].lease))
        await settle(store)
    assert await status(store, child) is JobStatus.COMPLETED
    assert await store.delete(parent) is Deleted.NAMED

    assert await store.delete(child) is Deleted.DELETED
    assert await store.delete(parent) is Deleted.NAMED
    assert await store.delete(other) is Deleted.DELETED
    assert await store.delete(parent) is Deleted.DELETED


async def test_an_update_that_lets_go_frees_it(store: Store) -> None:
    """What is not named any more can be deleted."""
    parent = await a_job(store)
    child = await a_job(store, dependencies=(parent,))
    await store.update(child, 0, Change(dependencies=()))

    assert await store.delete(parent) is Deleted.DELETED


async def test_what_belongs_to_a_run_stays(store: Store) -> None:
    """A run is removed whole."""
    assert await store.delete(await a_job(store, run_id="r1")) is Deleted.RUN


async def test_a_mark_is_left_of_a_job_with_a_key(store: Store) -> None:
    """Its id, handed out by the idempotency key, must not come to life again; any other id may."""
    keyed, plain = new_job(store, has_key=True), new_job(store)
    await store.submit([keyed, plain])
    await store.delete(keyed.id)
    await store.delete(plain.id)

    assert await store.submit([keyed, plain]) == [Submitted.GONE, Submitted.CREATED]

    assert await status(store, keyed.id) is None
    assert (await record(store, plain.id)).attempt == 0
