"""`scheduled_at` and `delay_s` wherever a job can be made: not before its time, and at once when that is past."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from taskflow_domain import iso_of_ms
from taskflow_streams import Pool
from tests.integration.api.door import JOBS, Door, Json, conflict, invalid
from tests.support.engine import START_MS, Clock, a_worker, an_ended_job, settle

Make = Callable[..., Awaitable[str]]
KEY = {"Idempotency-Key": "k"}


async def posted(door: Door, path: str, body: Json) -> Json:
    """What was made."""
    response = await door.http.post(path, json=body)
    assert response.status_code == 201, response.text
    made: Json = response.json()
    return made


async def single(door: Door, **fields: Any) -> str:
    """A job by itself."""
    return str((await posted(door, JOBS, {"name": "work", "queue": "q"} | fields))["id"])


async def batch(door: Door, **fields: Any) -> str:
    """A job of a batch."""
    jobs = [{"name": "other", "queue": "q"}, {"name": "work", "queue": "q"} | fields]
    return str((await posted(door, f"{JOBS}/batch", {"jobs": jobs}))["items"][1]["id"])


async def flat(door: Door, **fields: Any) -> str:
    """A job of the flat door."""
    return str((await posted(door, "/jobs", {"type": "work", "queue": "q"} | fields))["id"])


async def retried(door: Door, **fields: Any) -> str:
    """A job in the place of one that has ended."""
    ended = await an_ended_job(door.store, due_ms=1)
    return str((await posted(door, f"{JOBS}/{ended}/retry", fields))["id"])


async def changed(door: Door, **fields: Any) -> str:
    """A job that was to wait for something else."""
    job = await door.create(scheduled_at="2040-01-01")
    return str((await door.change(job["id"], **fields))["id"])


MAKERS = [single, batch, flat, retried, changed]


async def leased(door: Door) -> list[str]:
    """What a worker gets now, once the schedulers have let go what is due."""
    for partition in door.store.partitions:
        await partition.upkeep.promote()
    await settle(door.store)
    worker = await a_worker(door.store, "w2", Pool(frozenset({"work", "@work"})))
    return [held.job_id for held in await worker.lease(9)]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("fields", [{"scheduled_at": iso_of_ms(START_MS + 60_000)}, {"delay_s": 60}], ids=str)
async def test_a_job_waits_for_its_time(door: Door, clock: Clock, make: Make, fields: Json) -> None:
    """Not a millisecond less, and says for when."""
    job_id = await make(door, **fields)

    assert (await door.get(job_id))["scheduled_at"] == iso_of_ms(START_MS + 60_000)
    clock.at(START_MS + 59_999)
    assert job_id not in await leased(door)
    clock.at(START_MS + 60_000)
    assert job_id in await leased(door)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "fields", [{"scheduled_at": "1970-01-01"}, {"scheduled_at": iso_of_ms(START_MS)}, {"delay_s": 0}, {}], ids=str
)
async def test_a_time_in_the_past_is_due_now(door: Door, clock: Clock, make: Make, fields: Json) -> None:
    """Without the help of a scheduler, as one that says nothing."""
    if make is changed and not fields:
        fields = {"scheduled_at": None}
    job_id = await make(door, **fields)

    worker = await a_worker(door.store, "w2", Pool(frozenset({"work", "@work"})))
    assert job_id in [held.job_id for held in await worker.lease(9)]


@pytest.mark.parametrize("make", MAKERS)
async def test_both_at_once_are_refused_everywhere(door: Door, make: Make) -> None:
    """And what is no time."""
    with pytest.raises(AssertionError, match="delay_s"):
        await make(door, scheduled_at="2030-01-01", delay_s=1)
    with pytest.raises(AssertionError, match="scheduled_at"):
        await make(door, scheduled_at="soon")


async def test_a_retry_has_the_times_that_are_asked_for_and_none_of_the_old_ones(door: Door, clock: Clock) -> None:
    """The same request again is the same job; with other times it is 409."""
    ended = await an_ended_job(door.store, due_ms=1, expires_ms=START_MS + 1)
    path = f"{JOBS}/{ended}/retry"
    bare = (await door.http.post(path)).json()
    first = await door.http.post(path, json={"delay_s": 5, "ttl_s": 10}, headers=KEY)
    again = await door.http.post(path, json={"ttl_s": 10, "delay_s": 5, "expires_at": None}, headers=KEY)

    assert (bare["scheduled_at"], bare["expires_at"]) == (None, None)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.json()["scheduled_at"] == iso_of_ms(START_MS + 5000)
    assert first.json()["expires_at"] == iso_of_ms(START_MS + 10_000)
    conflict(await door.http.post(path, json={"delay_s": 6}, headers=KEY), "another body")
    conflict(await door.http.post(path, headers=KEY), "another body")
    invalid(await door.http.post(path, json={"name": "b", "delay_s": -1}), "name", "delay_s")
