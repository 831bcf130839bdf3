"""Cron as a process: what it fires runs, what was missed while it was dead is made up for, and it stops when asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from taskflow_domain import Fire, JobStatus
from taskflow_streams import ScheduleRecord, Store
from taskflow_streams.embedded import EmbeddedServer
from tests.support.consistency import faults
from tests.support.crew import DEADLINE_S, Process, started
from tests.support.schedules import a_schedule, births, fired
from tests.support.working import until

NOOP = {"name": "taskflow.noop", "task": "taskflow.noop", "handler": "taskflow.noop", "queue": "default"}
SECOND_MS = 1000
AWAY_MS = 4000
STOP_S = 3.0  # a second in which it sleeps, and a busy machine

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server for this test alone."""
    with EmbeddedServer(tmp_path / "valkey") as server:
        yield server


@pytest.fixture
async def own_store(own_server: EmbeddedServer) -> AsyncIterator[Store]:
    """A store on it.  Afterwards all that is left there is consistent."""
    store = await Store.connect(own_server.url)
    yield store
    assert await faults(store) == []
    await store.close()


async def has_fired(store: Store, one: ScheduleRecord, times: int) -> None:
    """Wait until it has fired so often."""

    async def so_often() -> bool:
        return len(await fired(store, one)) >= times

    await until(so_often, f"{times} fires", DEADLINE_S)


async def test_an_interval_of_a_second_runs_and_is_made_up_for_when_cron_was_killed(
    own_server: EmbeddedServer, own_store: Store, tmp_path: Path
) -> None:
    """No second is missing, none is twice, and every run completes."""
    store, url = own_store, own_server.url
    worker, scheduler = Process("worker", url, tmp_path), Process("scheduler", url, tmp_path)
    killed = Process("cron", url, tmp_path)
    with started(worker, scheduler, killed):
        await killed.ready()
        one = await a_schedule(store, interval_ms=SECOND_MS, template=NOOP, catchup_limit=1000)
        await has_fired(store, one, 3)

        killed.popen.kill()
        killed.popen.wait()
        before, back_ms = len(await fired(store, one)), await store.now_ms() + AWAY_MS
        while await store.now_ms() < back_ms:
            assert len(await fired(store, one)) == before
            await asyncio.sleep(0.2)
        heir = Process("cron", url, tmp_path)
        with started(heir):
            await has_fired(store, one, before + AWAY_MS // SECOND_MS + 2)
            begun = time.monotonic()
            heir.popen.terminate()
            assert await heir.ends() == 0
            assert time.monotonic() - begun < STOP_S

        times = await fired(store, one)
        assert times == [times[0] + i * SECOND_MS for i in range(len(times))]
        runs = [one.schedule.run_id(Fire(ms)) for ms in times]
        assert await births(store) == dict.fromkeys(runs, 1)

        async def all_completed() -> bool:
            return set(await store.states(runs)) == {JobStatus.COMPLETED}

        await until(all_completed, "the end of all runs", DEADLINE_S)
        for process in (worker, scheduler):
            process.popen.terminate()
            assert await process.ends() == 0


async def test_a_cron_that_is_stopped_leaves_no_gap(
    own_server: EmbeddedServer, own_store: Store, tmp_path: Path
) -> None:
    """What it had taken is fired in its time by another, though it holds schedules for long."""
    store, url = own_store, own_server.url
    stopped, other = (Process("cron", url, tmp_path, TASKFLOW_CRON_HOLD_S="3600") for _ in range(2))
    with started(stopped, other):
        await stopped.ready()
        await other.ready()
        now_ms = await store.now_ms()  # they are spread over the second, so that there is always one whose time is near
        made = [await a_schedule(store, interval_ms=SECOND_MS, start_ms=now_ms + i * 10) for i in range(100)]
        for one in made:
            await has_fired(store, one, 2)

        stopped.popen.terminate()
        assert await stopped.ends() == 0
        so_far = [len(await fired(store, one)) for one in made]
        for one, count in zip(made, so_far, strict=True):
            await has_fired(store, one, count + 2)

        for one in made:
            times = await fired(store, one)
            assert times == [times[0] + i * SECOND_MS for i in range(len(times))]
