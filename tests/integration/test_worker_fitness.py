"""A worker that does nothing does not pass for healthy, one that has done enough makes room for a new one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from taskflow import Registry
from taskflow_domain import JobStatus
from taskflow_streams import Ending, Lease, Partition, Pool, Reported, Store, Token, Unavailable
from taskflow_streams.embedded import EmbeddedServer
from taskflow_streams.leases import Leases
from taskflow_worker.fitness import BUSY_LOOP_S
from taskflow_worker.pulse import Fields
from taskflow_worker.worker import Broken
from tests.support.engine import record, statuses
from tests.support.working import (
    PATIENCE_S,
    Hired,
    a_job_for,
    age,
    ended,
    happened,
    hired,
    idle_ms,
    submitted,
    until,
)


def idle_tasks() -> Registry:
    """One task, that does nothing."""
    tasks = Registry()

    @tasks.task
    async def nothing() -> None: ...

    return tasks


async def told(partition: Partition, one: Hired, status: str) -> None:
    """Wait until the list of workers shows this."""

    async def shown() -> bool:
        found = await partition.workers.get(one.worker.id)
        return found is not None and found.fields["status"] == status

    await until(shown, f"status {status}")


async def test_an_idle_worker_with_rare_heartbeats_is_healthy(
    store: Store, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it is from one heartbeat to the next, nothing blocks it."""
    told: list[object] = []
    renew = Leases.renew

    async def heard(self: Leases, worker: str, tokens: Sequence[Token], fields: Fields | None = None) -> object:
        told.append((fields or {})["status"])
        return await renew(self, worker, tokens, fields)

    monkeypatch.setattr(Leases, "renew", heard)
    async with hired(store, server, idle_tasks(), heartbeat_s=1.5 * BUSY_LOOP_S):

        async def told_thrice() -> bool:
            return len(told) >= 3

        await until(told_thrice, "three heartbeats")
        assert set(told) == {"active"}


async def test_a_worker_whose_calls_hang_is_degraded_and_not_ready(store: Store, server: EmbeddedServer) -> None:
    """Its heart beats on, no step fails, and yet it says that it does not work; it recovers by itself."""
    partition, reads, go = store.partitions[0], list[int](), asyncio.Event()
    report = partition.leases.report

    async def hangs(
        worker: str, endings: Sequence[Ending], pool: Pool | None = None, want: int = 0
    ) -> tuple[list[Reported], list[Lease]]:
        await go.wait()
        return await report(worker, endings, pool, want)

    partition.leases.report = hangs  # type: ignore[method-assign]
    options = {"heartbeat_s": 0.1, "wait_s": 0.2, "on_read": lambda: reads.append(1)}
    async with hired(store, server, idle_tasks(), **options) as one:
        await told(partition, one, "degraded")
        assert reads == []

        go.set()
        await told(partition, one, "active")
        assert (await ended(store, await submitted(store, "nothing"))).status is JobStatus.COMPLETED


@pytest.mark.parametrize("part", ["pump", "listen", "ship_output"])
async def test_a_worker_that_lost_a_part_gives_its_jobs_back_and_ends(
    store: Store, server: EmbeddedServer, part: str
) -> None:
    """So that whoever supervises it starts a whole one."""
    tasks, started = Registry(), asyncio.Event()

    @tasks.task
    async def long() -> None:
        started.set()
        await asyncio.sleep(3600)

    async with hired(store, server, tasks, wait_s=0.1) as one:
        job = await submitted(store, "long")
        await happened(started, "the attempt")
        [loop] = [loop for loop in one.worker._loops if loop.get_name() == f"Desk.{part}"]
        while not loop.done():  # as a library does that takes its own cancel for ours; ours swallows some, too
            loop.cancel()
            await asyncio.sleep(0.01)

        with pytest.raises(Broken, match=part):
            await asyncio.wait_for(one.life, PATIENCE_S)

    left = await record(store, job)
    assert (left.status, left.attempt) == (JobStatus.READY, 0)


async def test_a_worker_without_a_heart_ends(store: Store, server: EmbeddedServer) -> None:
    """It could take jobs, but would lose every lease."""

    async def stops(_store: Store) -> None:
        raise asyncio.CancelledError

    async with hired(store, server, idle_tasks(), heartbeat_s=0.05) as one:
        await ended(store, await submitted(store, "nothing"))
        one.worker._heart._beat = stops

        with pytest.raises(Broken, match="heart"):
            await asyncio.wait_for(one.life, PATIENCE_S)


