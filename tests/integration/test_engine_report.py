"""Report: how attempts end.  Only the current token changes anything, and saying it twice changes nothing more."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from taskflow_domain import JobStatus, RetryPolicy
from taskflow_streams import Ending, Failure, How, Reported, Store
from tests.support.engine import (
    POOL,
    Clock,
    Held,
    Worker,
    a_job,
    a_running_job,
    a_worker,
    history,
    messages,
    new_job,
    reap,
    record,
    stall,
    status,
)

ONCE = RetryPolicy(max_attempts=1)
Given = Callable[[Store], Awaitable[Held]]


async def test_a_worker_may_have_any_name(store: Store) -> None:
    """Also one with spaces in it."""
    held = await a_running_job(store, worker="my worker 1")

    assert await Worker(store.partitions[0], "my worker 1").complete(held) is Reported.OK

    assert (await history(store, held.job_id))[-1].worker == "my worker 1"


async def test_completed(store: Store, clock: Clock) -> None:
    """The result is kept as it came, and the slot is free."""
    held = await a_running_job(store)
    clock.forward(3)

    assert await Worker(store.partitions[0]).complete(held, b'{"answer":42}') is Reported.OK

    kept = await record(store, held.job_id)
    assert (kept.status, kept.value, kept.failure) == (JobStatus.COMPLETED, b'{"answer":42}', None)
    assert (kept.finished_ms, kept.worker, kept.attempt) == (clock.now_ms, "w1", 1)
    assert (await store.partitions[0].queues.get("q")).running == 0
    assert [event.type for event in await history(store, held.job_id)][-1] == "job.completed"


async def test_failed_is_tried_again_after_the_delay_of_the_policy(store: Store, clock: Clock) -> None:
    """Until then it is READY, due later, and tells why it failed."""
    held = await a_running_job(store, retry=RetryPolicy(base_delay_seconds=4))

    assert await Worker(store.partitions[0]).fail(held, "disk full") is Reported.OK

    kept = await record(store, held.job_id)
    assert (kept.status, kept.attempt, kept.worker, kept.due_ms) == (JobStatus.READY, 1, None, clock.now_ms + 4_000)
    assert kept.failure == Failure("Oops", "disk full")
    retrying = (await history(store, held.job_id))[-1]
    assert (retrying.type, retrying.worker) == ("job.retrying", "w1")
    assert retrying.more == {"error": "Oops", "due": clock.now_ms + 4_000}
    assert ("due", "") in await messages(store)


async def test_the_last_attempt_fails_for_good(store: Store, clock: Clock) -> None:
    """With max_attempts 3 a job runs three times, no more."""
    worker = await a_worker(store)
    job = await a_job(store, retry=RetryPolicy(max_attempts=3))
    for attempt in (1, 2, 3):
        held = await worker.take()
        assert (held.lease.attempt, held.lease.fence) == (attempt, attempt)
        assert await worker.fail(held, f"attempt {attempt}", delay_ms=0) is Reported.OK

    kept = await record(store, job)
    assert (kept.status, kept.attempt, kept.finished_ms) == (JobStatus.FAILED, 3, clock.now_ms)
    assert kept.failure == Failure("Oops", "attempt 3")
    assert await worker.lease(1) == []


async def test_fatal_is_not_tried_again(store: Store) -> None:
    """No retry would help."""
    held = await a_running_job(store)

    await Worker(store.partitions[0]).report(held, How.FATAL, failure=Failure("Denied", "never", "trace"))

    kept = await record(store, held.job_id)
    assert (kept.status, kept.failure) == (JobStatus.FAILED, Failure("Denied", "never", "trace"))


@pytest.mark.parametrize("retry", [ONCE, RetryPolicy()])
async def test_a_failure_may_come_without_a_reason(store: Store, retry: RetryPolicy) -> None:
    """Its event can be read like any other."""
    held = await a_running_job(store, retry=retry)

    assert await Worker(store.partitions[0]).report(held, How.FAILED) is Reported.OK

    assert "error" not in (await history(store, held.job_id))[-1].more


async def test_a_delay_asked_for_replaces_that_of_the_policy(store: Store, clock: Clock) -> None:
    """Also when it is none at all: then the job can be taken in the same call."""
    worker = await a_worker(store)
    held = await a_running_job(store)
    await worker.fail(held, delay_ms=123)
    assert (await record(store, held.job_id)).due_ms == clock.now_ms + 123
    clock.forward(1)
    await store.partitions[0].upkeep.promote()
    again = await worker.take()

    ending = Ending(again.job_id, again.lease.fence, How.FAILED, delay_ms=0)
    words, leases = await store.partitions[0].leases.report("w1", [ending], POOL, 1)

    assert words == [Reported.OK]
    assert [(lease.job_id, lease.attempt) for lease in leases] == [(held.job_id, 3)]


async def test_released_costs_nothing(store: Store, clock: Clock) -> None:
    """It is READY at once, with its attempt back, and keeps its deadline and its place."""
    first = await a_running_job(store, ttl_ms=60_000)
    clock.forward(1)
    await a_job(store)
    worker = Worker(store.partitions[0])

    assert await worker.release(first) is Reported.OK

    kept = await record(store, first.job_id)
    assert (kept.status, kept.attempt, kept.worker) == (JobStatus.READY, 0, None)
    assert [event.type for event in await history(store, first.job_id)][-1] == "job.released"
    again = await worker.take()
    assert (again.job_id, again.lease.attempt, again.lease.fence) == (first.job_id, 1, 2)
    await worker.release(again)
    clock.forward(60)
    assert await store.partitions[0].upkeep.expire() == 1


async def test_canceled_by_its_worker(store: Store) -> None:
    """Whether or not somebody asked for it."""
    held = await a_running_job(store)

    assert await Worker(store.partitions[0]).report(held, How.CANCELED) is Reported.OK

    assert await status(store, held.job_id) is JobStatus.CANCELED


async def test_a_success_leaves_no_old_error(store: Store) -> None:
    """The error of an earlier attempt is gone, even where the success has no value."""
    held = await a_running_job(store)
    worker = Worker(store.partitions[0])
    await worker.fail(held, "first try", delay_ms=0)

    await worker.report(await worker.take(), How.COMPLETED)

    kept = await record(store, held.job_id)
    assert (kept.status, kept.value, kept.failure) == (JobStatus.COMPLETED, None, None)


@pytest.mark.parametrize("how", list(How))
async def test_said_twice_it_is_done(store: Store, how: How) -> None:
    """The second report of an attempt changes nothing, whatever it says."""
    held = await a_running_job(store)
    worker = Worker(store.partitions[0])
    assert await worker.report(held, how) is Reported.OK
    before = await record(store, held.job_id)

    for other in How:
        assert await worker.report(held, other, value=b'"late"') is Reported.DONE

    assert await record(store, held.job_id) == before


async def a_lost_one(store: Store) -> Held:
    """Reaped, and waiting for its next attempt."""
    held = await a_running_job(store)
    await stall(store, held)
    assert await reap(store) == (1, 0)
    return held


async def one_that_another_has(store: Store) -> Held:
    """Reaped, and leased by another worker since."""
    held = await a_lost_one(store)
    await (await a_worker(store, "w2")).take()
    return held


async def one_leased_again_by_the_same(store: Store) -> Held:
    """The worker has it again, under a later fence."""
    held = await a_running_job(store)
    await Worker(store.partitions[0]).release(held)
    await Worker(store.partitions[0]).take()
    return held


async def one_with_a_wrong_fence(store: Store) -> Held:
    """A number from the future."""
    held = await a_running_job(store)
    return replace(held, lease=replace(held.lease, fence=7))


@pytest.mark.parametrize("how", list(How))
@pytest.mark.parametrize(
    "given", [a_lost_one, one_that_another_has, one_leased_again_by_the_same, one_with_a_wrong_fence]
)
async def test_a_stale_token_changes_nothing(store: Store, given: Given, how: How) -> None:
    """A late worker can neither finish nor lose the job it held."""
    held = await given(store)
    before = await record(store, held.job_id)

    assert await Worker(store.partitions[0]).report(held, how, value=b'"late"') is Reported.STALE

    assert await record(store, held.job_id) == before


@pytest.mark.parametrize("how", list(How))
async def test_another_worker_cannot_report_with_a_guessed_fence(store: Store, how: How) -> None:
    """The token is worker and fence."""
    held = await a_running_job(store, worker="w1")
    before = await record(store, held.job_id)

    assert await Worker(store.partitions[0], "w2").report(held, how) is Reported.STALE

    assert await record(store, held.job_id) == before


async def test_of_a_job_that_was_deleted_nothing_is_written(store: Store) -> None:
    """Its result is not left behind."""
    held = await a_running_job(store)
    await store.delete(held.job_id)

    assert await Worker(store.partitions[0]).complete(held) is Reported.GONE


async def test_many_endings_and_the_next_jobs_in_one_call(store: Store) -> None:
    """Each ending gets its own word, and the free slots are filled."""
    worker = await a_worker(store)
    await store.submit([new_job(store) for _ in range(6)])
    held = await worker.lease(3)
    endings = [
        Ending(held[0].job_id, 1, How.COMPLETED, value=b"1"),
        Ending(held[1].job_id, 9, How.COMPLETED),
        Ending(store.new_id(), 1, How.COMPLETED),
        Ending(held[2].job_id, 1, How.FAILED, failure=Failure("Oops", "")),
        Ending(held[0].job_id, 1, How.COMPLETED, value=b"2"),
    ]

    words, leases = await store.partitions[0].leases.report("w1", endings, POOL, 2)

    assert words == [Reported.OK, Reported.STALE, Reported.GONE, Reported.OK, Reported.DONE]
    assert len(leases) == 2
    assert (await record(store, held[0].job_id)).value == b"1"


async def test_an_ending_that_somebody_waits_for_goes_to_the_scheduler(store: Store) -> None:
    """And only such an ending."""
    alone = await a_running_job(store)
    await Worker(store.partitions[0]).complete(alone)
    assert await messages(store) == []
    parent = await a_running_job(store)
    await a_job(store, dependencies=(parent.job_id,))

    await Worker(store.partitions[0]).complete(parent)

    assert await messages(store) == [("ended", parent.job_id)]
