"""Lost answers, a server that goes away, a worker that was taken for dead: nothing is lost, nothing runs twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskflow import Registry
from taskflow_domain import JobStatus
from taskflow_streams import Ending, Lease, Partition, Pool, Reported, Store, Unavailable
from taskflow_streams.embedded import EmbeddedServer
from tests.support.consistency import faults
from tests.support.engine import history, statuses
from tests.support.working import a_job_for, ended, happened, hired, submitted, until

Reply = tuple[list[Reported], list[Lease]]
Call = Callable[[], Awaitable[Reply]]


class Line:
    """The way to one partition's leases, where a test can lose calls and answers."""

    def __init__(self, partition: Partition, carry: Callable[[Call, int], Awaitable[Reply]]) -> None:
        self._report, self._carry = partition.leases.report, carry
        partition.leases.report = self.report  # type: ignore[method-assign]

    async def report(self, worker: str, endings: Sequence[Ending], pool: Pool | None = None, want: int = 0) -> Reply:
        """As the real one, if the line holds."""
        return await self._carry(lambda: self._report(worker, endings, pool, want), len(endings))


def counting(tasks: Registry) -> list[int]:
    """Add the task `count`, which notes each of its runs."""
    runs: list[int] = []

    @tasks.task
    async def count(number: int) -> int:
        runs.append(number)
        return number

    return runs


async def test_a_job_leased_in_a_lost_answer_goes_back_and_runs(store: Store, server: EmbeddedServer) -> None:
    """The worker never heard of it; it gives it back at no cost before it asks again."""
    tasks, lost = Registry(), list[Reply]()
    runs = counting(tasks)

    async def carry(call: Call, _endings: int) -> Reply:
        reply = await call()
        if reply[1] and not lost:
            lost.append(reply)
            raise Unavailable("the connection was cut")
        return reply

    Line(store.partitions[0], carry)
    async with hired(store, server, tasks):
        job = await submitted(store, "count", payload=b'{"number":1}')
        done = await ended(store, job)

    assert (done.status, done.attempt, runs) == (JobStatus.COMPLETED, 1, [1])
    told = [event.type for event in await history(store, job)]
    assert told == ["job.submitted", "job.started", "job.released", "job.started", "job.completed"]


async def test_an_ending_whose_answer_was_lost_is_told_again(store: Store, server: EmbeddedServer) -> None:
    """The job is not run again for it, and it ends once."""
    tasks, lost = Registry(), list[int]()
    runs = counting(tasks)

    async def carry(call: Call, endings: int) -> Reply:
        if endings and len(lost) < 2:
            lost.append(endings)
            if len(lost) == 1:
                await call()  # done, but nobody knows; the second time it does not even get there
            raise Unavailable("the connection was cut")
        return await call()

    Line(store.partitions[0], carry)
    async with hired(store, server, tasks):
        job = await submitted(store, "count", payload=b'{"number":1}')
        done = await ended(store, job)

    assert (done.status, done.value, runs, lost) == (JobStatus.COMPLETED, b"1", [1], [1, 1])
    assert [event.type for event in await history(store, job)].count("job.completed") == 1


async def test_on_a_bad_line_every_job_still_runs_exactly_once(store: Store, server: EmbeddedServer) -> None:
    """A third of the calls or of their answers never arrive."""
    tasks, chance = Registry(), random.Random(7)
    runs = counting(tasks)

    async def carry(call: Call, _endings: int) -> Reply:
        fate = chance.random()
        if fate < 0.15:
            raise Unavailable("the call was lost")
        reply = await call()
        if fate < 0.33:
            raise Unavailable("the answer was lost")
        return reply

    Line(store.partitions[0], carry)
    jobs = [a_job_for(store, "count", payload=b'{"number":%d}' % number) for number in range(100)]
    await store.submit(jobs)
    async with hired(store, server, tasks, slots=8):
        for job in jobs:
            await ended(store, job.id, within_s=60)

    assert sorted(runs) == list(range(100))
    assert set(await statuses(store, [job.id for job in jobs])) == {"COMPLETED"}


async def test_a_call_that_the_server_takes_late_is_undone_too(store: Store, server: EmbeddedServer) -> None:
    """A server that only stalled may take the lost call after the worker has cleared up; it clears up once more."""
    tasks, late, partition = Registry(), asyncio.Event(), store.partitions[0]
    runs, resync, calls = counting(tasks), partition.leases.resync, list[Call]()

    async def carry(call: Call, _endings: int) -> Reply:
        if not calls:
            calls.append(call)
            raise Unavailable("no answer within 5 s")
        return await call()

    async def then_the_server_wakes_up(worker: str, tokens: Any) -> int:
        back = await resync(worker, tokens)
        if not late.is_set():
            late.set()
            await calls[0]()
        return back

    partition.leases.resync = then_the_server_wakes_up  # type: ignore[method-assign]
    job = await submitted(store, "count", payload=b'{"number":1}')
    Line(partition, carry)
    async with hired(store, server, tasks, wait_s=0.2):
        done = await ended(store, job)

    assert (done.status, done.attempt, runs) == (JobStatus.COMPLETED, 1, [1])
    assert [event.type for event in await history(store, job)].count("job.released") == 1


