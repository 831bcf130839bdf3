"""POST /api/v1/jobs: what is accepted, what is refused, and how a job is born."""

import json
import re
from typing import Any

import pytest

from taskflow_domain import JobStatus
from tests.integration.api.door import JOBS, NOBODY, Door, invalid
from tests.support.engine import a_job, an_ended_job, record

TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z")
FIELDS = {
    "id", "name", "queue", "payload", "priority", "status", "dependencies", "retry_policy", "created_at", "updated_at",
    "attempt_count", "type", "task", "owner", "timeout_s", "scheduled_at", "expires_at", "started_at", "finished_at",
    "result", "error", "progress", "run_id", "retry_of", "schedule_id", "worker",
}  # fmt: skip


async def test_a_name_and_a_queue_are_enough(door: Door) -> None:
    """Everything else has its default, and every field is there, null where there is nothing to say."""
    response = await door.http.post(JOBS, json={"name": "resize", "queue": "images"})
    job = response.json()

    assert response.status_code == 201
    assert response.headers["location"] == f"{JOBS}/{job['id']}"
    assert set(job) == FIELDS
    assert (job["name"], job["queue"], job["payload"], job["priority"]) == ("resize", "images", {}, 5)
    assert (job["status"], job["dependencies"], job["attempt_count"], job["type"]) == ("READY", [], 0, "task")
    assert job["retry_policy"] == {
        "max_attempts": 3,
        "backoff_strategy": "EXPONENTIAL",
        "base_delay_seconds": 10,
        "max_delay_seconds": 300,
    }
    assert TIME.fullmatch(job["created_at"])
    assert job["updated_at"] == job["created_at"]
    given = {"id", "name", "queue", "payload", "priority", "status", "dependencies", "retry_policy", "created_at"}
    assert {name for name, value in job.items() if value is None} == FIELDS - given - {
        "updated_at", "attempt_count", "type",
    }  # fmt: skip
    assert await door.get(job["id"]) == job


async def test_every_field_is_kept(door: Door) -> None:
    """What was sent comes back, and what is relative has become a time."""
    first = await door.create()
    sent = {
        "name": "resize",
        "queue": "images",
        "payload": {"width": 640},
        "priority": 10,
        "dependencies": [first["id"]],
        "retry_policy": {"max_attempts": 10, "backoff_strategy": "FIXED", "base_delay_seconds": 300},
        "task": "images.resize",
        "type": "task",
        "timeout_s": 1.5,
        "scheduled_at": "2030-01-02T03:04:05+02:00",
        "expires_at": "2031-01-02",
        "owner": "ops",
    }
    job = await door.create(**sent)

    assert {name: job[name] for name in sent} == sent | {
        "retry_policy": sent["retry_policy"] | {"max_delay_seconds": 300},  # type: ignore[operator]
        "scheduled_at": "2030-01-02T01:04:05.000Z",
        "expires_at": "2031-01-02T00:00:00.000Z",
    }


async def test_delays_count_from_the_submission(door: Door) -> None:
    """`delay_s` and `ttl_s` become times of the server's clock; no delay at all is none."""
    job = await door.create(delay_s=1.5, ttl_s=60)
    now = await door.create(delay_s=0)

    found = await record(door.store, job["id"])
    assert found.due_ms == found.created_ms + 1500
    assert found.expires_ms == found.created_ms + 60_000
    assert now["scheduled_at"] == now["created_at"]


@pytest.mark.parametrize(
    "payload",
    [
        None, True, 0, -1, 1.5, "", "text", [], {}, [None, {"a": [1, 2.5]}], "日本 é 🙂", 10**400, -(2**64),
        1e308, {"": {"": ""}},
    ],
    ids=lambda payload: repr(payload)[:20],
)  # fmt: skip
async def test_a_payload_is_any_json_value(door: Door, payload: Any) -> None:
    """It comes back as it went in, integers of any length too."""
    raw = json.dumps({"name": "a", "queue": "q", "payload": payload})
    created = await door.http.post(JOBS, content=raw, headers={"content-type": "application/json"})

    found = await door.http.get(f"{JOBS}/{created.json()['id']}")
    assert json.loads(found.content)["payload"] == payload


