"""POST /jobs: what is accepted, what is refused, and what the engine is given."""

import json
import re
from typing import Any

import pytest

from taskflow_domain import BackoffStrategy
from taskflow_streams import Store
from tests.integration.api.door import JOBS, Door, conflict, invalid, open_door
from tests.support.engine import record

SHELL = {"type": "shell", "cmd": "echo hello"}
PYTHON = {"type": "python", "callable": "math:hypot"}


async def submitted(door: Door, **fields: Any) -> str:
    """The id of a new job."""
    response = await door.http.post("/jobs", json=SHELL | fields)
    assert response.status_code == 201, response.text
    assert set(response.json()) == {"id"}
    job_id: str = response.json()["id"]
    assert response.headers["location"] == f"/jobs/{job_id}"
    return job_id


async def test_a_command_is_enough(door: Door) -> None:
    """Everything else has its default: queue general, priority 0, three retries that come ever later."""
    job = await record(door.store, await submitted(door))

    assert (job.queue, job.order, job.handler, job.spec.type) == ("general", 0, "@shell", "shell")
    assert (job.spec.payload, job.spec.name) == (b'{"cmd":"echo hello"}', "echo hello")
    assert (job.retry.max_attempts, job.retry.backoff_strategy) == (4, BackoffStrategy.EXPONENTIAL)
    assert (job.retry.base_delay_seconds, job.retry.max_delay_seconds, job.retry.jitter) == (1, 300, 0.5)
    assert (job.timeout_ms, job.due_ms, job.expires_ms, job.owner) == (None, None, None, None)


async def test_every_field_is_kept(door: Door) -> None:
    """What every job may say goes to the engine; the executor's fields are its payload."""
    job_id = await submitted(
        door, queue="team-a.fast", priority=-1000, retries_max=1000, timeout_s=1.5, owner="me", delay_s=60, ttl_s=90,
        env={"A": "1"}, cwd="/srv",
    )  # fmt: skip
    job = await record(door.store, job_id)

    assert (job.queue, job.order, job.retry.max_attempts, job.owner) == ("team-a.fast", -1000, 1001, "me")
    assert job.timeout_ms == 1500
    assert job.due_ms == job.created_ms + 60_000
    assert job.expires_ms == job.created_ms + 90_000
    assert json.loads(job.spec.payload) == {"cmd": "echo hello", "timeout_s": 1.5, "env": {"A": "1"}, "cwd": "/srv"}


async def test_the_payload_is_echoed_as_it_was_sent(door: Door) -> None:
    """In its own order, with numbers of any length and kind."""
    sent = b'{"kwargs":{"z":1.0,"a":123456789012345678901234567890,"e":"\xc3\xa9"},"type":"python","callable":"m:f"}'
    response = await door.http.post("/jobs", content=sent, headers={"content-type": "application/json"})
    shown = (await door.http.get(f"/jobs/{response.json()['id']}")).content

    assert (
        '"payload":{"kwargs":{"z":1.0,"a":123456789012345678901234567890,"e":"é"},"callable":"m:f"}' in shown.decode()
    )


async def test_any_executor_may_be_named(door: Door) -> None:
    """Its fields are its own business."""
    response = await door.http.post("/jobs", json={"type": "http", "url": "x", "retry": None, "timeout_s": 2})
    job = await record(door.store, response.json()["id"])

    assert response.status_code == 201
    assert (job.handler, job.spec.name, job.timeout_ms) == ("@http", "http", 2000)
    assert json.loads(job.spec.payload) == {"url": "x", "retry": None, "timeout_s": 2}


async def test_optional_fields_may_be_null(door: Door) -> None:
    """Null is the default, for fields of the executor too."""
    names = ("queue", "priority", "retries_max", "timeout_s", "scheduled_at", "delay_s", "expires_at", "ttl_s", "owner")
    nulls: dict[str, Any] = dict.fromkeys([*names, "idempotency_key", "schedule_cron", "env", "cwd"])
    job = await record(door.store, await submitted(door, **nulls))

    assert (job.queue, job.order, job.spec.payload) == ("general", 0, b'{"cmd":"echo hello"}')


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "type"),
    ({"type": None, "cmd": "x"}, "type"),
    ({"type": ["shell"], "cmd": "x"}, "type"),
    ({"type": "Shell", "cmd": "x"}, "type"),
    ({"type": "task"}, "type"),
    ({"type": "shell"}, "cmd"),
    ({"type": "shell", "cmd": None}, "cmd"),
    ({"type": "shell", "cmd": " "}, "cmd"),
    ({"type": "shell", "cmd": ["ls"]}, "cmd"),
    ({"type": "shell", "cmd": "x" * 65_537}, "cmd"),
    (SHELL | {"env": {"A": 1}}, "env.A"),
    (SHELL | {"cwd": "relative"}, "cwd"),
    (SHELL | {"callable": "m:f"}, "callable"),
    (SHELL | {"payload": {}}, "payload"),
    (SHELL | {"id": "x"}, "id"),
    (SHELL | {"queue": "a b"}, "queue"),
    (SHELL | {"queue": "q" * 65}, "queue"),
    (SHELL | {"priority": 1001}, "priority"),
    (SHELL | {"priority": "1"}, "priority"),
    (SHELL | {"retries_max": -1}, "retries_max"),
    (SHELL | {"retries_max": 1001}, "retries_max"),
    (SHELL | {"retries_max": True}, "retries_max"),
    (SHELL | {"timeout_s": 0}, "timeout_s"),
    (SHELL | {"timeout_s": "9"}, "timeout_s"),
    (SHELL | {"scheduled_at": "soon"}, "scheduled_at"),
    (SHELL | {"scheduled_at": "2030-01-01", "delay_s": 1}, "delay_s"),
    (SHELL | {"schedule_cron": "*/5 * * * *", "scheduled_at": "2030-01-01"}, "schedule_cron"),
    (SHELL | {"schedule_cron": "*/5 * * * *", "delay_s": 1}, "schedule_cron"),
    (SHELL | {"schedule_cron": "*/5 * * * *", "expires_at": "2030-01-01"}, "schedule_cron"),
    (SHELL | {"schedule_cron": "*/5 * * *"}, "schedule_cron"),
    (SHELL | {"schedule_cron": 5}, "schedule_cron"),
    ({"type": "python"}, "callable"),
    (PYTHON | {"callable": "no colon"}, "callable"),
    (PYTHON | {"args": {}}, "args"),
    (PYTHON | {"kwargs": []}, "kwargs"),
    (PYTHON | {"cmd": "x"}, "cmd"),
    ({"type": "http", "x": "y" * 262_145}, "x"),
]


