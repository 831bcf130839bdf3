"""Update: what may still change changes at once and in one step; what may not is refused whole."""

import pytest

from taskflow_domain import JobStatus, RetryPolicy
from taskflow_streams import Change, Pool, Store, Updated, pack_retry, pack_spec
from tests.support.engine import (
    Clock,
    Worker,
    a_job,
    a_running_job,
    a_worker,
    an_ended_job,
    history,
    messages,
    new_job,
    record,
    settle,
    status,
)

OK = (Updated.OK, "")


async def graph_version(store: Store, job: str, *dependencies: str) -> int:
    """The version that a change of dependencies is computed from."""
    cycle, version = await store.find_cycle(job, dependencies)
    assert cycle == []
    return version


async def test_every_field_that_may_change(store: Store, clock: Clock) -> None:
    """What is set is set, what is cleared is gone, the rest stays."""
    job = await a_job(store, owner="ann", timeout_ms=5_000, payload=b"1")
    clock.forward(1)
    change = Change(
        set={"order": 2, "retry": pack_retry(RetryPolicy(max_attempts=9)), "expires": clock.now_ms + 100_000_000},
        clear=("owner", "timeout"),
        spec=pack_spec("renamed", b"[2,3]", None, "task", ()),
    )

    assert await store.update(job, 0, change) == OK

    kept = await record(store, job)
    assert (kept.version, kept.order, kept.retry.max_attempts) == (1, 2, 9)
    assert (kept.owner, kept.timeout_ms, kept.expires_ms) == (None, None, clock.now_ms + 100_000_000)
    assert (kept.spec.name, kept.spec.payload) == ("renamed", b"[2,3]")
    assert (kept.status, kept.updated_ms) == (JobStatus.READY, clock.now_ms)
    updated = (await history(store, job))[-1]
    assert (updated.type, updated.from_, updated.to) == ("job.updated", "READY", "READY")
    assert updated.more["was"] == {"queue": "q", "order": 5, "owner": "ann"}


async def test_a_ready_job_moves_between_queues_priorities_and_handlers(store: Store) -> None:
    """It is in one lane afterwards, the right one, in the right place."""
    worker = await a_worker(store, pool=Pool(frozenset({"work", "paint"})))
    first, second = await a_job(store, order=1), await a_job(store, order=5)

    assert await store.update(second, 0, Change({"order": 0})) == OK
    assert await store.update(first, 0, Change({"queue": "other", "handler": "paint"})) == OK
    assert await store.update(first, 1, Change({"queue": "third"})) == OK

    taken = [held.lease for held in await worker.lease(5)]
    assert sorted((lease.job_id, lease.queue, lease.handler) for lease in taken) == sorted(
        [(second, "q", "work"), (first, "third", "paint")]
    )


async def test_a_handler_nobody_has_parks_the_job(store: Store) -> None:
    """And one that somebody has brings it back."""
    worker = await a_worker(store)
    job = await a_job(store)
    await store.update(job, 0, Change({"handler": "nobody"}))
    assert await worker.lease(1) == []

    await store.update(job, 1, Change({"handler": "work"}))

    assert (await worker.take()).job_id == job


async def test_a_due_time_moves_it_in_and_out_of_the_delayed(store: Store, clock: Clock) -> None:
    """Later, earlier, or not at all; the scheduler hears of a new first."""
    worker = await a_worker(store)
    job = await a_job(store)

    await store.update(job, 0, Change({"due": clock.now_ms + 60_000}))
    assert await worker.lease(1) == []
    assert await messages(store) == [("due", "")]
    await store.update(job, 1, Change({"due": clock.now_ms + 1_000}))
    assert await messages(store) == [("due", "")] * 2
    await store.update(job, 2, Change(clear=("due",)))

    assert (await worker.take()).job_id == job