async def test_a_payload_of_65536_bytes_is_accepted_and_one_more_is_not(door: Door) -> None:
    """What counts is compact UTF-8 JSON, not what was sent: spaces and escapes cost nothing."""
    fits = "é" * ((65_536 - 2) // 2)
    assert len(json.dumps(fits, ensure_ascii=False).encode()) == 65_536
    escaped = await door.http.post(JOBS, json={"name": "a", "queue": "q", "payload": fits})
    too_long = await door.http.post(JOBS, json={"name": "a", "queue": "q", "payload": fits + "a"})

    assert escaped.status_code == 201
    assert escaped.json()["payload"] == fits
    assert "65,536 bytes" in invalid(too_long, "payload")["message"]


BOUNDARIES: list[tuple[str, Any, bool]] = [
    ("name", "a", True),
    ("name", "日" * 255, True),
    ("name", "日" * 256, False),
    ("name", "", False),
    ("queue", "Q_" + "0" * 62, True),
    ("queue", "q" * 65, False),
    ("queue", "", False),
    ("queue", "a-b", False),
    ("queue", "q\n", False),
    ("queue", "ü", False),
    ("priority", 1, True),
    ("priority", 10, True),
    ("priority", 0, False),
    ("priority", 11, False),
    ("priority", 10**30, False),
    ("retry_policy.max_attempts", 1, True),
    ("retry_policy.max_attempts", 10, True),
    ("retry_policy.max_attempts", 0, False),
    ("retry_policy.max_attempts", 11, False),
    ("retry_policy.base_delay_seconds", 1, True),
    ("retry_policy.base_delay_seconds", 300, True),
    ("retry_policy.base_delay_seconds", 0, False),
    ("retry_policy.base_delay_seconds", 301, False),
    ("retry_policy.max_delay_seconds", 10, True),
    ("retry_policy.max_delay_seconds", 3600, True),
    ("retry_policy.max_delay_seconds", 9, False),  # less than the default base delay
    ("retry_policy.max_delay_seconds", 3601, False),
    ("retry_policy.jitter", 0, True),
    ("retry_policy.jitter", 1.0, True),
    ("retry_policy.jitter", 1.001, False),
    ("retry_policy.jitter", -0.1, False),
    ("retry_policy.backoff_strategy", "LINEAR", True),
    ("retry_policy.backoff_strategy", "linear", False),
    ("task", "t" * 255, True),
    ("task", "t" * 256, False),
    ("task", "", False),
    ("type", "http", True),
    ("type", "Shell", False),
    ("owner", "o" * 255, True),
    ("owner", "", False),
    ("timeout_s", 0.001, True),
    ("timeout_s", 0, False),
    ("timeout_s", 31_536_000, True),
    ("timeout_s", 31_536_001, False),
    ("delay_s", 0, True),
    ("delay_s", -1, False),
    ("ttl_s", 0, False),
    ("scheduled_at", "1970-01-01T00:00:00Z", True),
    ("scheduled_at", "1969-12-31T23:59:59Z", False),
    ("scheduled_at", "9999-12-31T23:59:59.999Z", True),
    ("scheduled_at", "2026-02-30T00:00:00Z", False),
    ("scheduled_at", "tomorrow", False),
    ("scheduled_at", 1767323045, False),
    ("idempotency_key", "k" * 255, True),
    ("idempotency_key", "k" * 256, False),
    ("idempotency_key", "with space", False),
]


@pytest.mark.parametrize(("field", "value", "good"), BOUNDARIES, ids=lambda value: repr(value)[:24])
async def test_limits_are_exact(door: Door, field: str, value: Any, good: bool) -> None:
    """The last allowed value is accepted, the next refused, with the field named."""
    head, _, tail = field.partition(".")
    response = await door.http.post(JOBS, json={"name": "a", "queue": "q"} | {head: {tail: value} if tail else value})

    if good:
        assert response.status_code == 201, response.text
    else:
        invalid(response, field)


WRONG_TYPES: list[tuple[str, Any]] = [
    ("name", 5),
    ("name", None),
    ("name", ["a"]),
    ("queue", None),
    ("queue", 5),
    ("priority", "5"),
    ("priority", 5.0),
    ("priority", True),
    ("dependencies", NOBODY),
    ("dependencies", {}),
    ("dependencies[0]", [5]),
    ("dependencies[0]", [None]),
    ("dependencies[0]", ["no uuid"]),
    ("retry_policy", []),
    ("retry_policy", 3),
    ("retry_policy.max_attempts", {"max_attempts": "3"}),
    ("retry_policy.max_attempts", {"max_attempts": 3.0}),
    ("retry_policy.max_attempts", {"max_attempts": True}),
    ("retry_policy.jitter", {"jitter": "0.5"}),
    ("retry_policy.patience", {"patience": 1}),
    ("timeout_s", "60"),
    ("timeout_s", True),
    ("delay_s", "1"),
    ("owner", 1),
    ("idempotency_key", 1),
    ("idempotency_key", ""),
]


@pytest.mark.parametrize(("field", "value"), WRONG_TYPES, ids=lambda value: repr(value)[:24])
async def test_nothing_is_taken_for_what_it_is_not(door: Door, field: str, value: Any) -> None:
    """No text for a number, no boolean for an integer, no number for a text; the path of the field is named."""
    sent = {"name": "a", "queue": "q"} | {re.split(r"[.\[]", field)[0]: value}

    invalid(await door.http.post(JOBS, json=sent), field)


@pytest.mark.parametrize(
    "field", ["id", "status", "created_at", "updated_at", "attempt_count", "result", "worker", "Name", "prio"]
)
async def test_what_is_not_the_senders_to_say_is_refused(door: Door, field: str) -> None:
    """Fields that the server sets, and fields that do not exist, are 400."""
    invalid(await door.http.post(JOBS, json={"name": "a", "queue": "q", field: None}), field)


async def test_all_faults_are_told_at_once(door: Door) -> None:
    """One answer names everything that is wrong."""
    response = await door.http.post(JOBS, json={"queue": "a b", "priority": 99, "retry_policy": {"max_attempts": 0}})

    invalid(response, "name", "queue", "priority", "retry_policy.max_attempts")


async def test_optional_fields_may_be_null(door: Door) -> None:
    """Null is the default, in a retry policy too."""
    plain = await door.create()
    names = ("priority", "dependencies", "task", "type", "timeout_s", "scheduled_at", "delay_s", "expires_at", "ttl_s")
    job = await door.create(**dict.fromkeys([*names, "owner", "idempotency_key"]), retry_policy={"max_attempts": None})

    moving = ("id", "created_at", "updated_at")
    assert {**job, **dict.fromkeys(moving)} == {**plain, **dict.fromkeys(moving)}


@pytest.mark.parametrize(("one", "other"), [("scheduled_at", "delay_s"), ("expires_at", "ttl_s")])
async def test_a_time_is_given_in_one_way(door: Door, one: str, other: str) -> None:
    """An absolute time or one from now, not both; null is neither."""
    both = await door.http.post(JOBS, json={"name": "a", "queue": "q", one: "2030-01-01", other: 5})
    single = await door.http.post(JOBS, json={"name": "a", "queue": "q", one: "2030-01-01", other: None})

    invalid(both, other)
    assert single.status_code == 201


async def test_a_job_waits_for_its_dependencies(door: Door) -> None:
    """It is PENDING while one is open, READY when all are COMPLETED already."""
    done = await an_ended_job(door.store)
    waiting = await door.create(dependencies=[done, (await door.create())["id"]])
    ready = await door.create(dependencies=[done.upper()])

    assert waiting["status"] == "PENDING"
    assert (ready["status"], ready["dependencies"]) == ("READY", [done])


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.CANCELED])
async def test_a_job_is_born_blocked_when_a_dependency_has_failed(door: Door, status: JobStatus) -> None:
    """It can never run, and that is said at once."""
    failed = await an_ended_job(door.store, status)
    job = await door.create(dependencies=[failed])

    assert job["status"] == "BLOCKED"
    assert job["finished_at"] == job["created_at"]


