"""With the settings a user gets: how soon a dead or frozen worker's jobs run elsewhere, and what an outage costs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import psutil
import pytest

from taskflow import AsyncClient
from taskflow_domain import JobStatus, RetryPolicy
from taskflow_streams.embedded import EmbeddedServer
from tests.support.consistency import faults
from tests.support.crew import DEADLINE_S, Process, printed, shell_job, started
from tests.support.engine import record
from tests.support.stack import eventually
from tests.support.working import until

TWICE = RetryPolicy(max_attempts=2, base_delay_seconds=1)
PROMISED_S = 20.0
AWAY_S = 30.0

pytestmark = pytest.mark.timeout(300)


def alive(pid: int) -> bool:
    """Whether such a process runs; a zombie does not."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def pid_in(path: Path) -> int:
    """The pid that a job has written."""
    text = eventually(lambda: path.read_text().strip() if path.exists() else None, f"pid in {path.name}")
    return int(text)


@pytest.mark.xdist_group("patience")
async def test_jobs_of_a_dead_or_frozen_worker_run_elsewhere_in_under_20_s(tmp_path: Path) -> None:
    """One is killed, one is stopped and goes on later: its late words change nothing, and its processes are killed."""
    go = tmp_path / "go"
    first_time = f"echo $$ > {tmp_path}/$TASKFLOW_JOB_ID; "
    hangs = f"if [ $TASKFLOW_ATTEMPT = 1 ]; then {first_time} sleep 300; fi; echo again"
    waits = f"while [ ! -e {go} ]; do sleep 0.1; done; echo late; exit 7"
    late = f"if [ $TASKFLOW_ATTEMPT = 1 ]; then {first_time} {waits}; fi; echo again"
    with EmbeddedServer(tmp_path / "valkey") as server:
        async with await AsyncClient.connect(server.url) as client:
            store = client.store
            reaper = Process("reaper", server.url, tmp_path, patient=True)
            killed = Process("worker", server.url, tmp_path, patient=True, TASKFLOW_WORKER_QUEUES="killed")
            frozen = Process("worker", server.url, tmp_path, patient=True, TASKFLOW_WORKER_QUEUES="frozen")
            with started(reaper, killed, frozen):
                jobs = [
                    shell_job(store, hangs, queue="killed", retry=TWICE),
                    shell_job(store, hangs, queue="frozen", retry=TWICE),
                    shell_job(store, late, queue="frozen", retry=TWICE),
                ]
                await store.submit(jobs)
                pids = [await asyncio.to_thread(pid_in, tmp_path / job.id) for job in jobs]
                await reaper.ready()
                heir = Process("worker", server.url, tmp_path, patient=True)
                with started(heir):
                    await heir.ready()
                    killed.popen.kill()
                    frozen.popen.send_signal(signal.SIGSTOP)
                    since_ms = await store.now_ms()
                    go.touch()  # the second job of the frozen worker ends, and nobody hears of it
                    for job in jobs:
                        await client.wait(job.id, DEADLINE_S)
                    ended = [await record(store, job.id) for job in jobs]

                    frozen.popen.send_signal(signal.SIGCONT)

                    async def all_gone() -> bool:
                        return not any(alive(pid) for pid in pids)

                    await until(all_gone, "the end of all first attempts", DEADLINE_S)
                    frozen.popen.terminate()
                    assert await frozen.ends() == 0  # it has said all it had to say

                    heir_id = (await heir.logged("worker.started"))["worker_id"]
                    listed = await store.partitions[0].workers.get(heir_id)
                    assert listed is not None
                    assert listed.fields["status"] == "active"
                assert await faults(store) == []
            for before, job in zip(ended, jobs, strict=True):
                now = await record(store, job.id)
                assert (now.status, now.attempt, now.worker) == (JobStatus.COMPLETED, 2, heir_id)
                assert now == before, "a late word changed something"
                assert (now.started_ms or 0) - since_ms < PROMISED_S * 1000
                assert await printed(store, job.id) == "again\n"


@pytest.mark.xdist_group("outage")
async def test_redis_away_for_30_s_costs_none_of_50_running_jobs_its_one_attempt(tmp_path: Path) -> None:
    """Killed and started again, or only stalled: all complete, those that ended meanwhile and those that ran on."""
    folders = tmp_path / "killed", tmp_path / "stalled"
    for folder in folders:
        folder.mkdir()
    await asyncio.gather(_outlives(folders[0], stall=False), _outlives(folders[1], stall=True))


async def _outlives(folder: Path, *, stall: bool) -> None:
    server = EmbeddedServer(folder / "valkey")
    server.start()
    try:
        crew = [
            Process("reaper", server.url, folder, patient=True),
            Process("worker", server.url, folder, patient=True, TASKFLOW_WORKER_CONCURRENCY="50"),
        ]
        with started(*crew):
            async with await AsyncClient.connect(server.url) as client:
                store = client.store
                for process in crew:
                    await process.ready()
                soon = [shell_job(store, "echo before; sleep 10; echo after") for _ in range(25)]
                later = [shell_job(store, f"echo before; sleep {AWAY_S + 8}; echo after") for _ in range(25)]
                await store.submit([*soon, *later])

                async def all_run() -> bool:
                    return (await store.partitions[0].queues.get("default")).running == 50

                await until(all_run, "50 running jobs", DEADLINE_S)
                if stall:
                    os.kill(server.pid, signal.SIGSTOP)
                else:
                    server.kill()
                await asyncio.sleep(AWAY_S)
                if stall:
                    os.kill(server.pid, signal.SIGCONT)
                else:
                    server.start()

                ended = [await client.wait(job.id, DEADLINE_S) for job in [*soon, *later]]
                assert Counter((job.status.value, job.attempt) for job in ended) == {("COMPLETED", 1): 50}
                assert {await printed(store, job.id) for job in ended} == {"before\nafter\n"}
                assert await faults(store) == []
                assert [process.popen.poll() for process in crew] == [None, None]
    finally:
        server.stop()
