"""A worker takes what it can run, in order, and never more than it has slots for."""

from __future__ import annotations

import asyncio
import json
import threading

from taskflow import Fatal, Registry, current
from taskflow_domain import JobStatus, RetryPolicy, Subscriptions
from taskflow_streams import Store
from taskflow_streams.embedded import EmbeddedServer
from tests.support.engine import Clock, history, record
from tests.support.working import ended, happened, hired, submitted, until


async def test_a_job_runs_and_its_result_is_kept(store: Store, server: EmbeddedServer) -> None:
    """Coroutine functions and plain ones: the payload goes in, the result comes out."""
    tasks = Registry()

    @tasks.task
    async def add(a: int, b: int) -> int:
        return a + b

    @tasks.task
    def upper(text: str) -> dict[str, str]:
        return {"text": text.upper()}

    async with hired(store, server, tasks):
        first = await submitted(store, "add", payload=b'{"a":2,"b":3}')
        second = await submitted(store, "upper", payload='{"text":"grüße"}'.encode())

        done = await ended(store, first)
        assert (done.status, done.value, done.attempt, done.failure) == (JobStatus.COMPLETED, b"5", 1, None)
        assert (await ended(store, second)).value == '{"text":"GRÜSSE"}'.encode()


async def test_the_most_urgent_runs_first(store: Store, server: EmbeddedServer) -> None:
    """With one slot jobs run by priority, then by age."""
    tasks, ran = Registry(), []

    @tasks.task
    async def note(label: str) -> None:
        ran.append(label)

    jobs = [
        await submitted(store, "note", order=order, payload=f'{{"label":"{label}"}}'.encode())
        for label, order in (("low", 9), ("first", 5), ("second", 5), ("high", 0))
    ]
    async with hired(store, server, tasks, slots=1):
        for job in jobs:
            await ended(store, job)

    assert ran == ["high", "first", "second", "low"]


async def test_a_failed_attempt_is_tried_again(store: Store, server: EmbeddedServer, clock: Clock) -> None:
    """The second attempt sees that it is the second, and what it returns is the result."""
    tasks = Registry()

    @tasks.task
    async def flaky() -> str:
        if current().attempt == 1:
            raise ConnectionError("not yet")
        return f"attempt {current().attempt}"

    async with hired(store, server, tasks):
        job = await submitted(store, "flaky", retry=RetryPolicy(max_attempts=2, base_delay_seconds=10))

        async def failed_once() -> bool:
            return (await record(store, job)).due_ms is not None

        await until(failed_once, "the first attempt")
        waiting = await record(store, job)
        assert waiting.status is JobStatus.READY
        assert waiting.failure is not None
        assert (waiting.failure.kind, waiting.failure.message) == ("ConnectionError", "not yet")
        assert waiting.failure.traceback is not None
        assert "in flaky" in waiting.failure.traceback
        assert "taskflow_worker" not in waiting.failure.traceback

        clock.forward(10)
        await store.partitions[0].upkeep.promote()
        done = await ended(store, job)

    assert (done.status, done.value, done.attempt, done.failure) == (JobStatus.COMPLETED, b'"attempt 2"', 2, None)


async def test_what_no_retry_helps_is_not_tried_again(store: Store, server: EmbeddedServer) -> None:
    """`Fatal` uses up all attempts at once."""
    tasks = Registry()

    @tasks.task
    async def hopeless() -> None:
        raise Fatal("no such customer")

    async with hired(store, server, tasks):
        job = await submitted(store, "hopeless", retry=RetryPolicy(max_attempts=5))
        done = await ended(store, job)

    assert (done.status, done.attempt) == (JobStatus.FAILED, 1)
    assert done.failure is not None
    assert done.failure.message == "no such customer"


async def test_wrong_arguments_and_results_are_failures_that_say_so(store: Store, server: EmbeddedServer) -> None:
    """The job's error tells what did not fit; the worker goes on."""
    tasks = Registry()

    @tasks.task
    async def greet(name: str, greeting: str = "hello") -> str:
        return f"{greeting} {name}"

    @tasks.task
    def opaque() -> object:
        return object()

    @tasks.task
    def leave() -> None:
        raise SystemExit(3)

    async with hired(store, server, tasks):
        jobs = [
            await submitted(store, "greet", payload=b'{"nam":"Ada"}'),
            await submitted(store, "opaque"),
            await submitted(store, "leave"),
        ]
        failures = [(await ended(store, job)).failure for job in jobs]

    assert [failure.kind for failure in failures if failure] == ["TypeError", "TypeError", "SystemExit"]
    assert failures[0] is not None
    assert "does not fit greet(name, greeting='hello')" in failures[0].message
    assert failures[1] is not None
    assert "a task returns JSON" in failures[1].message


