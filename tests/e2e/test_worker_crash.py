"""The worker as a process: killed without warning, stopped with a signal, started with what it cannot import."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from taskflow import Client, Submission
from taskflow_domain import JobStatus
from taskflow_streams.embedded import EmbeddedServer
from tests.support.consistency import faults
from tests.support.working import until

VISIBILITY_S = 2.0
TIMES = {
    "TASKFLOW_VISIBILITY_TIMEOUT_S": str(VISIBILITY_S),
    "TASKFLOW_HEARTBEAT_S": "0.5",
    "TASKFLOW_LEASE_RENEWAL_S": "0.5",
    "TASKFLOW_REAP_INTERVAL_S": "0.2",
}
JOBS = 200
DEADLINE_S = 60.0  # a busy machine takes seconds to load Python

pytestmark = pytest.mark.timeout(180)


class Process:
    """A service that was started."""

    def __init__(self, name: str, url: str, folder: Path, *modules: str, **settings: str) -> None:
        self.out = folder / f"{name}-{time.monotonic_ns()}.log"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("TASKFLOW_")}
        environment = {
            **inherited,
            **TIMES,
            "TASKFLOW_REDIS_URL": url,
            "TASKFLOW_LOG_FORMAT": "json",
            "TASKFLOW_WORKER_MODULES": ",".join(modules),
            **settings,
        }
        with self.out.open("wb") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-P", "-m", f"taskflow_{name}.main"],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    async def logged(self, event: str) -> dict[str, Any]:
        """The line of this event, once it is there."""
        found: list[dict[str, Any]] = []

        async def there() -> bool:
            assert self.popen.poll() is None, f"it ended:\n{self.out.read_text()}"
            lines = (json.loads(line) for line in self.out.read_text().splitlines() if line.startswith("{"))
            found.extend(line for line in lines if line["event"] == event)
            return bool(found)

        await until(there, f"{event} in {self.out.name}", DEADLINE_S)
        return found[0]

    async def ready(self) -> str:
        """Where it answers, once it is ready."""
        url = (await self.logged("service.starting"))["url"]

        async def is_ready() -> bool:
            try:
                with await asyncio.to_thread(urllib.request.urlopen, f"{url}/readyz") as answer:
                    return bool(answer.status == 200)
            except (urllib.error.URLError, OSError):
                return False

        await until(is_ready, f"readiness of {self.out.name}", DEADLINE_S)
        return str(url)

    async def ends(self) -> int:
        """Its exit status."""
        return await asyncio.to_thread(self.popen.wait, DEADLINE_S)


@contextmanager
def started(*processes: Process) -> Iterator[None]:
    """Processes that do not outlive the test."""
    try:
        yield
    finally:
        for process in processes:
            if process.popen.poll() is None:
                process.popen.kill()
                process.popen.wait()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server that keeps its data, for this test alone."""
    with EmbeddedServer(tmp_path / "valkey") as server:
        yield server


@pytest.fixture
async def client(own_server: EmbeddedServer) -> AsyncIterator[Client]:
    """A client of it.  Afterwards all that is left there is consistent."""
    async with await Client.connect(own_server.url) as one:
        yield one
        assert await faults(one.store) == []


async def running(client: Client) -> int:
    """How many jobs are in flight."""
    return (await client.store.partitions[0].queues.get("default")).running


async def test_two_hundred_jobs_survive_the_death_of_their_worker(
    client: Client, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """kill -9 in the middle: all complete on another worker, none is lost, each cost exactly one more attempt."""
    reaper = Process("reaper", own_server.url, tmp_path)
    victim = Process("worker", own_server.url, tmp_path, TASKFLOW_WORKER_CONCURRENCY=str(JOBS))
    with started(reaper, victim):
        await reaper.ready()
        await victim.ready()
        ids = await client.enqueue_many(Submission("taskflow.sleep", {"seconds": 5}) for _ in range(JOBS))

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
    client: Client, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """SIGTERM: the short job completes, the long one is READY again at no cost; status 0, and nobody on the list."""
    worker = Process("worker", own_server.url, tmp_path, TASKFLOW_STOP_GRACE_S="2")
    with started(worker):
        await worker.ready()
        short = await client.enqueue("taskflow.sleep", {"seconds": 1})
        long = await client.enqueue("taskflow.sleep", {"seconds": 3600})

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


async def test_a_thread_that_hangs_does_not_keep_the_process(
    client: Client, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """Its job goes back, and the process ends in time, with status 0."""
    (tmp_path / "hanging.py").write_text(
        "import threading\nfrom taskflow import task\n\n@task\ndef hang():\n    threading.Event().wait()\n"
    )
    worker = Process("worker", own_server.url, tmp_path, "hanging", TASKFLOW_STOP_GRACE_S="0.2")
    with started(worker):
        assert "hang" in (await worker.logged("worker.started"))["tasks"]
        job = await client.enqueue("hang")

        async def runs() -> bool:
            return await running(client) == 1

        await until(runs, "the attempt")
        worker.popen.terminate()
        assert await worker.ends() == 0

    left = await client.get(job)
    assert left is not None
    assert (left.status, left.attempt) == (JobStatus.READY, 0)


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
