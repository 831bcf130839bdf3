"""Code on the worker's event loop, and executors, that do what nobody expects: an attempt ends, the worker goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from taskflow import Registry, current
from taskflow.executor import Failed, Outcome, Report, Succeeded, Work
from taskflow_domain import JobStatus
from taskflow_streams import Canceled, JobRecord, Lease, Store
from taskflow_streams.embedded import EmbeddedServer
from taskflow_worker import attempt
from taskflow_worker.holding import Holding
from tests.support.working import QUEUE, Hired, a_job_for, ended, happened, hired, submitted, until

MIB = 1 << 20


class Odd(BaseException):
    """What `except Exception` does not see."""


def why(job: JobRecord) -> tuple[JobStatus, str]:
    """How it ended, and the class of its error."""
    return job.status, job.failure.kind if job.failure else ""


@pytest.mark.parametrize("kind", [Odd, GeneratorExit, KeyboardInterrupt, SystemExit, asyncio.CancelledError])
async def test_whatever_a_task_raises_is_a_failed_attempt(
    store: Store, server: EmbeddedServer, kind: type[BaseException]
) -> None:
    """Also what would end an event loop; and the worker runs the next job."""
    tasks = Registry()

    @tasks.task
    async def odd() -> None:
        raise kind("no")

    @tasks.task
    async def fine() -> int:
        return 1

    async with hired(store, server, tasks, slots=1):
        job = await ended(store, await submitted(store, "odd"))
        assert (await ended(store, await submitted(store, "fine"))).value == b"1"

    assert (why(job), job.attempt) == ((JobStatus.FAILED, kind.__name__), 1)


@pytest.mark.parametrize("isolation", ["async", "thread"])
async def test_an_exception_that_resists_telling_is_told(store: Store, server: EmbeddedServer, isolation: str) -> None:
    """Its own text raises what nobody expects of a text."""
    tasks = Registry()

    class Mute(Exception):
        def __str__(self) -> str:
            raise SystemExit(3)

    def mute() -> None:
        raise Mute

    async def mute_on_the_loop() -> None:
        mute()

    if isolation == "thread":
        tasks.task(name="mute", isolation="thread")(mute)
    else:
        tasks.task(name="mute")(mute_on_the_loop)

    async with hired(store, server, tasks):
        job = await ended(store, await submitted(store, "mute"))

    assert (why(job), job.attempt) == ((JobStatus.FAILED, "Mute"), 1)


async def test_a_task_that_cancels_itself_has_failed(store: Store, server: EmbeddedServer) -> None:
    """Nobody else told it to stop, so it is not given back, to run again and again at no cost."""
    tasks = Registry()

    @tasks.task
    async def gives_up() -> None:
        me = asyncio.current_task()
        assert me is not None
        me.cancel()
        await asyncio.sleep(3600)

    async with hired(store, server, tasks):
        job = await ended(store, await submitted(store, "gives_up"))

    assert (why(job), job.attempt) == ((JobStatus.FAILED, "CancelledError"), 1)


@pytest.mark.parametrize(("note", "expected"), [(None, "TypeError"), (7, "TypeError"), ("half \ud800", "")])
async def test_a_bad_note_harms_nobody_else(store: Store, server: EmbeddedServer, note: Any, expected: str) -> None:
    """What is no text fails its attempt; half a surrogate pair is replaced.  The worker tells of the others."""
    tasks = Registry()

    @tasks.task
    async def notes() -> None:
        current().progress(0.5, note)

    @tasks.task
    async def fine() -> None: ...

    async with hired(store, server, tasks):
        bad = await ended(store, await submitted(store, "notes"))
        assert (await ended(store, await submitted(store, "fine"))).status is JobStatus.COMPLETED

    assert (bad.failure.kind if bad.failure else "") == expected
    assert bad.progress_note == (None if expected else "half ?")


async def test_a_task_that_does_not_stop_is_given_up_and_keeps_its_slot(
    store: Store, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past its limit the job has failed, canceled it is canceled; the worker is degraded until the slots are free."""
    monkeypatch.setattr(attempt, "STUBBORN_S", 0.05)
    tasks, go, started = Registry(), asyncio.Event(), asyncio.Event()

    @tasks.task
    async def stubborn() -> None:
        started.set()
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    @tasks.task
    async def fine() -> None: ...

    async def shown(one: Hired) -> str:
        found = await store.partitions[0].workers.get(one.worker.id)
        return found.fields["status"] if found is not None else ""

    async with hired(store, server, tasks, slots=2, kill_grace_s=0.05, heartbeat_s=0.05, wait_s=0.05) as one:
        late = await submitted(store, "stubborn", timeout_ms=50)
        assert why(await ended(store, late)) == (JobStatus.FAILED, "TimedOut")
        started.clear()
        canceled = await submitted(store, "stubborn")
        await happened(started, "the second attempt")
        assert await store.cancel(canceled) is Canceled.STOPPING
        assert (await ended(store, canceled)).status is JobStatus.CANCELED
        assert one.worker.slots.free == 0

        async def degraded() -> bool:
            return await shown(one) == "degraded"

        await until(degraded, "the complaint")
        waiting = await submitted(store, "fine")
        go.set()
        assert (await ended(store, waiting)).status is JobStatus.COMPLETED

        async def active() -> bool:
            return await shown(one) == "active"

        await until(active, "the recovery")


