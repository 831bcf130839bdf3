"""What stops an attempt: its time limit, a cancel, a lost lease, the end of its worker."""

from __future__ import annotations

import asyncio
import threading

from taskflow import Registry, current
from taskflow_domain import JobStatus, RetryPolicy
from taskflow_streams import Canceled, Store
from taskflow_streams.embedded import EmbeddedServer
from tests.support.engine import history, record
from tests.support.working import PATIENCE_S, age, ended, happened, hired, idle_ms, lose, submitted, until


async def test_an_attempt_that_takes_too_long_has_failed(store: Store, server: EmbeddedServer) -> None:
    """The job's limit counts, else the task's; the coroutine is cancelled."""
    tasks, cancelled = Registry(), []

    @tasks.task(timeout_s=0.05)
    async def slow(label: str) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(label)
            raise

    async with hired(store, server, tasks):
        by_task = await ended(store, await submitted(store, "slow", payload=b'{"label":"task"}'))
        by_job = await ended(store, await submitted(store, "slow", payload=b'{"label":"job"}', timeout_ms=20))

    assert by_task.failure is not None
    assert by_job.failure is not None
    assert (by_task.status, by_task.failure.kind) == (JobStatus.FAILED, "TimedOut")
    assert by_task.failure.message == "it took longer than 0.05 s"
    assert by_job.failure.message == "it took longer than 0.02 s"
    assert cancelled == ["task", "job"]


async def test_a_handlers_own_timeout_is_an_ordinary_failure(store: Store, server: EmbeddedServer) -> None:
    """Only our limit is called TimedOut; a cancel of its own making does not stop the worker either."""
    tasks = Registry()

    @tasks.task(timeout_s=60)
    async def waits() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)

    @tasks.task
    async def cancels() -> None:
        raise asyncio.CancelledError

    async with hired(store, server, tasks):
        waited = (await ended(store, await submitted(store, "waits"))).failure
        canceled = (await ended(store, await submitted(store, "cancels"))).failure

    assert waited is not None
    assert canceled is not None
    assert (waited.kind, canceled.kind) == ("TimeoutError", "CancelledError")


async def test_a_thread_past_its_limit_keeps_its_slot(store: Store, server: EmbeddedServer) -> None:
    """It cannot be stopped: the job has failed, but nothing else starts in its place until it returns."""
    tasks, others, go, started = Registry(), Registry(), threading.Event(), []

    @others.task
    async def unrelated() -> None: ...

    @tasks.task
    def blocks() -> str:
        go.wait(PATIENCE_S)
        return "too late"

    @tasks.task
    async def after() -> None:
        started.append(go.is_set())

    async with hired(store, server, tasks, slots=1, wait_s=0.05):
        late = await ended(store, await submitted(store, "blocks", timeout_ms=20))
        job = await submitted(store, "after")
        async with hired(store, server, others):  # as much time as a job takes
            await ended(store, await submitted(store, "unrelated"))
        assert (await record(store, job)).status is JobStatus.READY
        go.set()
        await ended(store, job)

    assert late.failure is not None
    assert (late.status, late.failure.kind, late.value) == (JobStatus.FAILED, "TimedOut", None)
    assert started == [True]
    assert (await record(store, late.id)).value is None


async def test_a_cancel_reaches_a_worker_that_is_full(store: Store, server: EmbeddedServer) -> None:
    """It need not wait for a heartbeat: the order comes at once."""
    tasks, started = Registry(), asyncio.Event()

    @tasks.task
    async def forever() -> None:
        started.set()
        await asyncio.sleep(3600)

    async with hired(store, server, tasks, slots=1):
        job = await submitted(store, "forever")
        await happened(started, "the attempt")

        assert await store.cancel(job) is Canceled.STOPPING
        done = await ended(store, job, within_s=5)

    assert (done.status, done.attempt) == (JobStatus.CANCELED, 1)


async def test_a_cancel_reaches_a_worker_with_free_slots(store: Store, server: EmbeddedServer) -> None:
    """The same while it waits for the bell."""
    tasks, started = Registry(), asyncio.Event()

    @tasks.task
    async def forever() -> None:
        started.set()
        await asyncio.sleep(3600)

    async with hired(store, server, tasks, slots=8):
        job = await submitted(store, "forever")
        await happened(started, "the attempt")

        await store.cancel(job)

        assert (await ended(store, job, within_s=5)).status is JobStatus.CANCELED


