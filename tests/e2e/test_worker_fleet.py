"""Several workers, each a process of its own, on one server: limits, pauses, weights, bad lines, bad jobs."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from taskflow import AsyncClient, AsyncHandle, Submission
from taskflow_domain import JobStatus, RetryPolicy
from taskflow_streams import Event
from taskflow_streams.embedded import EmbeddedServer
from tests.support.consistency import faults
from tests.support.crew import DEADLINE_S, Process, started
from tests.support.cutting import cut_line
from tests.support.working import until

TASKS = "tests.support.crew_tasks"
ONCE = RetryPolicy(max_attempts=1)
PERSISTENT = RetryPolicy(max_attempts=10, base_delay_seconds=1)
LONGER_S = 4.0  # a visibility time-out that leaves a busy machine the time to start a connection

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("fleet")]


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server for this test alone."""
    with EmbeddedServer(tmp_path / "valkey", durable=False) as server:
        yield server


@pytest.fixture
async def client(own_server: EmbeddedServer) -> AsyncIterator[AsyncClient]:
    """A client of it.  Afterwards all that is left there is consistent."""
    async with await AsyncClient.connect(own_server.url) as one:
        yield one
        assert await faults(one.store) == []


async def events(client: AsyncClient) -> list[Event]:
    """All that happened."""
    return await client.store.partitions[0].history.after("0-0", 1_000_000)


def most_at_once(history: Sequence[Event], queue: str) -> int:
    """How many jobs of a queue were RUNNING at the same time, at most."""
    at_once = most = 0
    for event in history:
        if event.queue == queue:
            at_once += (event.to == "RUNNING") - (event.from_ == "RUNNING")
            most = max(most, at_once)
    return most


async def all_end(client: AsyncClient, jobs: Sequence[str | AsyncHandle[Any]]) -> Counter[str]:
    """How many ended how."""
    return Counter([(await client.wait(str(job), DEADLINE_S)).status.value for job in jobs])


async def some_run(client: AsyncClient, queue: str, count: int) -> None:
    """Wait until so many jobs of a queue run."""

    async def run() -> bool:
        return (await client.store.partitions[0].queues.get(queue)).running >= count

    await until(run, f"{count} running jobs", DEADLINE_S)


