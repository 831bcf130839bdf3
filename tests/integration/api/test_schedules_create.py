"""POST, GET and DELETE /api/v1/schedules: what a schedule may say, and that what it says is what is done."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from taskflow_api import schedules as listing
from taskflow_domain import JobStatus, partition_of
from taskflow_streams import Store, schedules
from tests.integration.api.door import NOBODY, SCHEDULES, Door, Json, conflict, invalid, open_door, refused
from tests.support.engine import START_MS, Clock, record
from tests.support.schedules import crons_work

KEY = "Idempotency-Key"
JOB: Json = {"name": "work", "queue": "q"}
SHELL: Json = {"type": "shell", "cmd": "echo hello"}
LEAST: Json = {"cron": "0 3 * * 1-5", "job": JOB}
START = "2026-01-01T00:00:00.000Z"


async def post(door: Door, **fields: Any) -> httpx.Response:
    """The answer to a schedule that says little but this."""
    return await door.http.post(SCHEDULES, json=LEAST | fields)


# What a schedule may say ----------------------------------------------------------------------------------------------


async def test_a_cron_expression_and_a_job_are_enough(door: Door, clock: Clock) -> None:
    """Everything else has its default, and every field is there, null where there is nothing to say."""
    response = await post(door)
    made = response.json()

    assert response.status_code == 201
    assert response.headers["location"] == f"{SCHEDULES}/{made['id']}"
    assert made == {
        "id": made["id"], "name": None, "cron": "0 3 * * 1-5", "interval_s": None, "timezone": "UTC", "start_at": None,
        "end_at": None, "jitter_s": 0.0, "overlap": "allow", "catchup_limit": None, "catchup_window_s": None,
        "max_runs": None, "owner": None, "job": JOB, "status": "active", "paused": False, "reason": None,
        "message": "It fires next at 2026-01-01T03:00:00.000+00:00.", "next_at": "2026-01-01T03:00:00.000Z",
        "next_local": "2026-01-01T03:00:00.000+00:00", "last_at": None, "last_job_id": None, "runs": 0, "waiting": 0,
        "created_at": START, "updated_at": START,
    }  # fmt: skip
    assert await door.look(made["id"]) == made
    assert await door.look(made["id"].upper()) == made


async def test_all_that_can_be_said_is_shown_as_it_was_said(door: Door, clock: Clock) -> None:
    """Under its name too; times in UTC, whatever their offset was."""
    said = {
        "name": "nightly report", "cron": "30 2 * * *", "timezone": "Europe/Berlin",
        "start_at": "2026-06-01T00:00:00+02:00", "end_at": "2027-01-01", "jitter_s": 90, "overlap": "buffer_all",
        "catchup_limit": 3, "catchup_window_s": 3600.5,
        "max_runs": 7, "owner": "ann", "paused": True, "reason": "not before June",
        "job": SHELL | {"env": {"A": "1"}, "timeout_s": 60, "ttl_s": 5},
    }  # fmt: skip
    made = (await post(door, **said)).json()

    assert made == await door.look("nightly%20report")
    assert {name: made[name] for name in said} == said | {
        "start_at": "2026-05-31T22:00:00.000Z", "end_at": "2027-01-01T00:00:00.000Z",
    }  # fmt: skip
    assert (made["status"], made["next_at"]) == ("paused", None)
    assert made["message"] == f"Paused since {START}: not before June."


async def test_a_payload_comes_back_as_it_went_in(door: Door) -> None:
    """Integers of any length too."""
    sent = b'{"cron":"@daily","job":{"name":"work","queue":"q","payload":{"x":123456789012345678901234567890,"y":1.0}}}'
    response = await door.http.post(SCHEDULES, content=sent, headers={"content-type": "application/json"})

    assert response.status_code == 201
    assert b'"payload":{"x":123456789012345678901234567890,"y":1.0}' in response.content


async def test_what_it_runs_is_the_job_that_was_sent(door: Door, clock: Clock) -> None:
    """In both forms; the schedule's owner is its jobs', unless they say another."""
    rules: Json = {"interval_s": 60, "cron": None, "start_at": START, "owner": "ann"}
    named = JOB | {"task": "t", "payload": [1], "priority": 9, "retry_policy": {"max_attempts": 1}, "ttl_s": 30}
    flat = SHELL | {"queue": "team-a.fast", "priority": -5, "retries_max": 0, "delay_s": 2, "owner": "bob"}
    refs = [(await post(door, **rules, job=job)).json()["id"] for job in (named, flat)]

    await crons_work(door.store)

    runs = [(await door.look(ref))["last_job_id"] for ref in refs]
    first, second = [await record(door.store, run) for run in runs]
    assert (first.spec.name, first.spec.task, first.spec.payload, first.handler) == ("work", "t", b"[1]", "t")
    assert (first.order, first.retry.max_attempts, first.owner, first.schedule_id) == (1, 1, "ann", refs[0])
    assert (first.due_ms, first.expires_ms) == (START_MS, START_MS + 30_000)
    assert (second.queue, second.order, second.handler, second.owner) == ("team-a.fast", -5, "@shell", "bob")
    assert (second.spec.payload, second.retry.max_attempts) == (b'{"cmd":"echo hello"}', 1)
    assert second.due_ms == START_MS + 2000


@pytest.mark.parametrize(
    "sent", ["@daily", "@HOURLY", "*/5 * * * *", "0 0 1 jan mon", "* * * * * */10", " 0  3 * * * "]
)
async def test_all_forms_of_an_expression_are_taken(door: Door, sent: str) -> None:
    """Five fields, names, and seconds as a sixth field."""
    assert (await post(door, cron=sent)).json()["cron"] == sent


REFUSED: list[tuple[Json, str]] = [
    ({"cron": "* * * *"}, "cron"),
    ({"cron": ""}, "cron"),
    ({"cron": 5}, "cron"),
    ({"cron": "* * * * *", "interval_s": 60}, "interval_s"),
    ({"cron": None}, "cron"),
    ({"cron": None, "interval_s": 0.5}, "interval_s"),
    ({"cron": None, "interval_s": "60"}, "interval_s"),
    ({"cron": None, "interval_s": True}, "interval_s"),
    ({"cron": None, "interval_s": 1e10}, "interval_s"),
    ({"timezone": "Mars/Base"}, "timezone"),
    ({"timezone": 1}, "timezone"),
    ({"timezone": ""}, "timezone"),
    ({"start_at": "soon"}, "start_at"),
    ({"start_at": "2030-01-02", "end_at": "2030-01-01"}, "end_at"),
    ({"end_at": "2020-01-01"}, "end_at"),
    ({"jitter_s": -1}, "jitter_s"),
    ({"jitter_s": 86_401}, "jitter_s"),
    ({"overlap": "maybe"}, "overlap"),
    ({"catchup_limit": 1001}, "catchup_limit"),
    ({"catchup_limit": 1.0}, "catchup_limit"),
    ({"catchup_window_s": 0}, "catchup_window_s"),
    ({"max_runs": 0}, "max_runs"),
    ({"owner": ""}, "owner"),
    ({"paused": "yes"}, "paused"),
    ({"reason": ""}, "reason"),
    ({"id": NOBODY}, "id"),
    ({"status": "active"}, "status"),
    ({"colour": "red"}, "colour"),
    ({"name": ""}, "name"),
    ({"name": "n" * 129}, "name"),
    ({"name": "a/b"}, "name"),
    ({"name": "a\nb"}, "name"),
    ({"name": "a\u009bb"}, "name"),
    ({"name": ".."}, "name"),
    ({"name": "preview"}, "name"),
    ({"name": NOBODY}, "name"),
    ({"name": NOBODY.upper()}, "name"),
    ({"job": None}, "job"),
    ({"job": "echo"}, "job"),
    ({"job": {}}, "job.name job.queue"),
    ({"job": JOB | {"queue": "a b"}}, "job.queue"),
    ({"job": JOB | {"payload": {}, "colour": 1}}, "job.colour"),
    ({"job": JOB | {"retry_policy": {"max_attempts": 0}}}, "job.retry_policy.max_attempts"),
    ({"job": JOB | {"type": "shell", "payload": {"cmd": ""}}}, "job.payload.cmd"),
    ({"job": JOB | {"scheduled_at": "2030-01-01"}}, "job.scheduled_at"),
    ({"job": JOB | {"expires_at": "2030-01-01"}}, "job.expires_at"),
    ({"job": JOB | {"dependencies": [NOBODY]}}, "job.dependencies"),
    ({"job": JOB | {"idempotency_key": "k"}}, "job.idempotency_key"),
    ({"job": {"type": "shell"}}, "job.cmd"),
    ({"job": SHELL | {"schedule_cron": "@daily"}}, "job.schedule_cron"),
    ({"job": SHELL | {"cmd": 5, "priority": 2000, "env": []}}, "job.cmd job.priority job.env"),
    ({"job": {"type": "python", "callable": "no colon"}}, "job.callable"),
    ({"job": {"type": 5, "cmd": "x"}}, "job.type"),
    ({"job": {"type": "http", "x": "y" * 262_145}}, "job.x"),
    ({"job": {"type": "http", "x": "y" * 200_000, "z": "y" * 200_000}}, "job"),
]


@pytest.mark.parametrize(("fields", "wrong"), REFUSED, ids=lambda value: ascii(value)[:50])
async def test_what_cannot_be_is_refused(door: Door, fields: Json, wrong: str) -> None:
    """With 400, and the fields that are wrong."""
    invalid(await post(door, **fields), *wrong.split())
    assert await door.store.schedules.count() == 0


async def test_all_faults_are_told_at_once(door: Door) -> None:
    """Those of the times, the rules and the job."""
    response = await door.http.post(
        SCHEDULES,
        json={
            "cron": "* * * * 9",
            "timezone": "Europa/Berlin",
            "overlap": 1,
            "colour": 1,
            "job": SHELL | {"cmd": "", "queue": 5},
        },
    )
    invalid(response, "cron", "timezone", "overlap", "colour", "job.cmd", "job.queue")


async def test_nothing_at_all_is_refused_with_what_is_needed(door: Door) -> None:
    """A time, and a job."""
    invalid(await door.http.post(SCHEDULES, json={}), "cron", "job")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cron": "0 25 * * *"}, ("25", "hour", "0-23", "at character 3")),
        ({"cron": "0 0 31 2 *"}, ("no year has such a day", "at character 5")),
        ({"cron": "0 3 * * fun"}, ("day of week", "sun-sat", "at character 9")),
        ({"cron": "0 3 * *"}, ("five fields", "not 4", "at character 1")),
        ({"cron": "@dayly"}, ("@daily", "at character 1")),
        ({"timezone": "Europe/Berln"}, ("Europe/Berlin",)),
        ({"timezone": "europe/berlin"}, ("did you mean Europe/Berlin",)),
        ({"timezone": "Mars/Base"}, ("is not a time zone",)),
    ],
    ids=lambda value: ascii(value)[:40],
)
async def test_a_fault_is_told_with_its_place_and_a_hint(door: Door, fields: Json, words: tuple[str, ...]) -> None:
    """Where in the expression, and which zone may have been meant."""
    [fault] = invalid(await post(door, **fields), *fields)["details"]

    assert all(word in fault["message"] for word in words), fault


async def test_a_command_that_is_forbidden_is_refused(store: Store) -> None:
    """As it is for a job."""
    door = open_door(store, denylist_cmds="rm")

    invalid(await post(door, job={"type": "shell", "cmd": "rm -r x"}), "job.cmd")
    invalid(await post(door, job=JOB | {"type": "shell", "payload": {"cmd": "rm -r x"}}), "job.payload.cmd")


# Names ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["a", "nightly report", "größe", "日本", "a+b%20c", "50% off?", "x#y", "é\u0301", "a.b", " "]
)
async def test_a_schedule_is_found_by_its_name(door: Door, name: str) -> None:
    """Whatever is in it, percent-encoded."""
    made = await door.schedule(name=name)
    path = quote(name, safe="")

    assert await door.look(path) == made
    assert (await door.order(path, "pause"))["name"] == name
    assert (await door.look(path, "/history"))["items"][0]["what"] == "paused"
    assert (await door.http.delete(f"{SCHEDULES}/{path}")).status_code == 204


@pytest.mark.parametrize(
    "ref",
    ["nobody", NOBODY, "0", "%00", "a%0Ab", "%ED%A0%80", "%FF", "%7F", "x" * 129, "%2F", "a%2Fb", "%2e%2e", "-", "%20"],
)  # fmt: skip
async def test_what_names_no_schedule_is_not_found(door: Door, ref: str) -> None:
    """Whatever it is, and whatever is asked of it."""
    for method, tail, body in (
        ("GET", "", None), ("DELETE", "", None), ("PUT", "", {"paused": True}), ("GET", "/preview", None),
        ("GET", "/history", None), ("POST", "/pause", {}), ("POST", "/resume", None), ("POST", "/trigger", {}),
        ("POST", "/backfill", {"from": "2020-01-01", "to": "2020-01-02"}),
    ):  # fmt: skip
        refused(await door.http.request(method, f"{SCHEDULES}/{ref}{tail}", json=body), 404, "NOT_FOUND")


async def test_a_name_belongs_to_one_schedule(door: Door) -> None:
    """The refusal says whose it is; a name that was given up is free."""
    made = await door.schedule(name="a")

    conflict(await post(door, name="a"), made["id"])
    assert (await door.http.delete(f"{SCHEDULES}/a")).status_code == 204
    assert (await post(door, name="a")).status_code == 201


async def test_of_many_at_once_one_gets_the_name(door: Door) -> None:
    """The others are told."""
    answers = await asyncio.gather(*(post(door, name="a") for _ in range(10)))

    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 9
    assert await door.store.schedules.count() == 1


async def test_there_are_not_too_many(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal says what to do; afterwards the key of the request is free."""
    monkeypatch.setattr(schedules, "MOST_SCHEDULES", 1)
    made = await door.schedule()

    conflict(await door.http.post(SCHEDULES, json=LEAST, headers={KEY: "k"}), "delete some")
    await door.http.delete(f"{SCHEDULES}/{made['id']}")
    assert (await door.http.post(SCHEDULES, json=LEAST, headers={KEY: "k"})).status_code == 201