async def test_a_cancel_whose_order_was_lost_comes_with_the_heartbeat(store: Store, server: EmbeddedServer) -> None:
    """The flag in the record is enough."""
    tasks, started = Registry(), asyncio.Event()

    @tasks.task
    async def forever() -> None:
        started.set()
        await asyncio.sleep(3600)

    async with hired(store, server, tasks, heartbeat_s=0.05):
        job = await submitted(store, "forever")
        await happened(started, "the attempt")

        home = store.partitions[0]
        await home.redis.hset(home.keys("job", job), "cancel", 1)

        assert (await ended(store, job)).status is JobStatus.CANCELED


async def test_a_cancelled_thread_sees_it_and_ends_canceled(store: Store, server: EmbeddedServer) -> None:
    """A loop in a thread looks at `current().canceled`; the job is RUNNING until it has ended."""
    tasks, started = Registry(), threading.Event()

    @tasks.task
    def loops() -> None:
        started.set()
        while not current().canceled:
            threading.Event().wait(0.01)
        raise InterruptedError("told to stop")

    async with hired(store, server, tasks):
        job = await submitted(store, "loops")
        await asyncio.to_thread(started.wait, PATIENCE_S)

        await store.cancel(job)

        assert (await ended(store, job)).status is JobStatus.CANCELED


async def test_work_that_ended_before_the_cancel_came_is_completed(store: Store, server: EmbeddedServer) -> None:
    """A handler that succeeds although it was told to stop has succeeded."""
    tasks, started = Registry(), asyncio.Event()

    @tasks.task
    async def stubborn() -> str:
        started.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "done anyway"
        return "slept"

    async with hired(store, server, tasks):
        job = await submitted(store, "stubborn")
        await happened(started, "the attempt")
        await store.cancel(job)
        done = await ended(store, job)

    assert (done.status, done.value) == (JobStatus.COMPLETED, b'"done anyway"')


async def test_a_deleted_job_is_stopped(store: Store, server: EmbeddedServer) -> None:
    """Its record is gone at once; its attempt is killed and says nothing any more."""
    tasks, started, killed = Registry(), asyncio.Event(), asyncio.Event()

    @tasks.task
    async def forever() -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        finally:
            killed.set()

    async with hired(store, server, tasks):
        job = await submitted(store, "forever")
        await happened(started, "the attempt")

        await store.delete(job)

        await happened(killed, "the attempt's end")
    assert await store.get([job]) == [None]


async def test_a_lost_lease_stops_the_attempt(store: Store, server: EmbeddedServer) -> None:
    """The heartbeat learns of it; the next attempt is another, and its result counts."""
    tasks, started, killed = Registry(), asyncio.Event(), []

    @tasks.task
    async def twice() -> int:
        if current().attempt == 1:
            started.set()
            try:
                await asyncio.sleep(3600)
            finally:
                killed.append(1)
        return current().attempt

    async with hired(store, server, tasks, heartbeat_s=0.05):
        job = await submitted(store, "twice", retry=RetryPolicy(max_attempts=2))
        await happened(started, "the first attempt")

        await lose(store, job)
        done = await ended(store, job)

        async def is_killed() -> bool:
            return killed == [1]

        await until(is_killed, "the end of the first attempt")
    assert (done.status, done.attempt, done.value) == (JobStatus.COMPLETED, 2, b"2")


async def test_the_late_ending_of_a_lost_lease_is_ignored(store: Store, server: EmbeddedServer) -> None:
    """A thread that cannot be stopped may come to its end, but has nothing to say."""
    tasks, started, go = Registry(), threading.Event(), threading.Event()

    @tasks.task
    def twice() -> str:
        if current().attempt == 1:
            started.set()
            go.wait(PATIENCE_S)
            return "late"
        return "in time"

    async with hired(store, server, tasks) as one:
        job = await submitted(store, "twice", retry=RetryPolicy(max_attempts=2))
        await asyncio.to_thread(started.wait, PATIENCE_S)
        await lose(store, job)
        await ended(store, job)

        go.set()
        await one.stop()

    done = await record(store, job)
    assert (done.status, done.attempt, done.value) == (JobStatus.COMPLETED, 2, b'"in time"')


async def test_a_computing_thread_does_not_stop_the_heart(store: Store, server: EmbeddedServer) -> None:
    """A lease is renewed while a handler that never pauses holds the interpreter."""
    tasks, go = Registry(), threading.Event()

    @tasks.task
    def computes() -> None:
        while not go.is_set():
            sum(range(1000))

    async with hired(store, server, tasks, heartbeat_s=0.1):
        job = await submitted(store, "computes")

        async def runs() -> bool:
            return (await record(store, job)).status is JobStatus.RUNNING

        await until(runs, "the attempt")
        await age(store, job, 100)

        async def renewed() -> bool:
            return await idle_ms(store, job) < 50_000

        await until(renewed, "a renewal")
        go.set()
        assert (await ended(store, job)).attempt == 1


