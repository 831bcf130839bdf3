"""POST /schedules, and `schedule_cron` on POST /jobs: schedules that pass for jobs at the flat door."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from taskflow_streams import Store
from tests.integration.api.door import JOBS, NOBODY, SCHEDULES, Door, Json, conflict, invalid, open_door, refused
from tests.integration.api.test_s2_jobs import COLUMNS
from tests.support.engine import Clock
from tests.support.schedules import births, crons_work

SHELL: Json = {"type": "shell", "cmd": "echo hello"}
EVERY_5: Json = SHELL | {"schedule_cron": "*/5 * * * *"}
KEY = {"Idempotency-Key": "k"}


async def submit(door: Door, **fields: Any) -> httpx.Response:
    """The answer to a job with an expression."""
    return await door.http.post("/jobs", json=EVERY_5 | fields)


async def submitted(door: Door, **fields: Any) -> str:
    """The id of a schedule that a job has made."""
    response = await submit(door, **fields)
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


async def show(door: Door, job_id: str) -> Json:
    """What this door says of an id."""
    response = await door.http.get(f"/jobs/{job_id}")
    assert response.status_code == 200, response.text
    job: Json = response.json()
    return job


# POST /schedules ------------------------------------------------------------------------------------------------------


async def test_a_schedule_is_made_here_as_at_the_other_door(door: Door) -> None:
    """The answer is its id; all fields are allowed."""
    body = {"cron": "*/5 * * * *", "timezone": "Asia/Tokyo", "name": "a", "overlap": "skip", "job": SHELL}
    response = await door.http.post("/schedules", json=body)

    made = await door.look("a")
    assert (response.status_code, response.json()) == (201, {"id": made["id"]})
    assert response.headers["location"] == f"{SCHEDULES}/{made['id']}"
    assert {name: made[name] for name in body} == body
    conflict(await door.http.post("/schedules", json=body), made["id"])


async def test_it_is_refused_here_in_the_same_words(door: Door) -> None:
    """All faults at once, with the place in the expression."""
    body = {"cron": "0 25 * * *", "timezone": "Mars/Base", "job": {"type": "shell", "cmd": ""}}
    here = invalid(await door.http.post("/schedules", json=body), "cron", "timezone", "job.cmd")
    there = invalid(await door.http.post(SCHEDULES, json=body), "cron", "timezone", "job.cmd")

    assert here == there
    assert "at character 3" in here["message"]


# POST /jobs with schedule_cron ----------------------------------------------------------------------------------------


async def test_a_job_with_an_expression_makes_a_schedule(door: Door, clock: Clock) -> None:
    """In UTC; both ids of the answer are the schedule's, and no job is made before its time."""
    clock.forward(1)
    response = await submit(door, owner="ann", queue="q", retries_max=0, ttl_s=60)
    ids = response.json()

    assert (response.status_code, ids) == (201, {"id": ids["id"], "schedule_id": ids["id"]})
    assert response.headers["location"] == f"/jobs/{ids['id']}"
    made = await door.look(ids["id"])
    assert (made["cron"], made["timezone"], made["owner"]) == ("*/5 * * * *", "UTC", "ann")
    assert made["job"] == SHELL | {"owner": "ann", "queue": "q", "retries_max": 0, "ttl_s": 60}
    await crons_work(door.store)
    assert not await births(door.store)


async def test_until_its_next_time_it_is_queued(door: Door, clock: Clock) -> None:
    """With every column of a job."""
    clock.forward(1)
    ref = await submitted(door, owner="ann", priority=-3, retries_max=1)
    job = await show(door, ref)

    assert set(job) == COLUMNS | {"stdout", "stderr", "lease", "logs"}
    assert {name: value for name, value in job.items() if value not in (None, "", 0)} == {
        "id": ref, "queue": "general", "type": "shell", "payload": {"cmd": "echo hello"}, "priority": -3,
        "schedule_cron": "*/5 * * * *", "retries_max": 1, "status": "queued", "created_at": "2026-01-01T00:00:01.000Z",
        "scheduled_at": "2026-01-01T00:05:00.000Z", "owner": "ann", "logs": {"items": [], "next": None},
    }  # fmt: skip
    await door.order(ref, "pause")
    assert (await show(door, ref))["scheduled_at"] is None


