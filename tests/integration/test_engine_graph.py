"""Dependencies: endings move those who wait, in chunks, down whole chains, and nobody twice."""

import pytest

from taskflow_domain import JobStatus
from taskflow_streams import SUBMIT_BATCH, How, Store
from tests.support.engine import (
    Worker,
    a_job,
    a_running_job,
    a_worker,
    an_ended_job,
    history,
    messages,
    new_job,
    settle,
    status,
    statuses,
)


async def test_the_last_dependency_makes_it_ready(store: Store) -> None:
    """Not the first; and it says so once."""
    worker = await a_worker(store)
    parents = [await a_job(store), await a_job(store)]
    child = await a_job(store, dependencies=tuple(parents))
    held = await worker.lease(2)

    await worker.complete(held[0])
    assert await settle(store) == 1
    assert await status(store, child) is JobStatus.PENDING
    await worker.complete(held[1])
    assert await settle(store) == 1

    assert await status(store, child) is JobStatus.READY
    assert [event.type for event in await history(store, child)] == ["job.submitted", "job.ready"]


@pytest.mark.parametrize("how", [How.FATAL, How.CANCELED])
async def test_without_success_who_waits_is_blocked(store: Store, how: How) -> None:
    """Whatever else it waits for, and only once."""
    failing, other = await a_running_job(store), await a_job(store, handler="other")
    child = await a_job(store, dependencies=(other, failing.job_id))
    await Worker(store.partitions[0]).report(failing, how)
    await settle(store)

    assert await status(store, child) is JobStatus.BLOCKED
    assert (await history(store, child))[-1].more == {"dependency": failing.job_id}
    await store.cancel(other)
    assert await settle(store) == 0


async def test_resolving_twice_moves_once(store: Store) -> None:
    """A message that is delivered again changes nothing."""
    parent = await a_running_job(store)
    await a_job(store, dependencies=(parent.job_id,))
    graph = store.partitions[0].graph
    assert (await graph.resolve(parent.job_id)).moved == 0  # it has not ended
    await Worker(store.partitions[0]).complete(parent)

    assert (await graph.resolve(parent.job_id)).moved == 1
    assert (await graph.resolve(parent.job_id)).moved == 0
    assert (await graph.resolve(store.new_id())).moved == 0
    await settle(store)


async def test_thousands_of_dependents_in_chunks(store: Store) -> None:
    """No single script moves them all."""
    parent = await a_running_job(store)
    children = [new_job(store, dependencies=(parent.job_id,)) for _ in range(2 * SUBMIT_BATCH)]
    for start in (0, SUBMIT_BATCH):
        await store.submit(children[start : start + SUBMIT_BATCH])
    await Worker(store.partitions[0]).complete(parent)
    graph = store.partitions[0].graph

    first = await graph.resolve(parent.job_id, limit=300)
    assert (first.moved, first.left) == (300, 1700)
    assert await settle(store) == 1700

    assert await statuses(store, [child.id for child in children]) == ["READY"] * 2000


async def test_a_failure_runs_down_a_chain_of_a_thousand(store: Store) -> None:
    """Each link is told by the one before."""
    chain = [new_job(store)]
    while len(chain) < SUBMIT_BATCH:
        chain.append(new_job(store, dependencies=(chain[-1].id,)))
    await store.submit(chain)

    await store.cancel(chain[0].id)
    assert await settle(store) == SUBMIT_BATCH - 1

    assert await statuses(store, [job.id for job in chain]) == ["CANCELED"] + ["BLOCKED"] * (SUBMIT_BATCH - 1)


async def test_a_diamond_whose_arm_fails(store: Store) -> None:
    """The other arm runs on; the join is blocked, and what comes after it."""
    worker = await a_worker(store)
    top = await a_job(store)
    left, right = [await a_job(store, dependencies=(top,), order=order) for order in (1, 2)]
    join = await a_job(store, dependencies=(left, right))
    after = await a_job(store, dependencies=(join,))
    await worker.complete(await worker.take())
    await settle(store)
    arms = await worker.lease(2)

    await worker.report(arms[0], How.FATAL)
    await settle(store)
    await worker.complete(arms[1])
    await settle(store)

    assert await statuses(store, [top, left, right, join, after]) == [
        "COMPLETED",
        "FAILED",
        "COMPLETED",
        "BLOCKED",
        "BLOCKED",
    ]


async def test_a_cycle_is_found_and_told(store: Store) -> None:
    """The path leads from the job around to itself; a self dependency is a cycle of one."""
    first = await a_job(store)
    second = await a_job(store, dependencies=(first,))
    third = await a_job(store, dependencies=(second,))

    assert await store.find_cycle(first, [third]) == ([first, third, second], 0)
    assert await store.find_cycle(first, [first]) == ([first], 0)
    assert await store.find_cycle(third, [first]) == ([], 0)
    assert await store.find_cycle(first, []) == ([], 0)


async def test_a_cycle_through_ten_thousand_jobs(store: Store) -> None:
    """In chunks, and without recursion."""
    chain = [new_job(store)]
    while len(chain) < 10_000:
        chain.append(new_job(store, dependencies=(chain[-1].id,)))
    for start in range(0, len(chain), SUBMIT_BATCH):
        await store.submit(chain[start : start + SUBMIT_BATCH])

    path, _ = await store.find_cycle(chain[0].id, [chain[-1].id])

    assert path == [chain[0].id, *(job.id for job in reversed(chain[1:]))]
    assert await store.find_cycle(store.new_id(), [chain[-1].id, chain[5].id]) == ([], 0)


async def test_a_message_of_a_dead_scheduler_is_taken_over(store: Store) -> None:
    """What was read and not acknowledged is not lost, and done once it is."""
    parent = await a_running_job(store)
    child = await a_job(store, dependencies=(parent.job_id,))
    await Worker(store.partitions[0]).complete(parent)
    graph = store.partitions[0].graph
    [taken] = await graph.read("dead", 1)
    assert await graph.take_over("alive", 60_000) == []

    [again] = await graph.take_over("alive", 0)
    assert again == taken
    assert await graph.retire_consumers(60_000) == 0
    assert await graph.retire_consumers(-1) == 1, "the dead one alone: the other has a message in hand"
    await graph.resolve(again.job)
    await graph.done([again])

    assert await status(store, child) is JobStatus.READY
    assert await messages(store) == []
    assert await graph.retire_consumers(-1) == 1
    assert await store.redis.xinfo_consumers(store.partitions[0].keys("graph"), "scheduler") == []


async def test_a_dependent_that_was_deleted_is_not_looked_for(store: Store) -> None:
    """Nor one that has been cancelled."""
    parent = await a_running_job(store)
    deleted = await a_job(store, dependencies=(parent.job_id,))
    await store.delete(deleted)
    await Worker(store.partitions[0]).complete(parent)

    assert await settle(store) == 0

    assert await an_ended_job(store) != deleted