async def test_a_deadline_can_be_set_moved_and_cleared(store: Store, clock: Clock) -> None:
    """Only the last word counts."""
    jobs = [await a_job(store, ttl_ms=ttl) for ttl in (1_000, 1_000, None)]
    await store.update(jobs[0], 0, Change(clear=("expires",)))
    await store.update(jobs[1], 0, Change({"expires": clock.now_ms + 9_000}))
    await store.update(jobs[2], 0, Change({"expires": clock.now_ms + 1_000}))

    clock.forward(2)

    assert await store.partitions[0].upkeep.expire() == 1
    assert [await status(store, job) for job in jobs] == [JobStatus.READY, JobStatus.READY, JobStatus.EXPIRED]


async def test_new_dependencies_make_a_ready_job_wait(store: Store) -> None:
    """It leaves its lane, and comes back when they are met."""
    worker = await a_worker(store)
    parent = await a_job(store, order=9)
    job = await a_job(store, order=1)
    version = await graph_version(store, job, parent)

    assert await store.update(job, 0, Change(dependencies=(parent,)), version) == OK

    assert await status(store, job) is JobStatus.PENDING
    held = await worker.take()
    assert held.job_id == parent
    await worker.complete(held)
    await settle(store)
    assert (await worker.take()).job_id == job


async def test_a_dependency_that_has_failed_blocks_at_once(store: Store) -> None:
    """Also those who wait for the job in turn."""
    failed = await an_ended_job(store, JobStatus.FAILED)
    job = await a_job(store, ttl_ms=60_000)
    child = await a_job(store, dependencies=(job,))

    assert await store.update(job, 0, Change(dependencies=(failed,)), await graph_version(store, job, failed)) == OK

    assert await status(store, job) is JobStatus.BLOCKED
    assert (await record(store, job)).finished_ms is not None
    await settle(store)
    assert await status(store, child) is JobStatus.BLOCKED


async def test_dropping_what_it_waited_for_makes_it_ready(store: Store) -> None:
    """Wholly, or down to what has completed."""
    done, running = await an_ended_job(store), (await a_running_job(store)).job_id
    first = await a_job(store, dependencies=(done, running))
    second = await a_job(store, dependencies=(done, running))

    assert await store.update(first, 0, Change(dependencies=()), 0) == OK
    assert await store.update(second, 0, Change(dependencies=(done,)), 1) == OK

    assert [await status(store, job) for job in (first, second)] == [JobStatus.READY] * 2


async def test_exchanging_one_dependency_for_another(store: Store) -> None:
    """The old one moves it no more; the new one does."""
    worker = await a_worker(store)
    old, new = await a_job(store, order=1), await a_job(store, order=2)
    job = await a_job(store, dependencies=(old,))
    await store.update(job, 0, Change(dependencies=(new,)), await graph_version(store, job, new))

    await worker.complete(await worker.take())
    await settle(store)
    assert await status(store, job) is JobStatus.PENDING
    await worker.complete(await worker.take())
    await settle(store)

    assert await status(store, job) is JobStatus.READY


async def test_a_dependency_that_retention_has_removed_may_stay_named(store: Store, clock: Clock) -> None:
    """It had completed, or the job would not wait for the other; nothing of it comes back to life."""
    done = await an_ended_job(store)
    running = await a_running_job(store)
    job = await a_job(store, dependencies=(done, running.job_id))
    assert await store.partitions[0].upkeep.retire(clock.now_ms + 1) == (1, 0)

    both = (done, running.job_id)
    assert await store.update(job, 0, Change(dependencies=both), await graph_version(store, job, *both)) == OK

    assert await status(store, job) is JobStatus.PENDING
    await Worker(store.partitions[0]).complete(running)
    await settle(store)
    assert await status(store, job) is JobStatus.READY


async def test_an_unknown_dependency_changes_nothing(store: Store) -> None:
    """Not even the other fields of the change."""
    job, unknown = await a_job(store), store.new_id()
    before = await record(store, job)

    answer = await store.update(job, 0, Change({"order": 1}, dependencies=(unknown,)))

    assert answer == (Updated.UNKNOWN, unknown)
    assert await record(store, job) == before


