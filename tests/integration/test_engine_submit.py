"""Submit: all or none, safe to repeat, and each job is born where it belongs."""

from dataclasses import replace

import pytest

from taskflow_domain import JobStatus, RetryPolicy
from taskflow_streams import SUBMIT_BATCH, DependencyCycle, Store, Submitted, UnknownDependency
from tests.support.engine import (
    Clock,
    a_job,
    a_running_job,
    a_worker,
    an_ended_job,
    history,
    messages,
    new_job,
    record,
    status,
    statuses,
)

UNKNOWN = "019b7c3f-0000-7000-8000-000000000000"


async def test_a_job_is_kept_as_it_was_given(store: Store, clock: Clock) -> None:
    """Every field comes back, and what happened to it is told once."""
    job = new_job(
        store,
        name="resize",
        task="images.resize",
        handler="images.resize",
        payload=b'{"width":80}',
        order=-3,
        retry=RetryPolicy(max_attempts=7, base_delay_seconds=2),
        timeout_ms=100_000_000,
        due_ms=clock.now_ms + 5,
        expires_ms=clock.now_ms + 9_000,
        owner="ann b",
        run_id="r1",
        retry_of=UNKNOWN,
    )

    assert await store.submit([job]) == [Submitted.CREATED]

    kept = await record(store, job.id)
    assert (kept.spec.name, kept.spec.task, kept.spec.payload, kept.spec.type) == (
        "resize",
        "images.resize",
        b'{"width":80}',
        "task",
    )
    assert (kept.status, kept.order, kept.retry, kept.timeout_ms) == (JobStatus.READY, -3, job.retry, 100_000_000)
    assert (kept.due_ms, kept.expires_ms) == (job.due_ms, job.expires_ms)
    assert (kept.owner, kept.run_id, kept.retry_of) == ("ann b", "r1", UNKNOWN)
    assert (kept.created_ms, kept.updated_ms, kept.attempt, kept.fence) == (clock.now_ms, clock.now_ms, 0, 0)
    [submitted] = await history(store, job.id)
    assert (submitted.type, submitted.to, submitted.owner) == ("job.submitted", "READY", "ann b")
    assert kept.event_ids == (submitted.id,)


@pytest.mark.parametrize(
    "times",
    [
        {"delay_ms": 5_000, "ttl_ms": 9_000},
        {"due_ms": 1_800_000_000_000, "expires_ms": 1_900_000_000_000},
        {"due_ms": 1_800_000_000_000, "delay_ms": 5, "expires_ms": 1_900_000_000_000, "ttl_ms": 5},
        {"delay_ms": 0},
    ],
)
@pytest.mark.parametrize("parent", [None, JobStatus.PENDING, JobStatus.FAILED])
async def test_a_creation_is_answered_with_the_record_it_made(
    store: Store, clock: Clock, times: dict[str, int], parent: JobStatus | None
) -> None:
    """Without reading it back, field by field; what was there already is not told."""
    needs: tuple[str, ...] = ()
    if parent is not None:
        needs = (await an_ended_job(store, parent) if parent is JobStatus.FAILED else await a_job(store),)
    job = new_job(store, dependencies=needs, owner="ann", timeout_ms=3, retry_of=UNKNOWN, task="t", **times)

    [(word, born)] = await store.create([job])

    assert word is Submitted.CREATED
    assert born is not None
    kept = await record(store, job.id)
    assert replace(born, event_ids=kept.event_ids) == kept
    assert await store.create([job]) == [(Submitted.EXISTING, None)]


async def test_the_same_submission_twice_is_one_job(store: Store) -> None:
    """A caller that lost the reply may send it again, even after the job has run."""
    job = new_job(store, payload=b'"first"')
    await store.submit([job])
    held = await (await a_worker(store)).take()

    again = await store.submit([job, new_job(store, id=job.id, payload=b'"second"')])

    assert again == [Submitted.EXISTING, Submitted.EXISTING]
    assert (await record(store, job.id)).spec.payload == b'"first"'
    assert held.job_id == job.id
    assert await status(store, job.id) is JobStatus.RUNNING


async def test_the_same_id_twice_in_a_batch_is_one_job(store: Store) -> None:
    """The first wins."""
    job = new_job(store)

    assert await store.submit([job, job]) == [Submitted.CREATED, Submitted.EXISTING]


async def test_an_unknown_dependency_refuses_the_whole_batch(store: Store) -> None:
    """All or none: the jobs before it are not written either."""
    good = new_job(store)
    bad = new_job(store, dependencies=(good.id, UNKNOWN))

    with pytest.raises(UnknownDependency) as refused:
        await store.submit([good, bad])

    assert (refused.value.job_id, refused.value.dependency) == (bad.id, UNKNOWN)
    assert await statuses(store, [good.id, bad.id]) == ["MISSING", "MISSING"]