async def test_its_jobs_have_ids_of_their_own_and_show_the_expression(door: Door, clock: Clock) -> None:
    """By id and in lists; with the time they were for.  The schedule itself is in no list."""
    clock.forward(1)
    ref = await submitted(door)
    for _ in range(2):
        clock.forward(300)
        await crons_work(door.store)
    lone = (await door.http.post("/jobs", json=SHELL)).json()["id"]
    await door.project()

    items = (await door.http.get("/jobs")).json()["items"]
    runs = [job for job in items if job["id"] != lone]
    assert [(job["schedule_cron"], job["scheduled_at"]) for job in runs] == [
        ("*/5 * * * *", "2026-01-01T00:10:00.000Z"), ("*/5 * * * *", "2026-01-01T00:05:00.000Z"),
    ]  # fmt: skip
    assert [(await show(door, job["id"]))["schedule_cron"] for job in runs] == ["*/5 * * * *"] * 2
    assert (await show(door, lone))["schedule_cron"] is None
    assert ref not in {job["id"] for job in items}
    assert {(await door.get(job["id"]))["schedule_id"] for job in runs} == {ref}
    await door.http.delete(f"{SCHEDULES}/{ref}")
    assert (await show(door, runs[0]["id"]))["schedule_cron"] is None


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("*/5 * * *", ("five fields", "at character 1")),
        ("0 0 31 2 *", ("no year has such a day", "at character 5")),
        ("0 0 * * 0 0 *", ("not 7", "at character 13")),
        ("x", ("at character 1",)),
    ],
)
async def test_a_bad_expression_is_told_with_its_place(door: Door, cron: str, words: tuple[str, ...]) -> None:
    """And under its name here, beside all other faults."""
    response = await submit(door, schedule_cron=cron, cmd="", priority=5000)
    faults = {
        fault["field"]: fault["message"] for fault in invalid(response, "schedule_cron", "cmd", "priority")["details"]
    }

    assert all(word in faults["schedule_cron"] for word in words), faults
    assert await door.store.schedules.count() == 0


async def test_a_forbidden_command_is_refused(store: Store) -> None:
    """Before it is scheduled."""
    door = open_door(store, denylist_cmds="rm")
    invalid(await submit(door, cmd="rm -r x"), "cmd")
    assert await store.schedules.count() == 0


async def test_any_executor_may_be_named(door: Door, clock: Clock) -> None:
    """Its fields are its own, also one called name; and the schedule can be changed without losing them."""
    body = {"type": "docker", "name": "web", "image": None, "schedule_cron": "@hourly", "idempotency_key": "k1"}
    ref = (await door.http.post("/jobs", json=body)).json()["id"]
    await crons_work(door.store)
    made = await door.look(ref)
    assert (await door.http.put(f"{SCHEDULES}/{ref}", json=made | {"jitter_s": 1})).status_code == 200
    clock.forward(3601)
    await crons_work(door.store)

    for job_id in await births(door.store):
        assert (await show(door, job_id))["payload"] == {"name": "web", "image": None}
    assert len(await births(door.store)) == 2


async def test_the_same_request_again_answers_the_first(door: Door) -> None:
    """200 and the same ids; in the header or in the body; another body is 409."""
    first = await door.http.post("/jobs", json=EVERY_5, headers=KEY)
    again = await submit(door, idempotency_key="k", owner=None)
    at_once = await asyncio.gather(*(submit(door, idempotency_key="k2") for _ in range(10)))

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert "location" not in again.headers
    assert sorted(answer.status_code for answer in at_once) == [200] * 9 + [201]
    conflict(await submit(door, idempotency_key="k", schedule_cron="@daily"), first.json()["id"])
    conflict(await door.http.post("/jobs", json=SHELL, headers=KEY), first.json()["id"])
    assert await door.store.schedules.count() == 2


# Its end --------------------------------------------------------------------------------------------------------------