class Scripted:
    """An executor that returns what it is told to, and reports nonsense."""

    def __init__(self, outcome: Any) -> None:
        self._outcome = outcome

    async def run(self, work: Work, report: Report) -> Outcome:
        """One attempt."""
        anything: Any = report
        anything.progress("half", None)
        anything.write("nowhere", "as text\n")
        anything.write("stderr", bytearray(b"as bytes\n"))
        outcome: Outcome = self._outcome
        return outcome

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    "outcome",
    [
        None, True, "text", {"a": 1}, Succeeded, Succeeded(object()), Succeeded({"a": 1}), Succeeded("text"),  # type: ignore[arg-type]
        Succeeded(b"{nope"), Succeeded(b"NaN"), Succeeded(b'"' + b"x" * 2 * MIB + b'"'), Failed("text"), Failed(None),  # type: ignore[arg-type]
    ],
)  # fmt: skip
async def test_an_executor_that_returns_nonsense_has_failed(store: Store, server: EmbeddedServer, outcome: Any) -> None:
    """With a sentence that names it; the job can be read, and the worker goes on."""
    job = a_job_for(store, "@odd", type="odd")
    async with hired(store, server, Registry(), executors={"odd": Scripted(outcome)}):
        await store.submit([job])
        done = await ended(store, job.id)

    assert why(done) == (JobStatus.FAILED, "BadOutcome")
    assert done.failure is not None
    assert "@odd" in done.failure.message
    chunks = await store.partitions[0].logs.read(job.id)
    assert [(chunk.stream, chunk.text) for chunk in chunks] == [("stdout", b"as text\n"), ("stderr", b"as bytes\n")]


async def test_there_are_never_more_leases_than_slots(
    store: Store, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while there are more large results than can be told in one call."""
    tasks, held = Registry(), list[int]()
    start = Holding.start

    def counted(self: Holding, leases: list[Lease]) -> list[Lease]:
        strangers = start(self, leases)
        held.append(len(self.attempts))
        return strangers

    monkeypatch.setattr(Holding, "start", counted)

    @tasks.task
    async def large() -> str:
        return "x" * (MIB - 2)

    jobs = [a_job_for(store, "large") for _ in range(40)]
    await store.submit(jobs)
    async with hired(store, server, tasks, slots=8):
        for job in jobs:
            assert (await ended(store, job.id)).status is JobStatus.COMPLETED

    assert max(held) == 8
    assert await store.redis.xlen(store.partitions[0].keys("work", QUEUE)) == 0
