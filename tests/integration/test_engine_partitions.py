"""Partitions: complete engines side by side, and dependencies that reach from one into another."""

import pytest

from taskflow_domain import JobStatus, partition_of
from taskflow_scheduler.resolve import Resolver
from taskflow_streams import Change, Deleted, How, Store, Unfit, Updated
from taskflow_streams.embedded import EmbeddedServer
from tests.support.engine import (
    Worker,
    a_job,
    a_worker,
    messages,
    new_job,
    record,
    settle,
    status,
    statuses,
)


def an_id_in(store: Store, partition: int) -> str:
    """An id of that partition."""
    while partition_of(job_id := store.new_id()) != partition:
        pass
    return job_id


async def jobs_in(store: Store, *partitions: int) -> list[str]:
    """A job in each of these partitions."""
    return [await a_job(store, id=an_id_in(store, partition)) for partition in partitions]


async def finish(store: Store, job_id: str, *, well: bool = True) -> None:
    """Let a job run and end."""
    home = store.partition(job_id)
    assert home is not None
    worker = await a_worker(store, partition=home.index)
    held = await worker.take()
    assert held.job_id == job_id
    if well:
        await worker.complete(held)
    else:
        await worker.report(held, How.FATAL)


async def test_an_id_says_where_its_job_lives(wide_store: Store) -> None:
    """A batch over all partitions is found again, each job in its own."""
    jobs = [new_job(wide_store) for _ in range(40)]
    await wide_store.submit(jobs)

    assert {partition_of(job.id) for job in jobs} == {0, 1, 2, 3}
    assert await statuses(wide_store, [job.id for job in jobs]) == ["READY"] * 40
    assert await wide_store.exist([jobs[0].id, "nonsense", wide_store.new_id(), jobs[1].id]) == [
        True,
        False,
        False,
        True,
    ]
    for partition in wide_store.partitions:
        here = [job.id for job in jobs if partition_of(job.id) == partition.index]
        worker = await a_worker(wide_store, partition=partition.index)
        assert sorted(held.job_id for held in await worker.lease(100)) == sorted(here)


async def test_a_job_is_born_where_its_first_dependency_is(wide_store: Store) -> None:
    """Most dependencies never leave their partition."""
    parents = await jobs_in(wide_store, 2, 0)

    assert {partition_of(wide_store.new_id(parents)) for _ in range(20)} == {2}


async def test_a_job_waits_for_others_elsewhere(wide_store: Store) -> None:
    """It is READY when the last of them has completed, wherever that is."""
    parents = await jobs_in(wide_store, 0, 1, 3)
    child = await a_job(wide_store, dependencies=tuple(parents))
    assert partition_of(child) == 0
    assert [kind for kind, _ in await messages(wide_store)] == ["subscribe", "subscribe"]
    await settle(wide_store)

    for parent in (parents[1], parents[0], parents[2]):
        assert await status(wide_store, child) is JobStatus.PENDING
        await finish(wide_store, parent)
        await settle(wide_store)

    assert await status(wide_store, child) is JobStatus.READY


@pytest.mark.parametrize("well", [True, False])
async def test_what_ended_before_the_scheduler_looked(wide_store: Store, well: bool) -> None:
    """The subscription is answered at once."""
    here, there = await jobs_in(wide_store, 0, 1)
    await finish(wide_store, here)
    await finish(wide_store, there, well=well)
    child = await a_job(wide_store, dependencies=(here, there))

    await settle(wide_store)

    assert await status(wide_store, child) is (JobStatus.READY if well else JobStatus.BLOCKED)


async def test_a_failure_crosses_partitions_and_goes_on(wide_store: Store) -> None:
    """A child elsewhere is blocked, and its own children after it."""
    near, far = await jobs_in(wide_store, 0, 1)
    child = await a_job(wide_store, dependencies=(near, far))
    grandchild = await a_job(wide_store, id=an_id_in(wide_store, 2), dependencies=(child,))
    await settle(wide_store)

    await finish(wide_store, far, well=False)
    await settle(wide_store)

    assert await statuses(wide_store, [child, grandchild]) == ["BLOCKED", "BLOCKED"]


async def test_messages_may_come_twice(wide_store: Store) -> None:
    """A scheduler that died before it acknowledged is followed by one that does the same again."""
    near, far = await jobs_in(wide_store, 0, 1)
    child = await a_job(wide_store, dependencies=(near, far))
    here, there = wide_store.partitions[0].graph, wide_store.partitions[1].graph
    for _ in range(2):
        assert await there.watch(far, child) == "READY"
    await finish(wide_store, far)
    resolution = await there.resolve(far)
    assert (resolution.moved, resolution.elsewhere) == (0, (child,))

    assert await here.resolve_far(far, "COMPLETED", [child]) == 1
    assert await here.resolve_far(far, "COMPLETED", [child]) == 0
    await there.forget(far, [child])
    await there.forget(far, [child])

    assert await there.watch(far, child) == "COMPLETED"
    await settle(wide_store)
    await finish(wide_store, near)
    await settle(wide_store)
    assert await status(wide_store, child) is JobStatus.READY