@pytest.mark.parametrize(("body", "field"), REFUSED, ids=lambda value: repr(value)[-40:])
async def test_what_cannot_be_is_refused(door: Door, body: dict[str, Any], field: str) -> None:
    """With 400, and the one field that is wrong."""
    invalid(await door.http.post("/jobs", json=body), field)


async def test_numbers_that_json_readers_disagree_about_are_refused(door: Door) -> None:
    """1e400 is no number that could be echoed."""
    sent = b'{"type":"python","callable":"m:f","args":[1e400]}'
    response = await door.http.post("/jobs", content=sent, headers={"content-type": "application/json"})

    invalid(response, "args")


async def test_all_faults_are_told_at_once(door: Door) -> None:
    """Those of the executor's fields and those of the others."""
    response = await door.http.post("/jobs", json={"type": "shell", "queue": "a b", "prio": 1, "env": 5})

    invalid(response, "cmd", "queue", "prio", "env")


async def test_a_job_sent_twice_is_one_job(door: Door) -> None:
    """The same key and body are 200 with the first id; another body is 409."""
    first = await door.http.post("/jobs", json=SHELL | {"idempotency_key": "k1"})
    again = await door.http.post("/jobs", json=SHELL, headers={"Idempotency-Key": "k1"})

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert "location" not in again.headers
    conflict(await door.http.post("/jobs", json=SHELL | {"cmd": "other", "idempotency_key": "k1"}), first.json()["id"])


@pytest.mark.parametrize("cmd", ["rm -rf /tmp/x", "ls | rm x", "echo $(rm x)", "true && /bin/rm x"])
async def test_a_denied_command_is_refused_at_both_doors(store: Store, cmd: str) -> None:
    """Also behind a pipe, in a substitution, after another command."""
    door = open_door(store, denylist_cmds="rm,shutdown")
    s1 = {"name": "a", "queue": "q", "type": "shell", "payload": {"cmd": cmd}}
    job = await door.create(type="shell", payload={"cmd": "ls"})

    invalid(await door.http.post("/jobs", json=SHELL | {"cmd": cmd}), "cmd")
    invalid(await door.http.post(JOBS, json=s1), "payload.cmd")
    invalid(await door.http.post(f"{JOBS}/batch", json={"jobs": [s1]}), "jobs[0].payload.cmd")
    invalid(await door.http.put(f"{JOBS}/{job['id']}", json={"payload": {"cmd": cmd}}), "payload.cmd")


async def test_the_first_door_knows_executors_too(door: Door) -> None:
    """Their fields stand in the payload, and so may the time limit."""
    job = await door.create(type="shell", payload={"cmd": "ls", "timeout_s": 3})

    assert job["timeout_s"] == 3
    assert (await door.change(job["id"], payload={"cmd": "ls", "timeout_s": 4}))["timeout_s"] == 4
    invalid(await door.http.post(JOBS, json={"name": "a", "queue": "q", "type": "python"}), "payload.callable")
    invalid(await door.http.post(JOBS, json={"name": "a", "queue": "q", "type": "shell", "payload": 5}), "payload")


async def test_a_whole_job_of_this_door_can_be_sent_back_to_the_first(door: Door) -> None:
    """Also with a queue, retries and a priority that it would not accept as new."""
    job = await door.get(await submitted(door, queue="a.b-c", retries_max=500, priority=300, timeout_s=5))

    assert await door.change(job["id"], **job) == job


async def test_the_number_of_retries_is_a_setting(store: Store) -> None:
    """For jobs that do not say one."""
    door = open_door(store, retry_max_default=0)

    assert (await record(store, await submitted(door))).retry.max_attempts == 1
    assert (await record(store, await submitted(door, retries_max=2))).retry.max_attempts == 3


@pytest.mark.parametrize(("cmd", "name"), [("\n  make \\\n all", "make \\"), ("x" * 100, "x" * 80)])
async def test_a_command_names_its_job(door: Door, cmd: str, name: str) -> None:
    """By its first line, cut where it gets long."""
    assert (await record(door.store, await submitted(door, cmd=cmd))).spec.name == name


async def test_ids_are_uuids(door: Door) -> None:
    """Of version 7."""
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", await submitted(door))