async def test_a_change_from_an_old_version_is_refused(store: Store) -> None:
    """The second of two writers reads again."""
    job = await a_job(store)
    assert await store.update(job, 0, Change({"order": 1})) == OK

    assert await store.update(job, 0, Change({"order": 2})) == (Updated.CHANGED, "")

    assert (await record(store, job)).order == 1


async def test_dependencies_from_an_old_graph_are_refused(store: Store) -> None:
    """Two updates that would close a cycle together: the second is told to look again."""
    first, second = await a_job(store), await a_job(store)
    seen = [await graph_version(store, first, second), await graph_version(store, second, first)]

    assert await store.update(first, 0, Change(dependencies=(second,)), seen[0]) == OK
    assert await store.update(second, 0, Change(dependencies=(first,)), seen[1]) == (Updated.CHANGED, "")

    cycle, _ = await store.find_cycle(second, [first])
    assert sorted(cycle) == sorted([first, second])


async def test_of_a_running_job_some_things_are_fixed(store: Store) -> None:
    """Queue, dependencies and due time are refused; the rest holds for the next attempt."""
    parent = await a_job(store, handler="other")
    held = await a_running_job(store)
    job = held.job_id
    for change in (Change({"queue": "r"}), Change(dependencies=(parent,)), Change({"due": 5})):
        assert await store.update(job, 0, change) == (Updated.RUNNING, "")

    assert await store.update(job, 0, Change({"queue": "q", "order": 1, "handler": "paint"})) == OK

    assert (await history(store, job))[-1].to == "RUNNING"
    worker = Worker(store.partitions[0])
    await worker.fail(held, delay_ms=0)
    assert await worker.lease(1) == []
    again = await (await a_worker(store, "w2", Pool(frozenset({"paint"})))).take()
    assert (again.job_id, again.lease.attempt) == (job, 2)


async def test_a_lower_limit_of_attempts_counts_at_once(store: Store) -> None:
    """The attempt that runs becomes the last."""
    held = await a_running_job(store)
    await store.update(held.job_id, 0, Change({"retry": pack_retry(RetryPolicy(max_attempts=1))}))

    await Worker(store.partitions[0]).fail(held)

    assert await status(store, held.job_id) is JobStatus.FAILED


@pytest.mark.parametrize("ended", [JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELED])
async def test_what_has_ended_cannot_change(store: Store, ended: JobStatus) -> None:
    """Terminal states never reverse."""
    job = await an_ended_job(store, ended)

    assert await store.update(job, 0, Change({"order": 1})) == (Updated.ENDED, "")


async def test_what_does_not_exist_cannot_change(store: Store) -> None:
    """Neither an id of ours nor one of another shape."""
    assert await store.update(store.new_id(), 0, Change({"order": 1})) == (Updated.MISSING, "")
    assert await store.update("nonsense", 0, Change({"order": 1})) == (Updated.MISSING, "")


async def test_a_pending_job_changes_while_it_waits(store: Store) -> None:
    """It goes where it now belongs when it may."""
    worker = await a_worker(store)
    parent = await a_job(store)
    job = await a_job(store, dependencies=(parent,))
    await store.update(job, 0, Change({"queue": "later", "order": -5}))
    assert await status(store, job) is JobStatus.PENDING

    await worker.complete(await worker.take())
    await settle(store)

    assert [(held.job_id, held.lease.queue) for held in await worker.lease(5)] == [(job, "later")]


async def test_the_size_follows_the_spec(store: Store) -> None:
    """What is given back at the end is what was taken, also after updates and a batch of them."""
    jobs = [new_job(store, payload=b"1" * 100) for _ in range(3)]
    await store.submit(jobs)
    for job in jobs:
        spec = pack_spec("n", b"2" * 5000, None, "task", ())
        await store.update(job.id, 0, Change(spec=spec))
        await store.cancel(job.id)
        await store.delete(job.id)

    assert await store.redis.hget(store.partitions[0].keys("meta"), "bytes") == b"0"