async def test_what_is_named_from_elsewhere_cannot_be_deleted(wide_store: Store) -> None:
    """Until the job that names it is gone."""
    near, far = await jobs_in(wide_store, 0, 1)
    child = await a_job(wide_store, dependencies=(near, far))
    await settle(wide_store)
    assert await wide_store.delete(far) is Deleted.NAMED

    assert await wide_store.delete(child) is Deleted.DELETED
    await settle(wide_store)

    assert await wide_store.delete(far) is Deleted.DELETED
    assert await wide_store.delete(near) is Deleted.DELETED


async def test_who_is_erased_before_it_subscribed_leaves_nothing(wide_store: Store) -> None:
    """Even where another scheduler handles the erasure before the subscription."""
    near, far = await jobs_in(wide_store, 0, 1)
    child = await a_job(wide_store, dependencies=(near, far))
    graph = wide_store.partitions[0].graph
    [subscribe] = await graph.read("slow", 1)
    await wide_store.delete(child)
    await settle(wide_store)

    await Resolver(wide_store, wide_store.partitions[0]).handle([subscribe])

    assert await wide_store.delete(far) is Deleted.DELETED


async def test_a_dependency_removed_before_anybody_subscribed_blocks(wide_store: Store) -> None:
    """Nothing waits for ever."""
    near, far = await jobs_in(wide_store, 0, 1)
    child = await a_job(wide_store, dependencies=(near, far))
    assert await wide_store.delete(far) is Deleted.DELETED

    await settle(wide_store)

    assert await status(wide_store, child) is JobStatus.BLOCKED


async def test_a_cancelled_child_is_forgotten_there_when_its_parent_ends(wide_store: Store) -> None:
    """Being told moves it no more."""
    near, far = await jobs_in(wide_store, 0, 1)
    child = await a_job(wide_store, dependencies=(near, far))
    await settle(wide_store)
    await wide_store.cancel(child)

    await finish(wide_store, far)
    await settle(wide_store)

    assert await status(wide_store, child) is JobStatus.CANCELED


async def test_an_update_keeps_or_drops_what_it_needs_elsewhere(wide_store: Store) -> None:
    """Kept, it is still waited for; dropped, it can be deleted.  New edges between partitions are refused."""
    near, far, other = await jobs_in(wide_store, 0, 1, 2)
    child = await a_job(wide_store, dependencies=(near, far))
    await settle(wide_store)

    assert await wide_store.update(child, 0, Change(dependencies=(far,)), 0) == (Updated.OK, "")
    assert (await record(wide_store, child)).status is JobStatus.PENDING
    assert await wide_store.update(child, 1, Change(dependencies=(far, other)), 1) == (Updated.UNKNOWN, other)
    assert await wide_store.update(child, 1, Change(dependencies=(near,)), 1) == (Updated.OK, "")
    await settle(wide_store)

    assert await wide_store.delete(far) is Deleted.DELETED
    await finish(wide_store, near)
    await settle(wide_store)
    assert await status(wide_store, child) is JobStatus.READY


async def test_a_cycle_through_several_partitions_is_found(wide_store: Store) -> None:
    """The new edge is local; the others that close it lie elsewhere."""
    first, other = await jobs_in(wide_store, 0, 3)
    second = await a_job(wide_store, id=an_id_in(wide_store, 1), dependencies=(first,))
    third = await a_job(wide_store, id=an_id_in(wide_store, 0), dependencies=(second, other))
    await settle(wide_store)

    assert await wide_store.find_cycle(first, [third]) == ([first, third, second], 0)
    assert await wide_store.find_cycle(third, [first]) == ([], 0)
    assert await wide_store.find_cycle(first, ["nonsense", other]) == ([], 0)


async def test_jobs_of_a_batch_that_need_one_another_share_a_partition(wide_store: Store) -> None:
    """Otherwise one could be told that the other does not exist, before it does."""
    near, far = (new_job(wide_store, id=an_id_in(wide_store, i)) for i in (0, 1))
    child = new_job(wide_store, dependencies=(near.id, far.id))

    with pytest.raises(ValueError, match="one partition"):
        await wide_store.submit([near, far, child])

    assert await statuses(wide_store, [near.id, far.id, child.id]) == ["MISSING"] * 3


async def test_the_number_of_partitions_only_grows(server: EmbeddedServer) -> None:
    """Fewer would lose jobs; none given takes what is there."""

    async def opened(partitions: int | None) -> int:
        store = await Store.connect(server.url, namespace="growing", partitions=partitions)
        count = len(store.partitions)
        await store.close()
        return count

    assert [await opened(count) for count in (None, 2, None, 4, 4)] == [1, 2, 2, 4, 4]
    with pytest.raises(Unfit, match="can only grow"):
        await opened(3)


async def test_a_job_of_a_worker_elsewhere_is_not_touched(wide_store: Store) -> None:
    """The same worker name in two partitions is two lists of leases."""
    first, second = await jobs_in(wide_store, 0, 1)
    workers = [await a_worker(wide_store, partition=index) for index in (0, 1)]
    held = [await worker.take() for worker in workers]

    assert await wide_store.partitions[0].leases.resync("w1", []) == 1

    assert await statuses(wide_store, [first, second]) == ["READY", "RUNNING"]
    assert await Worker(wide_store.partitions[1]).complete(held[1]) == "ok"