async def test_what_one_partition_suffers_costs_no_other_its_leases(
    wide_store: Store, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The renewals of one fail; those of the others go on."""
    tasks, go = Registry(), asyncio.Event()
    renew, sick = Leases.renew, wide_store.partitions[0].keys.prefix

    @tasks.task
    async def waits() -> None:
        await go.wait()

    async def fails_in_one(self: Leases, worker: str, tokens: Sequence[Token], fields: Fields | None = None) -> object:
        if self._keys.prefix == sick:
            raise Unavailable("no")
        return await renew(self, worker, tokens, fields)

    monkeypatch.setattr(Leases, "renew", fails_in_one)
    jobs = [a_job_for(wide_store, "waits") for _ in range(40)]  # in all partitions, as good as certainly
    await wide_store.submit(jobs)
    async with hired(wide_store, server, tasks, slots=40, heartbeat_s=0.1):

        async def all_run() -> bool:
            return set(await statuses(wide_store, [job.id for job in jobs])) == {"RUNNING"}

        await until(all_run, "forty attempts")
        healthy = [job.id for job in jobs if not _is_in(wide_store, job.id, sick)]
        assert healthy
        for job_id in healthy:
            await age(wide_store, job_id, 100)

        async def renewed() -> bool:
            return max([await idle_ms(wide_store, job_id) for job_id in healthy]) < 50_000

        await until(renewed, "renewals in the healthy partitions")
        go.set()
        for job in jobs:
            await ended(wide_store, job.id)


def _is_in(store: Store, job_id: str, prefix: str) -> bool:
    home = store.partition(job_id)
    assert home is not None
    return home.keys.prefix == prefix


async def test_a_worker_ends_after_exactly_so_many_jobs(store: Store, server: EmbeddedServer) -> None:
    """It leaves the list, and what is left waits for the next."""
    tasks = idle_tasks()
    jobs = [a_job_for(store, "nothing") for _ in range(12)]
    await store.submit(jobs)

    async with hired(store, server, tasks, slots=4, max_jobs=7) as one:
        await asyncio.wait_for(one.life, PATIENCE_S)

    assert sorted(await statuses(store, [job.id for job in jobs])) == ["COMPLETED"] * 7 + ["READY"] * 5
    assert await store.partitions[0].workers.list() == []
    async with hired(store, server, tasks, slots=4, max_jobs=7):
        for job in jobs:
            await ended(store, job.id)


async def test_a_worker_that_has_grown_ends_after_its_job(store: Store, server: EmbeddedServer) -> None:
    """What runs may finish.  One that has run nothing stays: it would be no smaller if it were started anew."""
    tasks, started, go, beats = Registry(), asyncio.Event(), asyncio.Event(), list[int]()

    @tasks.task
    async def work() -> str:
        started.set()
        await go.wait()
        return "finished"

    async with hired(store, server, tasks, heartbeat_s=0.05, max_memory_bytes=1) as one:
        beat = one.worker._heart._beat

        async def counted(heart_store: Store) -> None:
            await beat(heart_store)
            beats.append(1)

        one.worker._heart._beat = counted

        async def has_beaten() -> bool:
            return len(beats) >= 3

        await until(has_beaten, "three heartbeats")
        assert not one.life.done()
        job = await submitted(store, "work")
        await happened(started, "the attempt")

        async def recycles() -> bool:
            return one.worker.desks[0].draining

        await until(recycles, "the beginning of its end")
        later = await submitted(store, "work")
        go.set()
        await asyncio.wait_for(one.life, PATIENCE_S)

    assert (await record(store, job)).value == b'"finished"'
    assert (await record(store, later)).status is JobStatus.READY


async def test_a_worker_told_so_cancels_what_its_stop_cuts_short(store: Store, server: EmbeddedServer) -> None:
    """S2's way of stopping: interrupted work is canceled, and runs nowhere else."""
    tasks, started = Registry(), asyncio.Event()

    @tasks.task
    async def long() -> None:
        started.set()
        await asyncio.sleep(3600)

    async with hired(store, server, tasks, cancel_at_stop=True) as one:
        job = await submitted(store, "long")
        await happened(started, "the attempt")
        await one.cut_short()

    assert (await record(store, job)).status is JobStatus.CANCELED