async def test_a_cancel_ends_it_and_leaves_its_jobs_alone(door: Door, clock: Clock) -> None:
    """It fires no more, whatever is due; cancelled again, or after its end, the answer is 409."""
    clock.forward(1)
    ref = await submitted(door)
    clock.forward(299)
    await crons_work(door.store)
    [run] = await births(door.store)

    response = await door.http.post(f"/jobs/{ref}/cancel")
    clock.forward(3600)
    await crons_work(door.store)

    assert (response.status_code, response.json()) == (200, {"id": ref, "status": "canceled"})
    job = await show(door, ref)
    assert (job["status"], job["scheduled_at"], job["finished_at"]) == ("canceled", None, "2026-01-01T00:05:00.000Z")
    assert (await show(door, run))["status"] == "queued"
    assert list(await births(door.store)) == [run]
    assert [line["what"] for line in (await door.look(ref, "/history"))["items"]] == ["ended", "fired", "created"]
    conflict(await door.http.post(f"/jobs/{ref}/cancel"), "been canceled")
    refused(await door.http.post(f"/jobs/{NOBODY}/cancel"), 404, "NOT_FOUND")


async def test_what_waits_for_its_turn_is_not_started_after_a_cancel(door: Door, clock: Clock) -> None:
    """And told."""
    ref = (await door.schedule(interval_s=60, overlap="buffer_all"))["id"]
    for _ in range(3):
        await crons_work(door.store)
        clock.forward(60)
    assert (await door.look(ref))["waiting"] == 2

    await door.http.post(f"/jobs/{ref}/cancel")

    lines = (await door.look(ref, "/history"))["items"]
    assert [line["why"] for line in lines if line["what"] == "skipped"] == ["canceled"] * 2
    assert (await show(door, ref))["status"] == "canceled"


async def test_one_that_has_ended_otherwise_has_succeeded(door: Door, clock: Clock) -> None:
    """As soon as nothing more will come of it."""
    ref = (await door.schedule(interval_s=60, max_runs=1))["id"]
    assert (await show(door, ref))["status"] == "queued"
    clock.forward(60)
    await crons_work(door.store)

    job = await show(door, ref)
    assert (job["status"], job["schedule_cron"], job["scheduled_at"]) == ("succeeded", None, None)
    conflict(await door.http.post(f"/jobs/{ref}/cancel"), "succeeded")


async def test_a_cancel_during_a_fire_loses_neither(door: Door, clock: Clock) -> None:
    """The run that was started is told, and nothing follows."""
    for _ in range(5):
        ref = await submitted(door)
        clock.forward(300)
        await asyncio.gather(crons_work(door.store), door.http.post(f"/jobs/{ref}/cancel"))
        await crons_work(door.store)

        lines = (await door.look(ref, "/history"))["items"]
        fired = [line["job_id"] for line in lines if line["what"] == "fired"]
        assert await door.store.exist(fired) == [True] * len(fired)
        assert (await show(door, ref))["status"] == "canceled"
        assert set(fired) == {
            job_id for job_id in await births(door.store) if (await door.get(job_id))["schedule_id"] == ref
        }


# Where it is no job ---------------------------------------------------------------------------------------------------


async def test_at_the_other_door_it_is_no_job_and_the_answer_says_what_it_is(door: Door) -> None:
    """With its address."""
    ref = await submitted(door)
    for method, path in (
        ("GET", f"{JOBS}/{ref}"), ("DELETE", f"{JOBS}/{ref}"), ("POST", f"{JOBS}/{ref}/cancel"),
        ("POST", f"{JOBS}/{ref}/retry"), ("GET", f"{JOBS}/{ref}/events"), ("GET", f"/jobs/{ref}/logs"),
    ):  # fmt: skip
        error = refused(await door.http.request(method, path), 404, "NOT_FOUND")
        assert f"It is a schedule: see {SCHEDULES}/{ref}" in error["message"], path
    invalid(await door.http.post(JOBS, json={"name": "a", "queue": "q", "dependencies": [ref]}), "dependencies[0]")
    error = refused(await door.http.get(f"{JOBS}/{NOBODY}"), 404, "NOT_FOUND")
    assert "schedule" not in error["message"]


async def test_a_task_is_scheduled_at_the_other_door(door: Door) -> None:
    """As it is submitted there."""
    error = invalid(await door.http.post("/jobs", json={"type": "task", "schedule_cron": "@daily"}), "type")
    assert "POST /api/v1/jobs" in error["message"]


async def test_what_is_kept_of_it_is_what_was_sent(door: Door) -> None:
    """But for what a schedule decides."""
    ref = await submitted(door, scheduled_at=None, idempotency_key="k", env={"A": "1"})
    [found] = await door.store.schedules.get([ref])

    assert found is not None
    assert json.loads(found.definition.body) == {"cron": "*/5 * * * *", "job": SHELL | {"env": {"A": "1"}}}