async def test_a_coroutine_that_blocks_the_loop_does_not_stop_the_heart(store: Store, server: EmbeddedServer) -> None:
    """Bad manners cost the other jobs of the worker time, but none of them its lease."""
    tasks, started, seen = Registry(), threading.Event(), threading.Event()

    @tasks.task
    async def blocks() -> bool:
        started.set()
        return seen.wait(PATIENCE_S)  # the whole event loop, this test with it

    async def watch(job: str, namespace: str) -> None:
        other = await Store.connect(server.url, namespace=namespace)
        await age(other, job, 100)

        async def renewed() -> bool:
            return await idle_ms(other, job) < 50_000

        await until(renewed, "a renewal")
        seen.set()
        await other.close()

    def watch_from_outside(job: str, namespace: str) -> None:
        assert started.wait(PATIENCE_S)
        asyncio.run(watch(job, namespace))

    namespace = store.partitions[0].keys.prefix.partition(":")[0]
    async with hired(store, server, tasks, heartbeat_s=0.1):
        job = await submitted(store, "blocks")
        await asyncio.to_thread(watch_from_outside, job, namespace)
        assert (await ended(store, job)).value == b"true"


async def test_a_stopping_worker_lets_its_jobs_finish(store: Store, server: EmbeddedServer) -> None:
    """It takes nothing new, reports what it has, and leaves the list of workers."""
    tasks, started, go = Registry(), asyncio.Event(), asyncio.Event()

    @tasks.task
    async def work() -> str:
        started.set()
        await go.wait()
        return "finished"

    async with hired(store, server, tasks) as one:
        job = await submitted(store, "work")
        await happened(started, "the attempt")

        one.stopping.set()

        async def stops() -> bool:
            return all(desk.draining for desk in one.worker.desks)

        await until(stops, "the beginning of its end")
        later = await submitted(store, "work")
        go.set()
        await one.stop()

    done = await record(store, job)
    assert (done.status, done.value) == (JobStatus.COMPLETED, b'"finished"')
    assert (await record(store, later)).status is JobStatus.READY
    assert await store.partitions[0].workers.list() == []


async def test_what_is_not_finished_in_time_goes_back(store: Store, server: EmbeddedServer) -> None:
    """Coroutines, threads and those who do not want to stop: all READY again, at no cost."""
    tasks, go, started = Registry(), threading.Event(), []

    @tasks.task
    async def sleeps() -> None:
        started.append("sleeps")
        await asyncio.sleep(3600)

    @tasks.task
    def blocks() -> None:
        started.append("blocks")
        go.wait(PATIENCE_S)

    @tasks.task
    async def refuses() -> None:
        started.append("refuses")
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if go.is_set():
                    raise

    async with hired(store, server, tasks) as one:
        jobs = [await submitted(store, task) for task in ("sleeps", "blocks", "refuses")]

        async def all_run() -> bool:
            return len(started) == 3

        await until(all_run, "three attempts")
        await one.cut_short()
    go.set()

    for job in jobs:
        left = await record(store, job)
        assert (left.status, left.attempt, left.worker) == (JobStatus.READY, 0, None)
        assert [event.type for event in await history(store, job)][-1] == "job.released"
    assert await store.partitions[0].workers.list() == []


async def test_a_drained_worker_takes_nothing_new(store: Store, server: EmbeddedServer) -> None:
    """The order comes through its inbox; what runs goes on, and the worker stays."""
    tasks, started, go = Registry(), asyncio.Event(), asyncio.Event()

    @tasks.task
    async def work() -> None:
        started.set()
        await go.wait()

    async with hired(store, server, tasks, heartbeat_s=0.05) as one:
        job = await submitted(store, "work")
        await happened(started, "the attempt")
        home = store.partitions[0]
        await home.redis.zadd(home.keys("inbox", one.worker.id), {"drain": 1})

        async def drained() -> bool:
            [shown] = await home.workers.list()
            return shown.fields.get("status") == "draining"

        await until(drained, "the order's effect")
        later = await submitted(store, "work")
        go.set()

        assert (await ended(store, job)).status is JobStatus.COMPLETED
        assert (await record(store, later)).status is JobStatus.READY