async def test_a_worker_outlives_its_server(tmp_path: Path) -> None:
    """What ended meanwhile is told when the server is back; until then the worker does not seem ready."""
    tasks, started, go = Registry(), asyncio.Event(), asyncio.Event()

    @tasks.task
    async def work() -> str:
        started.set()
        await go.wait()
        return "done while you were away"

    server, reads = EmbeddedServer(tmp_path), list[int]()
    server.start()
    store = await Store.connect(server.url)
    try:
        async with hired(store, server, tasks, heartbeat_s=0.1, wait_s=0.1, on_read=lambda: reads.append(1)) as one:
            job = await submitted(store, "work")
            await happened(started, "the attempt")
            server.kill()
            go.set()

            async def noticed() -> bool:
                return len(one.worker.fitness.failing) >= 2

            await until(noticed, "the loss of the server")
            before = len(reads)
            server.start()
            done = await ended(store, job)

            async def reads_again() -> bool:
                return len(reads) > before

            await until(reads_again, "a successful read")
            again = await ended(store, await submitted(store, "work"))

        assert (done.status, done.attempt, done.value) == (JobStatus.COMPLETED, 1, b'"done while you were away"')
        assert again.status is JobStatus.COMPLETED
        assert await faults(store) == []
    finally:
        await store.close()
        server.stop()


async def test_a_worker_that_cannot_take_jobs_is_not_ready(store: Store, server: EmbeddedServer) -> None:
    """Hearing the bell is not enough while what should follow fails."""
    reads, tries = list[int](), list[int]()

    async def carry(_call: Call, _endings: int) -> Reply:
        tries.append(1)
        raise Unavailable("no")

    Line(store.partitions[0], carry)
    tasks = Registry()
    counting(tasks)
    async with hired(store, server, tasks, wait_s=0.01, on_read=lambda: reads.append(1)) as one:

        async def tried() -> bool:
            return len(tries) >= 3

        await until(tried, "three tries")
        assert reads == []
        await one.cut_short()


async def test_a_worker_taken_for_dead_joins_again(store: Store, server: EmbeddedServer) -> None:
    """Its next heartbeat learns of it, and the handlers it has are offered again."""
    tasks = Registry()
    counting(tasks)
    workers = store.partitions[0].workers
    async with hired(store, server, tasks, heartbeat_s=0.05) as one:
        await ended(store, await submitted(store, "count", payload=b'{"number":1}'))
        assert await workers.bury(one.worker.id, 2**52, forget=False) == "left"

        async def joined() -> bool:
            return await workers.able("count")

        await until(joined, "its return")
        job = await submitted(store, "count", payload=b'{"number":2}')

        assert (await ended(store, job)).status is JobStatus.COMPLETED


@dataclass
class OtherPartition:
    """Takes slots away from a worker's desk, as a second partition would."""

    using: int = 0
    hungry: bool = False

    def slot_freed(self) -> None: ...


async def test_a_bell_that_a_full_worker_took_wakes_another(store: Store, server: EmbeddedServer) -> None:
    """It had a free slot when it began to wait, and has none when it hears the bell: a colleague must run the job."""
    tasks, other = Registry(), OtherPartition()
    counting(tasks)

    async def waiting(workers: int) -> None:
        async def blocked() -> bool:
            return int((await store.redis.info("clients"))["blocked_clients"]) == workers

        await until(blocked, f"{workers} workers that wait for the bell")

    async with hired(store, server, tasks, slots=1) as full:
        await ended(store, await submitted(store, "count", payload=b'{"number":1}'))
        await waiting(1)
        async with hired(store, server, tasks, slots=1) as idle:
            await waiting(2)
            full.worker.slots.reserve(other)

            job = await submitted(store, "count", payload=b'{"number":2}')

            assert (await ended(store, job, within_s=5)).worker == idle.worker.id


async def test_a_full_worker_does_not_listen_for_the_bell(store: Store, server: EmbeddedServer) -> None:
    """It would take it from those who could act on it, pass it on, and hear it again, for ever."""
    tasks, started, go = Registry(), asyncio.Event(), asyncio.Event()
    workers, joins = store.partitions[0].workers, list[str]()
    join = workers.join

    async def counted(worker: str, pool: Pool, fields: dict[str, str | int | float]) -> None:
        joins.append(worker)
        await join(worker, pool, fields)

    @tasks.task
    async def hold() -> None:
        started.set()
        await go.wait()

    workers.join = counted  # type: ignore[method-assign]
    async with hired(store, server, tasks, slots=1):
        first = await submitted(store, "hold")
        await happened(started, "the attempt that fills it")
        jobs = [first, *[await submitted(store, "hold") for _ in range(50)]]
        assert len(joins) <= 2  # its own, and one bell that may have rung while it filled up
        go.set()
        for job in jobs:
            await ended(store, job)


async def test_what_was_leased_unseen_is_found_behind_a_thousand_others(store: Store) -> None:
    """A worker with very many slots gives back what it does not know of, too."""
    leases, pool = store.partitions[0].leases, Pool(frozenset({"work"}))
    await store.partitions[0].workers.join("w", pool, {"name": "w"})
    await store.submit([a_job_for(store, "work") for _ in range(1000)])
    await store.submit([a_job_for(store, "work") for _ in range(10)])
    known = [lease for _ in range(2) for lease in await leases.lease("w", pool, 500)]
    unseen = await leases.lease("w", pool, 500)

    assert await leases.resync("w", [(lease.job_id, lease.fence) for lease in known]) == len(unseen) == 10