# The same request again -----------------------------------------------------------------------------------------------


async def test_a_request_that_is_sent_again_finds_what_it_made(door: Door) -> None:
    """200, and the schedule as it is now; at both doors; another body is 409."""
    first = await door.http.post(SCHEDULES, json=LEAST, headers={KEY: "k"})
    paused = await door.order(first.json()["id"], "pause")
    again = await door.http.post(SCHEDULES, json=dict(reversed(LEAST.items())) | {"owner": None}, headers={KEY: "k"})
    other_door = await door.http.post("/schedules", json=LEAST, headers={KEY: "k"})

    assert (first.status_code, again.status_code, other_door.status_code) == (201, 200, 200)
    assert again.json() == paused
    assert other_door.json() == {"id": first.json()["id"]}
    assert "location" not in again.headers
    conflict(await door.http.post(SCHEDULES, json=LEAST | {"max_runs": 1}, headers={KEY: "k"}), first.json()["id"])
    assert await door.store.schedules.count() == 1


async def test_a_request_that_is_sent_again_needs_no_times_any_more(door: Door, clock: Clock) -> None:
    """What was fine when it was sent first is not refused afterwards."""
    body = LEAST | {"cron": "@hourly", "end_at": "2026-01-01T01:30:00"}
    first = await door.http.post(SCHEDULES, json=body, headers={KEY: "k"})
    clock.forward(7200)

    again = await door.http.post(SCHEDULES, json=body, headers={KEY: "k"})
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    invalid(await door.http.post(SCHEDULES, json=body), "end_at")