@pytest.mark.parametrize("dependency", ["not-an-id", "019b7c3f-0000-7000-8010-000000000000"])
async def test_a_dependency_that_cannot_exist_is_unknown(store: Store, dependency: str) -> None:
    """Neither an id of another shape nor one of a partition that is not there."""
    with pytest.raises(UnknownDependency):
        await store.submit([new_job(store, dependencies=(dependency,))])


@pytest.mark.parametrize(
    ("ended", "born"),
    [
        (JobStatus.COMPLETED, JobStatus.READY),
        (JobStatus.FAILED, JobStatus.BLOCKED),
        (JobStatus.CANCELED, JobStatus.BLOCKED),
    ],
)
async def test_a_dependency_that_has_ended_decides_at_once(store: Store, ended: JobStatus, born: JobStatus) -> None:
    """Nothing waits for what will never come."""
    parent = await an_ended_job(store, ended)

    child = await a_job(store, dependencies=(parent,))

    assert await status(store, child) is born
    assert (await record(store, child)).finished_ms == (
        None if born is JobStatus.READY else (await record(store, child)).created_ms
    )


async def test_one_failed_dependency_outweighs_those_still_running(store: Store) -> None:
    """S1's rule order: blocked, then waiting, then ready."""
    failed = await an_ended_job(store, JobStatus.FAILED)
    running = await a_running_job(store)

    assert await status(store, await a_job(store, dependencies=(running.job_id, failed))) is JobStatus.BLOCKED
    assert await status(store, await a_job(store, dependencies=(running.job_id,))) is JobStatus.PENDING


async def test_a_batch_may_be_in_any_order(store: Store) -> None:
    """Children may stand before their parents, and share them."""
    parent = new_job(store)
    children = [new_job(store, dependencies=(parent.id,)) for _ in range(3)]
    last = new_job(store, dependencies=tuple(child.id for child in children))

    await store.submit([last, *children, parent])

    assert await statuses(store, [job.id for job in (last, *children, parent)]) == ["PENDING"] * 4 + ["READY"]


async def test_blocked_runs_through_a_batch(store: Store) -> None:
    """A child of a job that is born BLOCKED is born BLOCKED as well."""
    failed = await an_ended_job(store, JobStatus.FAILED)
    chain = [new_job(store, dependencies=(failed,))]
    for _ in range(3):
        chain.append(new_job(store, dependencies=(chain[-1].id,)))

    await store.submit(chain[::-1])

    assert await statuses(store, [job.id for job in chain]) == ["BLOCKED"] * 4


async def test_a_chain_as_long_as_a_batch(store: Store) -> None:
    """A thousand jobs, each of which needs the one before, listed last first."""
    chain = [new_job(store)]
    while len(chain) < SUBMIT_BATCH:
        chain.append(new_job(store, dependencies=(chain[-1].id,)))

    await store.submit(chain[::-1])

    assert await statuses(store, [job.id for job in chain]) == ["READY"] + ["PENDING"] * (SUBMIT_BATCH - 1)
    with pytest.raises(ValueError, match="at most"):
        await store.submit([*chain, new_job(store)])


async def test_a_cycle_in_a_batch_is_refused_and_the_server_lives(store: Store) -> None:
    """Nobody may hang the server: the script finds the cycle before it writes."""
    first, second = store.new_id(), store.new_id()
    innocent = new_job(store)
    circle = [new_job(store, id=first, dependencies=(second,)), new_job(store, id=second, dependencies=(first,))]

    with pytest.raises(DependencyCycle) as refused:
        await store.submit([innocent, *circle])
    with pytest.raises(DependencyCycle) as refused_alone:
        await store.submit([new_job(store, id=first, dependencies=(first,))])

    assert sorted(refused.value.path) == sorted([first, second])
    assert refused_alone.value.path == [first]
    assert await statuses(store, [innocent.id, first, second]) == ["MISSING"] * 3


async def test_due_later_is_told_to_the_scheduler_when_it_is_the_first(store: Store, clock: Clock) -> None:
    """A job that is due before all others must not wait for the scheduler's next look."""
    await a_job(store, delay_ms=60_000)
    await a_job(store, delay_ms=90_000)
    assert await messages(store) == [("due", "")]

    await a_job(store, due_ms=clock.now_ms + 1_000)

    assert await messages(store) == [("due", ""), ("due", "")]


async def test_due_in_the_past_is_ready_now(store: Store, clock: Clock) -> None:
    """Such a job can be leased at once."""
    job = await a_job(store, due_ms=clock.now_ms)

    assert (await (await a_worker(store)).take()).job_id == job
