"""Delayed jobs at every door that makes or changes one: not before their time, and at once when it has passed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from taskflow_domain import iso_of_ms
from taskflow_streams import Pool
from tests.integration.api.door import JOBS, Door
from tests.support.engine import HANDLER, Clock, a_worker

Way = Callable[[Door, dict[str, Any]], Awaitable[str]]


async def create(door: Door, times: dict[str, Any]) -> str:
    """POST /api/v1/jobs."""
    return str((await door.create(**times))["id"])


async def batch(door: Door, times: dict[str, Any]) -> str:
    """POST /api/v1/jobs/batch."""
    response = await door.http.post(f"{JOBS}/batch", json={"jobs": [{"name": HANDLER, "queue": "q", **times}]})
    assert response.status_code == 201, response.text
    return str(response.json()["items"][0]["id"])


async def flat(door: Door, times: dict[str, Any]) -> str:
    """POST /jobs."""
    response = await door.http.post("/jobs", json={"type": "shell", "cmd": "true", **times})
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


async def update(door: Door, times: dict[str, Any]) -> str:
    """PUT /api/v1/jobs/{id}, of one that was for another time."""
    job_id = str((await door.create(delay_s=7200))["id"])
    await door.change(job_id, **times)
    return job_id


@pytest.mark.parametrize("way", [create, batch, flat, update])
async def test_a_job_starts_at_its_time_and_at_once_if_that_has_passed(door: Door, clock: Clock, way: Way) -> None:
    """Whether the time was named or counted from now."""
    worker = await a_worker(door.store, pool=Pool(frozenset({HANDLER, "@shell"})))
    passed = [
        await way(door, {"scheduled_at": "1970-01-01"}),
        await way(door, {"scheduled_at": iso_of_ms(clock.now_ms - 1)}),
        await way(door, {"delay_s": 0}),
    ]
    to_come = [
        await way(door, {"scheduled_at": iso_of_ms(clock.now_ms + 3_600_000)}),
        await way(door, {"delay_s": 3600}),
    ]

    assert sorted(held.job_id for held in await worker.lease(9)) == sorted(passed)
    assert [(await door.get(job_id))["scheduled_at"] for job_id in to_come] == [iso_of_ms(clock.now_ms + 3_600_000)] * 2

    clock.forward(3599.999)
    await door.store.partitions[0].upkeep.promote()
    assert await worker.lease(9) == []
    clock.forward(0.001)
    await door.store.partitions[0].upkeep.promote()
    assert sorted(held.job_id for held in await worker.lease(9)) == sorted(to_come)