async def test_of_many_requests_with_one_key_one_makes_it(door: Door) -> None:
    """All get the same schedule, and one of them is told that it is new."""
    answers = await asyncio.gather(
        *(door.http.post(SCHEDULES, json=LEAST | {"name": "a"}, headers={KEY: "k"}) for _ in range(10))
    )

    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1


async def test_a_request_that_died_in_the_middle_is_finished_when_it_comes_again(door: Door) -> None:
    """Its key was tied, and nothing was made yet."""
    write, door.store.schedules.write = door.store.schedules.write, None  # type: ignore[method-assign, assignment]
    assert (await door.http.post(SCHEDULES, json=LEAST, headers={KEY: "k"})).status_code == 500
    door.store.schedules.write = write  # type: ignore[method-assign]

    assert (await door.http.post(SCHEDULES, json=LEAST, headers={KEY: "k"})).status_code == 201
    assert await door.store.schedules.count() == 1


async def test_a_request_that_was_refused_leaves_its_key_free(door: Door, clock: Clock) -> None:
    """Mended, it may use it."""
    await door.schedule(name="a")

    conflict(await door.http.post(SCHEDULES, json=LEAST | {"name": "a"}, headers={KEY: "k"}))
    invalid(await door.http.post(SCHEDULES, json=LEAST | {"end_at": "2020-01-01"}, headers={KEY: "k"}), "end_at")
    assert (await door.http.post(SCHEDULES, json=LEAST | {"name": "b"}, headers={KEY: "k"})).status_code == 201


