"""Following a job: its output and its end come without polling, whatever ends it."""

import asyncio
from hashlib import sha1

import pytest

from taskflow_domain import JobStatus, Retries, RetryPolicy, with_jitter
from taskflow_streams import Ending, Failure, How, Store
from tests.support.engine import a_running_job, reap, record, stall


async def test_the_end_wakes_those_who_follow(store: Store) -> None:
    """One blocking read gives the last output, and then the end."""
    held = await a_running_job(store)
    logs, leases = store.partitions[0].logs, store.partitions[0].leases
    assert await logs.follow(held.job_id) is JobStatus.RUNNING
    waiting = asyncio.create_task(logs.tail(held.job_id, block_ms=10_000))

    await leases.report("w1", [Ending(*held.token, How.COMPLETED, logs=(("stdout", b"bye"),))])

    chunks, ended, _ = await asyncio.wait_for(waiting, 10)
    if not ended:
        more, ended, _ = await logs.tail(held.job_id, chunks[-1].id, block_ms=10_000)
        chunks += more
    assert ([chunk.text for chunk in chunks], ended) == ([b"bye"], True)


async def test_progress_wakes_those_who_listen_for_it(store: Store) -> None:
    """The last word, also if it was said before somebody followed; and each once."""
    held = await a_running_job(store)
    logs, leases = store.partitions[0].logs, store.partitions[0].leases
    await leases.progress("w1", held.token, 0.1, "begun")
    await logs.follow(held.job_id)

    first = (await logs.tail(held.job_id, heard="0-0", block_ms=10_000)).progress
    assert first is not None
    waiting = asyncio.create_task(logs.tail(held.job_id, heard=first.id, block_ms=10_000))
    await leases.progress("w1", held.token, 0.75)
    second = (await asyncio.wait_for(waiting, 10)).progress

    assert second is not None
    assert [(word.fraction, word.note) for word in (first, second)] == [(0.1, "begun"), (0.75, None)]
    assert await logs.tail(held.job_id, heard=second.id, block_ms=1) == ([], False, None)


async def test_a_wait_ends_with_the_job(store: Store) -> None:
    """The record as it ended; an ended job is answered at once, a missing one with None."""
    held = await a_running_job(store)
    waiting = asyncio.create_task(store.wait_end(held.job_id, 10))
    await asyncio.sleep(0)

    await store.partitions[0].leases.report("w1", [Ending(*held.token, How.COMPLETED, b"7")])

    ended = await asyncio.wait_for(waiting, 10)
    assert ended is not None
    assert (ended.status, ended.value) == (JobStatus.COMPLETED, b"7")
    assert await store.wait_end(held.job_id, 10) == ended
    assert await store.wait_end(store.new_id(), 10) is None


async def test_a_wait_is_over_in_time(store: Store) -> None:
    """The job as it is then."""
    held = await a_running_job(store)

    waited = await store.wait_end(held.job_id, 0.01)

    assert waited is not None
    assert waited.status is JobStatus.RUNNING


@pytest.mark.parametrize("how", ["canceled", "deleted", "lost"])
async def test_every_ending_is_told(store: Store, how: str) -> None:
    """A cancelled, deleted or lost job ends for those who wait, too."""
    held = await a_running_job(store, retry=RetryPolicy(max_attempts=1))
    logs = store.partitions[0].logs
    await logs.follow(held.job_id)

    if how == "canceled":
        await store.partitions[0].leases.report("w1", [Ending(*held.token, How.CANCELED)])
    elif how == "deleted":
        await store.delete(held.job_id)
    else:
        await stall(store, held)
        await reap(store)

    assert await logs.ends_within(held.job_id, 10_000)


async def test_a_failed_attempt_keeps_what_it_gave(store: Store) -> None:
    """An exit code is a result although the job failed."""
    held = await a_running_job(store, retry=RetryPolicy(max_attempts=1))
    failure = Failure("ExitCode", "exit code 3")

    await store.partitions[0].leases.report(
        "w1", [Ending(*held.token, How.FAILED, b'{"exit_code":3}', failure, logs=(("stderr", b"no"),))]
    )

    job = await record(store, held.job_id)
    assert (job.status, job.value, job.failure) == (JobStatus.FAILED, b'{"exit_code":3}', failure)
    assert [chunk.text for chunk in await store.partitions[0].logs.read(held.job_id)] == [b"no"]


async def test_a_late_report_adds_no_output(store: Store) -> None:
    """The last words of an attempt that lost its lease are not the job's."""
    held = await a_running_job(store)
    await stall(store, held)
    await reap(store)

    await store.partitions[0].leases.report("w1", [Ending(*held.token, How.COMPLETED, logs=(("stdout", b"late"),))])

    assert await store.partitions[0].logs.read(held.job_id) == []


async def test_jitter_hangs_on_the_job_and_the_attempt_alone(store: Store) -> None:
    """The same id rests equally long again, never longer than without jitter, and not less than the share allows."""
    held = await a_running_job(store, retry=Retries(max_attempts=5, base_delay_seconds=100, jitter=0.5))
    before = await record(store, held.job_id)

    await store.partitions[0].leases.report("w1", [Ending(*held.token, How.FAILED, failure=Failure("E", "no"))])

    job = await record(store, held.job_id)
    assert job.due_ms is not None
    assert before.retry == job.retry
    rest = job.due_ms - job.updated_ms
    unit = int(sha1(f"{held.job_id}:1".encode(), usedforsecurity=False).hexdigest()[:8], 16) / 2**32
    assert rest == with_jitter(100_000, 0.5, unit)
    assert 50_000 < rest <= 100_000


async def test_a_worker_may_not_know_its_fences(store: Store) -> None:
    """Renewal by id alone keeps what the worker holds, and nothing of others'."""
    held = await a_running_job(store)
    leases = store.partitions[0].leases

    mine, _ = await leases.renew("w1", [(held.job_id, 0)])
    others, _ = await leases.renew("w2", [(held.job_id, 0)])

    assert [*mine, *others] == ["ok", "lost"]
    assert await leases.held("w1") == [held.token]
    assert await leases.held("w2") == []