async def test_there_are_never_more_attempts_than_slots(wide_store: Store, server: EmbeddedServer) -> None:
    """Also over several partitions, which share them; and no partition is forgotten."""
    tasks, running, most = Registry(), 0, 0

    @tasks.task
    async def busy() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    jobs = [await submitted(wide_store, "busy") for _ in range(200)]
    async with hired(wide_store, server, tasks, slots=3):
        done = [await ended(wide_store, job) for job in jobs]

    assert {job.status for job in done} == {JobStatus.COMPLETED}
    assert {job.attempt for job in done} == {1}
    assert most == 3


async def test_more_slots_than_one_call_may_fill_are_filled(store: Store, server: EmbeddedServer) -> None:
    """A worker with many slots asks until they are full or nothing is left."""
    tasks, started, go = Registry(), asyncio.Event(), asyncio.Event()
    running = 0

    @tasks.task
    async def hold() -> None:
        nonlocal running
        running += 1
        if running == 250:
            started.set()
        await go.wait()

    jobs = [await submitted(store, "hold") for _ in range(250)]
    async with hired(store, server, tasks, slots=300):
        await happened(started, "250 attempts at once")
        go.set()
        for job in jobs:
            await ended(store, job)


async def test_a_worker_takes_only_from_its_queues(store: Store, server: EmbeddedServer) -> None:
    """One that names queues leaves the others alone; one that names none takes from all, also from new ones."""
    tasks = Registry()

    @tasks.task
    async def work() -> None: ...

    async with hired(store, server, tasks, queues=Subscriptions((("mail", None),))):
        other = await submitted(store, "work", queue="video")
        mail = await submitted(store, "work", queue="mail")
        await ended(store, mail)
        assert (await record(store, other)).status is JobStatus.READY

        async with hired(store, server, tasks):
            await ended(store, other)
            await ended(store, await submitted(store, "work", queue="never_seen_before"))


async def test_a_job_waits_for_a_worker_that_has_its_handler(store: Store, server: EmbeddedServer) -> None:
    """Until one joins it costs no attempt; then it runs at once."""
    old, new = Registry(), Registry()

    @old.task
    async def known() -> None: ...

    @new.task
    async def unheard_of() -> str:
        return "at last"

    async with hired(store, server, old):
        job = await submitted(store, "unheard_of")
        await ended(store, await submitted(store, "known"))
        assert (await record(store, job)).status is JobStatus.READY

        async with hired(store, server, new):
            done = await ended(store, job)

    assert (done.status, done.attempt, done.value) == (JobStatus.COMPLETED, 1, b'"at last"')


async def test_an_idle_worker_is_woken_by_the_bell(store: Store, server: EmbeddedServer) -> None:
    """It also hears it again after it was full, and after it had nothing to do."""
    tasks = Registry()

    @tasks.task
    async def work() -> None: ...

    async with hired(store, server, tasks, slots=2):
        for _ in range(5):
            jobs = [await submitted(store, "work") for _ in range(5)]
            for job in jobs:
                await ended(store, job, within_s=5)


async def test_a_handler_knows_its_attempt_and_tells_its_progress(store: Store, server: EmbeddedServer) -> None:
    """`current()` works on the event loop and in threads; progress stands in the record."""
    tasks, go = Registry(), threading.Event()

    @tasks.task(timeout_s=60)
    def measure() -> list[object]:
        context = current()
        context.progress(0.25, "a quarter")
        go.wait(20)
        return [context.job_id, context.attempt, context.fence, context.queue, context.name, context.worker]

    async with hired(store, server, tasks) as one:
        job = await submitted(store, "measure", name="the measurement")

        async def told() -> bool:
            return (await record(store, job)).progress is not None

        await until(told, "the progress")
        running = await record(store, job)
        assert (running.progress, running.progress_note) == (0.25, "a quarter")
        go.set()
        done = await ended(store, job)

    assert done.value is not None
    assert json.loads(done.value) == [job, 1, 1, "q", "the measurement", one.worker.id]
    assert [event.worker for event in await history(store, job) if event.type == "job.started"] == [one.worker.id]