async def test_a_request_that_comes_again_does_not_bring_back_what_was_deleted(door: Door) -> None:
    """It is told that it was, however often it comes."""
    made = (await door.http.post(SCHEDULES, json=LEAST, headers={KEY: "k"})).json()
    await door.http.delete(f"{SCHEDULES}/{made['id']}")

    for _ in range(2):
        conflict(await door.http.post(SCHEDULES, json=LEAST, headers={KEY: "k"}), made["id"], "deleted")
    assert await door.store.schedules.count() == 0


# Times ----------------------------------------------------------------------------------------------------------------


async def test_a_schedule_that_could_never_fire_is_a_mistake(door: Door, clock: Clock) -> None:
    """Its end is past, or comes before its first time; the field to mend is named."""
    invalid(await post(door, end_at="2025-12-31"), "end_at")
    invalid(await post(door, cron="0 0 1 2 *", end_at="2026-01-31"), "end_at")
    assert (await post(door, cron="0 0 1 2 *", end_at="2026-02-01")).status_code == 201


async def test_runs_live_in_the_partition_of_their_schedule(wide_door: Door) -> None:
    """So that whoever settles it finds them under the same ids."""
    made = [await wide_door.schedule() for _ in range(8)]

    runs = [(await wide_door.order(one["id"], "trigger"))["job_id"] for one in made]
    assert [partition_of(run) for run in runs] == [partition_of(one["id"]) for one in made]
    assert all(await wide_door.store.exist(runs))