async def test_a_limit_is_never_exceeded_even_while_workers_are_killed(
    client: AsyncClient, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """By the history, and by the jobs' own account: each finds one of as many places as may run at once."""
    limit, places = 3, tmp_path / "places"
    places.mkdir()
    await client.store.partitions[0].queues.set("narrow", {"max_concurrent": limit})
    reaper = Process("reaper", own_server.url, tmp_path)
    crew = [Process("worker", own_server.url, tmp_path, TASKS, TASKFLOW_WORKER_CONCURRENCY="4") for _ in range(3)]
    with started(reaper, *crew):
        payload = {"folder": str(places), "places": limit, "seconds": 0.15}
        ids = await client.enqueue_many(
            Submission("occupy", payload, queue="narrow", retry_policy=PERSISTENT) for _ in range(60)
        )
        for victim in crew[:2]:
            await victim.ready()
            await some_run(client, "narrow", limit)
            victim.popen.kill()
        ends = await all_end(client, ids)

    assert ends == {"COMPLETED": 60}
    assert most_at_once(await events(client), "narrow") == limit


async def test_a_paused_queue_starts_nothing_until_it_resumes(
    client: AsyncClient, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """What runs comes to its end; another queue goes on; afterwards all is done."""
    queues = client.store.partitions[0].queues
    crew = [Process("worker", own_server.url, tmp_path, TASKFLOW_WORKER_CONCURRENCY="2") for _ in range(2)]
    with started(*crew):
        ids = await client.enqueue_many(
            Submission("taskflow.sleep", {"seconds": 0.3}, queue="held", retry_policy=ONCE) for _ in range(12)
        )
        await some_run(client, "held", 2)
        await queues.set("held", {"paused": 1})
        paused_ms = await client.store.now_ms()

        async def came_to_rest() -> bool:
            return (await queues.get("held")).running == 0

        await until(came_to_rest, "the end of what ran", DEADLINE_S)
        other = [await client.enqueue_named("taskflow.noop", queue="free") for _ in range(20)]
        assert await all_end(client, other) == {"COMPLETED": 20}
        resumed_ms = await client.store.now_ms()
        await queues.set("held", {"paused": 0})
        assert await all_end(client, ids) == {"COMPLETED": 12}

    starts = [event.at_ms for event in await events(client) if (event.queue, event.to) == ("held", "RUNNING")]
    assert any(at_ms >= resumed_ms for at_ms in starts)
    assert not [at_ms for at_ms in starts if paused_ms < at_ms < resumed_ms]


async def test_shares_follow_the_weights_and_order_is_strict_inside_a_queue(
    client: AsyncClient, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """Two workers told `critical=6,default=3` start two of the one for each of the other, the urgent ones first."""
    priorities = {}
    for number in range(90):
        for queue in ("critical", "default", "ignored"):
            priority = 1 + number % 10
            job = await client.enqueue_named("taskflow.noop", queue=queue, priority=priority, retry_policy=ONCE)
            priorities[job.id] = priority
    settings: dict[str, Any] = {"TASKFLOW_WORKER_CONCURRENCY": "3", "TASKFLOW_WORKER_QUEUES": "critical=6,default=3"}
    crew = [Process("worker", own_server.url, tmp_path, **settings) for _ in range(2)]
    with started(*crew):
        wanted = [event.job_id for event in await events(client) if event.queue in ("critical", "default")]
        assert await all_end(client, wanted) == {"COMPLETED": 180}

    starts = [event for event in await events(client) if event.to == "RUNNING"]
    shares = Counter(event.queue for event in starts[:90])
    assert shares.keys() == {"critical", "default"}  # and nothing of a queue that nobody asked for
    assert abs(shares["critical"] - 60) <= 2
    for queue in ("critical", "default"):
        order = [priorities[event.job_id] for event in starts if event.queue == queue]
        assert order == sorted(order, reverse=True)


async def test_an_answer_lost_on_the_wire_orphans_nothing(
    client: AsyncClient, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """Connections are cut between the request and its answer; each job runs exactly once all the same."""
    marks, dice = tmp_path / "marks", random.Random(3)
    marks.mkdir()
    async with cut_line(own_server.url, "report", lambda call: call in (2, 3) or dice.random() < 0.3) as (url, cutter):
        worker = Process("worker", url, tmp_path, TASKS, TASKFLOW_WORKER_CONCURRENCY="5")
        with started(worker):
            await worker.logged("worker.started")
            ids = [await client.enqueue_named("mark", {"folder": str(marks)}, retry_policy=ONCE) for _ in range(60)]
            assert await all_end(client, ids) == {"COMPLETED": 60}

    assert cutter.cut >= 3
    kinds = Counter(event.type for event in await events(client))
    assert kinds["job.released"] > 0, f"no lease was lost with its answer: {kinds}, {cutter.cut} of {cutter.calls} cut"
    assert kinds.keys().isdisjoint({"job.lost", "job.retrying", "job.failed"})
    assert sorted(mark.name.split(".")[0] for mark in marks.iterdir()) == sorted(map(str, ids))
    assert (await client.store.partitions[0].queues.get("default")).running == 0


async def test_a_job_that_kills_its_workers_ends_failed(
    client: AsyncClient, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """After as many as it may try; those that shared a worker with it are done by another."""
    reaper = Process("reaper", own_server.url, tmp_path)
    crew = [Process("worker", own_server.url, tmp_path, TASKS, TASKFLOW_WORKER_CONCURRENCY="4") for _ in range(3)]
    with started(reaper, *crew):
        for process in (reaper, *crew):
            await process.ready()
        good = await client.enqueue_many(
            Submission("taskflow.sleep", {"seconds": 1}, retry_policy=PERSISTENT) for _ in range(9)
        )
        bad = await client.enqueue_named("poison", retry_policy=RetryPolicy(max_attempts=2, base_delay_seconds=1))
        ended = await bad.wait(DEADLINE_S)
        assert await all_end(client, good) == {"COMPLETED": 9}
        assert [process.popen.poll() for process in crew].count(-signal.SIGKILL) == 2

    assert (ended.status, ended.attempt) == (JobStatus.FAILED, 2)
    assert ended.error is not None
    assert ended.error.kind == "LeaseLost"
    assert "stopped renewing its lease" in ended.error.message


@pytest.mark.parametrize("how", ["exit", "cancel"])
async def test_a_job_that_fells_its_worker_has_failed(
    client: AsyncClient, own_server: EmbeddedServer, tmp_path: Path, how: str
) -> None:
    """By an exit in a task of its own making, or by cancelling all there are: it is not given back at no cost."""
    worker = Process("worker", own_server.url, tmp_path, TASKS)
    with started(worker):
        await worker.ready()
        bad = await client.enqueue_named("fell", {"how": how}, retry_policy=RetryPolicy(max_attempts=1))
        ended = await bad.wait(DEADLINE_S)
        assert await worker.ends() != 0

    assert (ended.status, ended.attempt) == (JobStatus.FAILED, 1)


@pytest.mark.parametrize("task", ["block", "grind"])
async def test_what_starves_the_worker_keeps_its_lease(
    client: AsyncClient, own_server: EmbeddedServer, tmp_path: Path, task: str
) -> None:
    """A coroutine that blocks the event loop, a thread that holds the interpreter; and so do the jobs beside it.

    Meanwhile the worker is listed as degraded.
    """
    times: dict[str, Any] = {
        "TASKFLOW_VISIBILITY_TIMEOUT_S": str(LONGER_S),
        "TASKFLOW_HEARTBEAT_S": "0.8",
        "TASKFLOW_LEASE_RENEWAL_S": "0.8",
    }
    reaper = Process("reaper", own_server.url, tmp_path, **times)
    worker = Process("worker", own_server.url, tmp_path, TASKS, **times)
    with started(reaper, worker):
        await reaper.ready()
        await worker.ready()
        neighbour = await client.enqueue_named("taskflow.sleep", {"seconds": 1}, retry_policy=ONCE)
        await some_run(client, "default", 1)
        since = time.monotonic()
        job = await client.enqueue_named(task, {"seconds": 2 * LONGER_S}, retry_policy=ONCE)
        [listed] = await client.store.partitions[0].workers.list()

        async def degraded() -> bool:
            found = await client.store.partitions[0].workers.get(listed.id)
            return found is not None and found.fields["status"] == "degraded"

        await until(degraded, "word of it", DEADLINE_S)
        done = await job.wait(DEADLINE_S)
        lasted_s = time.monotonic() - since
        beside = await neighbour.wait(DEADLINE_S)

    assert lasted_s > 1.5 * LONGER_S, "it was over before anything could be lost"
    assert (done.status, done.attempt) == (JobStatus.COMPLETED, 1), done.error
    assert (beside.status, beside.attempt) == (JobStatus.COMPLETED, 1), beside.error


async def test_a_worker_told_so_cancels_what_a_signal_cuts_short(
    client: AsyncClient, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """With TASKFLOW_WORKER_CANCEL_AT_STOP; what can finish within the grace does."""
    settings: dict[str, Any] = {"TASKFLOW_STOP_GRACE_S": "2", "TASKFLOW_WORKER_CANCEL_AT_STOP": "true"}
    worker = Process("worker", own_server.url, tmp_path, **settings)
    with started(worker):
        await worker.ready()
        short = await client.enqueue_named("taskflow.sleep", {"seconds": 0.5})
        long = await client.enqueue_named("taskflow.sleep", {"seconds": 3600})
        await some_run(client, "default", 2)
        worker.popen.terminate()
        assert await worker.ends() == 0

    assert [(await job.status()).value for job in (short, long)] == ["COMPLETED", "CANCELED"]


async def test_a_worker_recovers_from_the_loss_of_all_data(
    client: AsyncClient, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """FLUSHALL under a worker and a scheduler: they register again, and run what comes then, also what is due later."""
    crew = [Process(name, own_server.url, tmp_path) for name in ("worker", "scheduler", "reaper")]
    with started(*crew):
        for process in crew:
            await process.ready()
        await client.enqueue_named("taskflow.sleep", {"seconds": 3600})
        await some_run(client, "default", 1)

        await client.store.redis.flushall()

        first = await client.enqueue_named("taskflow.noop")
        later = await client.enqueue_named("taskflow.noop", delay_s=0.5)
        after = await client.enqueue_named("taskflow.noop", after=[later])
        assert await all_end(client, [first, later, after]) == {"COMPLETED": 3}
        listed = await client.store.partitions[0].workers.list()
        assert len(listed) == 1

        async def idle() -> bool:
            found = await client.store.partitions[0].workers.get(listed[0].id)
            return found is not None and found.fields.get("running") == "0"

        await until(idle, "the end of the attempt whose job is gone", DEADLINE_S)