async def test_dependencies_must_exist(door: Door) -> None:
    """An unknown one is 400, whether or not its id could be one of ours; and nothing is created."""
    real = await a_job(door.store)
    for stranger in (NOBODY, "3fa85f64-5717-4562-b3fc-2c963f66afa6", "019b7c3f-5d2e-7000-bfff-3f2a9c1b4d5e"):
        response = await door.http.post(JOBS, json={"name": "a", "queue": "q", "dependencies": [real, stranger]})
        assert stranger in invalid(response, "dependencies[1]")["message"]
    await door.project()
    assert [job["id"] for job in (await door.search())["items"]] == [real]


async def test_a_dependency_is_named_once(door: Door) -> None:
    """The same job twice, in whatever spelling, is a mistake that is told."""
    real = await a_job(door.store)
    response = await door.http.post(JOBS, json={"name": "a", "queue": "q", "dependencies": [real, real.upper()]})

    assert real in invalid(response, "dependencies")["message"]


async def test_fifty_dependencies_are_accepted_and_one_more_is_not(door: Door) -> None:
    """As the SRS says."""
    ids = [await a_job(door.store) for _ in range(51)]
    fits = await door.create(dependencies=ids[:50])

    assert fits["dependencies"] == ids[:50]
    invalid(await door.http.post(JOBS, json={"name": "a", "queue": "q", "dependencies": ids}), "dependencies")


@pytest.mark.parametrize(
    ("fields", "handler"),
    [
        ({"name": "work"}, "work"),
        ({"name": "work", "task": "other"}, "other"),
        ({"name": "work", "type": "shell", "payload": {"cmd": "true"}}, "@shell"),
        ({"name": "@shell"}, "task:@shell"),
        ({"name": "work", "task": "@shell"}, "task:@shell"),
    ],
)
async def test_a_job_is_for_the_handler_that_it_names(door: Door, fields: dict[str, Any], handler: str) -> None:
    """Its task, else its name, else its executor; and no task passes for an executor."""
    job = await door.create(**fields)

    assert (await record(door.store, job["id"])).handler == handler


async def test_a_dependency_of_another_partition_is_waited_for(wide_door: Door) -> None:
    """A job is born where its first dependency lives, and may have more elsewhere."""
    jobs = [await wide_door.create() for _ in range(12)]
    ids = [job["id"] for job in jobs]
    job = await wide_door.create(dependencies=ids)

    assert job["status"] == "PENDING"
    assert job["id"][19:22] == ids[0][19:22]
    assert len({job_id[19:22] for job_id in ids}) > 1