# One, and many --------------------------------------------------------------------------------------------------------


async def test_a_deleted_schedule_is_gone_and_its_jobs_stay(door: Door) -> None:
    """It is found neither by id nor by name, and starts nothing more."""
    made = await door.schedule(name="a")
    run = (await door.order("a", "trigger"))["job_id"]

    response = await door.http.delete(f"{SCHEDULES}/{made['id']}")

    assert (response.status_code, response.content) == (204, b"")
    for ref in ("a", made["id"]):
        refused(await door.http.get(f"{SCHEDULES}/{ref}"), 404, "NOT_FOUND")
    refused(await door.http.delete(f"{SCHEDULES}/{made['id']}"), 404, "NOT_FOUND")
    assert (await record(door.store, run)).status is JobStatus.READY
    assert (await door.get(run))["schedule_id"] == made["id"]


async def pages(door: Door, limit: int, **filters: Any) -> list[list[str | None]]:
    """The names on all pages."""
    found: list[list[str | None]] = []
    cursor: Json = {}
    while True:
        page = await door.look("", limit=limit, **filters, **cursor)
        found.append([one["name"] for one in page["items"]])
        assert page["has_more"] is (page["next_cursor"] is not None)
        if not page["has_more"]:
            return found
        cursor = {"cursor": page["next_cursor"]}


