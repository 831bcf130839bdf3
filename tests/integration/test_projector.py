"""The projector and search: what happened can be found, in order, exactly once, whatever crashes between."""

from __future__ import annotations

from taskflow_domain import JobStatus
from taskflow_projector.fold import fold
from taskflow_projector.project import Projector
from taskflow_streams import Change, Query, Store
from tests.support.engine import Clock, a_job, a_running_job, a_worker, an_ended_job, record


def a_projector(store: Store, owner: str = "p1", batch: int = 2000) -> Projector:
    return Projector(store.partitions[0], owner, batch)


async def project(store: Store, batch: int = 2000) -> int:
    """Let a projector catch up; how many events it applied."""
    projector, total = a_projector(store, batch=batch), 0
    while applied := (await projector.run_once(block_ms=1)).events:
        total += applied
    return total


async def found(store: Store, **query: object) -> list[str]:
    page = await store.search.page(Query(**query), 100)  # type: ignore[arg-type]
    return [job.id for job in page.items]


async def test_jobs_are_found_by_every_filter(store: Store) -> None:
    """Queue, owner, status and priority pick exactly what they say, alone and together."""
    done = await an_ended_job(store, queue="two")
    low = await a_job(store, queue="one", order=9, owner="ann")
    high = await a_job(store, queue="two", order=0)
    await project(store)

    assert await found(store, queue="one") == [low]
    assert await found(store, owner="ann") == [low]
    assert await found(store, priority_min=10) == [high]
    assert await found(store, statuses=(JobStatus.COMPLETED,)) == [done]
    assert await found(store, queue="two", statuses=(JobStatus.READY,)) == [high]
    assert await store.search.total(Query(queue="two")) == 2


async def test_results_are_sorted_by_time_downwards_then_id_upwards(store: Store, clock: Clock) -> None:
    """Newest first; jobs of one millisecond by id."""
    first = [await a_job(store) for _ in range(3)]
    clock.forward(1)
    second = [await a_job(store) for _ in range(3)]
    await project(store)

    assert await found(store) == [*sorted(second), *sorted(first)]


async def test_pages_join_up_even_inside_one_millisecond(store: Store, clock: Clock) -> None:
    """Walking page by page visits every job once, also when the page's last job has been deleted meanwhile."""
    jobs = sorted([await a_job(store) for _ in range(25)])
    await project(store)
    seen: list[str] = []
    after = None

    while True:
        page = await store.search.page(Query(), 10, after)
        seen += [job.id for job in page.items]
        if not page.has_more:
            break
        last = page.items[-1]
        after = (-last.created_ms, last.id)
        await store.delete(last.id)
        await project(store)

    assert seen == jobs
    assert [job.id for job in (await store.search.page(Query(), 10, offset=20)).items] == [
        job for job in jobs if job not in (jobs[9], jobs[19])
    ][20:]


async def test_a_lagging_index_never_shows_what_is_no_longer_true(store: Store) -> None:
    """A page is filtered again on the records, so a job that has moved on is not listed where it was."""
    held = await a_running_job(store)
    await project(store)
    worker = await a_worker(store)
    await worker.complete(held)

    assert await found(store, statuses=(JobStatus.RUNNING,)) == []
    assert await store.search.barrier(0.01) > 0
    await project(store)
    assert await found(store, statuses=(JobStatus.COMPLETED,)) == [held.job_id]
    assert await store.search.barrier(0.01) == 0


async def test_an_update_moves_a_job_in_the_indexes(store: Store) -> None:
    """A job that changes its queue, priority and owner is found under the new ones alone."""
    job = await a_job(store, queue="old", order=5, owner="ann")
    await project(store)

    await store.update(
        job, (await record(store, job)).version, Change(set={"queue": "new", "order": 0, "owner": "bob"})
    )
    await project(store)

    assert await found(store, queue="new", priority_min=10, owner="bob") == [job]
    assert await found(store, queue="old") == []
    assert await found(store, owner="ann") == []


async def test_an_event_is_applied_exactly_once_by_two_projectors(store: Store) -> None:
    """Two that read the same events write them once: the second one's compare-and-set fails."""
    await a_job(store)
    partition = store.partitions[0]
    events = await partition.history.after("0-0", 10)
    changes = fold(events)

    first = await partition.projection.apply("0-0", events[-1].id, changes)
    second = await partition.projection.apply("0-0", events[-1].id, changes)

    assert first == second == events[-1].id
    assert (await partition.projection.totals())["job.submitted"] == 1


async def test_one_projector_is_active_and_another_takes_over(store: Store) -> None:
    """The second stands by while the first holds the partition, and goes on where it stopped."""
    await a_job(store)
    first, second = a_projector(store, "p1"), a_projector(store, "p2")
    assert (await first.run_once(block_ms=1)).events == 1
    await a_job(store)

    assert (await second.run_once(block_ms=1)).events == 0
    await store.redis.delete(store.partitions[0].keys("projector"))  # as if its time had run out

    assert (await second.run_once(block_ms=1)).events == 1
    assert len(await found(store)) == 2


async def test_a_deleted_job_leaves_the_indexes(store: Store) -> None:
    """Nothing of it is left after the projector has seen the deletion."""
    job = await a_job(store, owner="ann")
    await project(store)
    await store.delete(job)

    await project(store, batch=1)

    assert await store.redis.keys(store.partitions[0].keys("index", "*")) == []
