"""The worker as a process: killed without warning, stopped with a signal, started with what it cannot import."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from taskflow import AsyncClient, Submission
from taskflow_domain import JobStatus, RetryPolicy
from taskflow_streams.embedded import EmbeddedServer
from tests.support.consistency import faults
from tests.support.crew import DEADLINE_S, Process, started
from tests.support.working import until

JOBS = 200

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server that keeps its data, for this test alone."""
    with EmbeddedServer(tmp_path / "valkey") as server:
        yield server


@pytest.fixture
async def client(own_server: EmbeddedServer) -> AsyncIterator[AsyncClient]:
    """A client of it.  Afterwards all that is left there is consistent."""
    async with await AsyncClient.connect(own_server.url) as one:
        yield one
        assert await faults(one.store) == []


async def running(client: AsyncClient) -> int:
    """How many jobs are in flight."""
    return (await client.store.partitions[0].queues.get("default")).running


async def test_two_hundred_jobs_survive_the_death_of_their_worker(
    client: AsyncClient, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """kill -9 in the middle: all complete on another worker, none is lost, each cost exactly one more attempt."""
    reaper = Process("reaper", own_server.url, tmp_path)
    victim = Process("worker", own_server.url, tmp_path, TASKFLOW_WORKER_CONCURRENCY=str(JOBS))
    with started(reaper, victim):
        await reaper.ready()
        await victim.ready()
        ids = await client.enqueue_many(Submission("taskflow.sleep", {"seconds": 8}) for _ in range(JOBS))

        async def all_in_flight() -> bool:
            return await running(client) == JOBS

        await until(all_in_flight, "200 jobs in flight")
        victim.popen.kill()
        heir = Process("worker", own_server.url, tmp_path, TASKFLOW_WORKER_CONCURRENCY=str(JOBS))
        with started(heir):
            heir_id = (await heir.logged("worker.started"))["worker_id"]
            records = [await client.wait(job, DEADLINE_S) for job in ids]
            heir.popen.terminate()
            assert await heir.ends() == 0
        reaper.popen.terminate()
        assert await reaper.ends() == 0

    assert {record.status for record in records} == {JobStatus.COMPLETED}
    assert {record.attempt for record in records} == {2}
    assert {record.worker for record in records} == {heir_id}


async def test_a_worker_stopped_by_a_signal_gives_back_what_it_cannot_finish(
    client: AsyncClient, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """SIGTERM: the short job completes, the long one is READY again at no cost; status 0, and nobody on the list."""
    worker = Process("worker", own_server.url, tmp_path, TASKFLOW_STOP_GRACE_S="2")
    with started(worker):
        await worker.ready()
        short = await client.enqueue_named("taskflow.sleep", {"seconds": 1})
        long = await client.enqueue_named("taskflow.sleep", {"seconds": 3600})

        async def both_run() -> bool:
            return await running(client) == 2

        await until(both_run, "two attempts")
        worker.popen.send_signal(signal.SIGTERM)
        assert await worker.ends() == 0

    done, left = await client.get(short), await client.get(long)
    assert done is not None
    assert left is not None
    assert (done.status, left.status, left.attempt) == (JobStatus.COMPLETED, JobStatus.READY, 0)
    assert await client.store.partitions[0].workers.list() == []


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_a_task_that_hangs_does_not_keep_the_process(
    client: AsyncClient, own_server: EmbeddedServer, tmp_path: Path, isolation: str
) -> None:
    """Its job goes back, and the process ends in time, with status 0."""
    (tmp_path / "hanging.py").write_text(
        "import threading\nfrom taskflow import task\n\n"
        f"@task(isolation='{isolation}')\ndef hang():\n    threading.Event().wait()\n"
    )
    worker = Process("worker", own_server.url, tmp_path, "hanging", TASKFLOW_STOP_GRACE_S="0.2")
    with started(worker):
        assert "hang" in (await worker.logged("worker.started"))["tasks"]
        job = await client.enqueue_named("hang")

        async def runs() -> bool:
            return await running(client) == 1

        await until(runs, "the attempt")
        worker.popen.terminate()
        assert await worker.ends() == 0

    left = await client.get(job)
    assert left is not None
    assert (left.status, left.attempt) == (JobStatus.READY, 0)


async def test_a_coroutine_that_does_not_stop_does_not_keep_the_process(
    client: AsyncClient, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given up past its time limit, it is not waited for either when the worker ends, with status 0."""
    (tmp_path / "stubborn.py").write_text(
        "import asyncio\nfrom taskflow import task\n\n@task(timeout_s=0.1)\nasync def stubborn():\n    while True:\n"
        "        try:\n            await asyncio.sleep(3600)\n        except asyncio.CancelledError:\n            ...\n"
    )
    worker = Process("worker", own_server.url, tmp_path, "stubborn", TASKFLOW_KILL_GRACE_S="0")
    with started(worker):
        await worker.ready()
        job = await client.enqueue_named("stubborn", retry_policy=RetryPolicy(max_attempts=1))
        ended = await job.wait(DEADLINE_S)
        worker.popen.terminate()
        assert await worker.ends() == 0
        assert "service.left_behind" in worker.out.read_text()

    assert (ended.status, ended.error.kind if ended.error else None) == (JobStatus.FAILED, "TimedOut")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (None, "ModuleNotFoundError: No module named 'mine'"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("from taskflow import task\n@task\ndef f():\n    yield\n", "a generator cannot be a task"),
    ],
)
async def test_a_module_that_cannot_be_imported_is_told_in_a_sentence(
    own_server: EmbeddedServer, tmp_path: Path, source: str | None, reason: str
) -> None:
    """Status 2, and no traceback."""
    if source is not None:
        (tmp_path / "mine.py").write_text(source)
    worker = Process("worker", own_server.url, tmp_path, "mine")
    with started(worker):
        assert await worker.ends() == 2

    told = worker.out.read_text()
    assert "taskflow worker: The module 'mine' with tasks cannot be imported: " in told
    assert reason in told
    assert "Traceback" not in told