async def test_lists_come_page_by_page_the_newest_first(door: Door) -> None:
    """Each schedule once; the last page says that it is the last."""
    for i in range(7):
        await door.schedule(name=f"s{i}")

    assert await pages(door, 3) == [["s6", "s5", "s4"], ["s3", "s2", "s1"], ["s0"]]
    assert await pages(door, 7) == [["s6", "s5", "s4", "s3", "s2", "s1", "s0"]]
    assert [len(page) for page in await pages(door, 1)] == [1] * 7


async def test_an_empty_list_is_a_page_too(door: Door) -> None:
    """With nothing on it."""
    assert await door.look("") == {"items": [], "next_cursor": None, "has_more": False}


async def test_filters_combine(door: Door, clock: Clock) -> None:
    """By state, owner and the beginning of the name."""
    await door.schedule(name="nightly a", owner="ann")
    await door.schedule(name="nightly b", owner="bob", paused=True)
    await door.schedule(name="weekly", owner="ann", paused=True)
    await door.schedule(name="once", interval_s=60, start_at=START, max_runs=1, owner="ann")
    await door.schedule()
    await crons_work(door.store)

    assert await pages(door, 9, status="ended") == [["once"]]
    assert await pages(door, 9, status="paused") == [["weekly", "nightly b"]]
    assert await pages(door, 9, status="active") == [[None, "nightly a"]]
    assert await pages(door, 9, owner="ann", status="paused") == [["weekly"]]
    assert await pages(door, 9, name="nightly") == [["nightly b", "nightly a"]]
    assert await pages(door, 9, name="nightly", owner="carl") == [[]]


async def test_one_request_looks_at_so_many_and_says_where_to_go_on(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page may be short, or empty, and not the last."""
    monkeypatch.setattr(listing, "MOST_LOOKED_AT", 4)
    monkeypatch.setattr(listing, "CHUNK", 2)
    for i in range(10):
        await door.schedule(name=f"s{i}", owner="ann" if i in (0, 5) else None)

    assert await pages(door, 9, owner="ann") == [[], ["s5"], ["s0"]]
    assert await pages(door, 1, owner="ann") == [[], ["s5"], [], ["s0"]]
    assert await pages(door, 4) == [["s9", "s8", "s7", "s6"], ["s5", "s4", "s3", "s2"], ["s1", "s0"]]


async def test_a_cursor_works_after_its_schedule_was_deleted(door: Door) -> None:
    """It is a place, not a schedule; what is older follows."""
    for i in range(4):
        await door.schedule(name=f"s{i}")
    cursor = (await door.look("", limit=2))["next_cursor"]
    for name in ("s2", "s1"):
        await door.http.delete(f"{SCHEDULES}/{name}")

    assert [one["name"] for one in (await door.look("", cursor=cursor))["items"]] == ["s0"]


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=101", "limit=x", "cursor=x", "status=PAUSED", "owner=", "name=", "colour=red", "name=a&name=b",
     "name=%00" + "x" * 128],
)  # fmt: skip
async def test_a_query_that_means_nothing_is_refused(door: Door, query: str) -> None:
    """With the parameter that is wrong."""
    invalid(await door.http.get(f"{SCHEDULES}?{query}"), query.partition("=")[0])


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"cron":"@daily","cron":"@daily"}', b'{"name":"\\ud800"}', b"\xff"]
)
async def test_what_is_no_object_is_refused(door: Door, body: bytes) -> None:
    """Strictly, as everywhere."""
    response = await door.http.post(SCHEDULES, content=body, headers={"content-type": "application/json"})
    refused(response, 400, "VALIDATION_ERROR")


async def test_a_body_over_its_limit_is_refused(store: Store) -> None:
    """Before it is read."""
    door = open_door(store, body_limit_bytes=2000)
    refused(await post(door, job=JOB | {"payload": "x" * 2000}), 413, "PAYLOAD_TOO_LARGE")


async def test_what_is_stored_is_what_was_said(door: Door) -> None:
    """Nulls and what is decided elsewhere are not part of it."""
    made = await door.schedule(name="a", owner=None, paused=True, reason="r", jitter_s=5)
    [found] = await door.store.schedules.get([made["id"]])

    assert found is not None
    assert json.loads(found.definition.body) == {"cron": "* * * * *", "job": JOB, "jitter_s": 5}
