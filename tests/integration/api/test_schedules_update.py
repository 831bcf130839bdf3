"""PUT /api/v1/schedules/{ref}: some fields or the whole schedule, again and again, also while it fires."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from taskflow_domain import ms_of_iso
from taskflow_streams import Firing, Store, Write
from tests.integration.api.door import NOBODY, SCHEDULES, Door, Json, conflict, invalid, open_door, refused
from tests.support.engine import Clock, record
from tests.support.schedules import abolish_zone, before_write, births, crons_work

START = "2026-01-01T00:00:00.000Z"
JOB: Json = {"name": "work", "queue": "q"}
SHELL: Json = {"type": "shell", "cmd": "rm -r x"}
WHOLE: Json = {
    "name": "nightly", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "start_at": "2026-02-01T00:00:00+01:00",
    "end_at": "2027-01-01", "jitter_s": 1.5, "overlap": "skip", "catchup_limit": 0, "catchup_window_s": 60,
    "max_runs": 10, "owner": "ann", "paused": True, "reason": "not yet", "job": JOB | {"payload": {"x": 10**30}},
}  # fmt: skip


async def put(door: Door, ref: str, **fields: Any) -> httpx.Response:
    """The answer to a change."""
    return await door.http.put(f"{SCHEDULES}/{ref}", json=fields)


async def change(door: Door, ref: str, **fields: Any) -> Json:
    """The schedule after a change that is made."""
    response = await put(door, ref, **fields)
    assert response.status_code == 200, response.text
    changed: Json = response.json()
    return changed


async def told(door: Door, ref: str) -> list[tuple[str, str | None]]:
    """What its history tells and why, the oldest first."""
    return [(line["what"], line["why"]) for line in (await door.look(ref, "/history", limit=100))["items"]][::-1]


# What is sent, and what stays -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"cron": "0 4 * * *"},
        {"timezone": "Asia/Tokyo"},
        {"start_at": None},
        {"end_at": "2028-01-01T00:00:00.000Z"},
        {"jitter_s": 0.0},
        {"overlap": "cancel_previous"},
        {"catchup_limit": None},
        {"catchup_window_s": 5.0},
        {"max_runs": None},
        {"owner": "bob"},
        {"reason": "still not"},
        {"paused": False, "reason": None},
        {"name": "other"},
        {"name": None},
        {"job": {"type": "shell", "cmd": "true"}},
        {"cron": None, "interval_s": 90.0},
        {"interval_s": 90.0},
    ],
    ids=str,
)
async def test_what_is_sent_changes_and_the_rest_stays(door: Door, clock: Clock, fields: Json) -> None:
    """Field by field."""
    old = (await door.http.post(SCHEDULES, json=WHOLE)).json()
    follows = {"next_at", "next_local", "message", "status", "updated_at"}
    if "interval_s" in fields:
        fields = {**fields, "cron": None}
    clock.forward(1)

    new = await change(door, old["id"], **fields)

    assert new == await door.look(old["id"])
    assert {name: new[name] for name in fields} == fields
    assert {name: new[name] for name in new.keys() - follows - fields.keys()} == {
        name: old[name] for name in old.keys() - follows - fields.keys()
    }
    assert new["updated_at"] > old["updated_at"]


async def test_a_whole_schedule_can_be_sent_as_it_was_read(door: Door, clock: Clock) -> None:
    """Nothing is written, and nothing told: not to change is no change."""
    for name, body in (("nightly", WHOLE), ("fast", {"interval_s": 1.25, "job": SHELL, "name": "fast"})):
        made = (await door.http.post(SCHEDULES, json=body)).json()
        before = await door.store.schedules.find(name)
        clock.forward(1)

        assert await change(door, name, **made) == made
        assert await change(door, made["id"], **made | {"id": made["id"].upper()}) == made
        assert await door.store.schedules.find(name) == before
        assert [what for what, _ in await told(door, made["id"])][0:1] == ["created"]
        assert "updated" not in dict(await told(door, made["id"]))


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"id": NOBODY}, "id"),
        ({"id": None}, "id"),
        ({"created_at": "2026-01-01T00:00:00.001Z"}, "created_at"),
        ({"created_at": 5}, "created_at"),
        ({"created_at": "soon", "colour": 1, "cron": "x"}, "created_at colour cron"),
        ({"cron": None}, "cron"),
        ({"cron": "@daily", "interval_s": 5}, "interval_s"),
        ({"timezone": "x"}, "timezone"),
        ({"overlap": "x", "job": {"type": "shell"}}, "overlap job.cmd"),
        ({"job": None}, "job"),
        ({"job": {}}, "job.name job.queue"),
        ({"paused": 1}, "paused"),
        ({"start_at": "2029-01-01"}, "end_at"),
        ({"end_at": "2026-01-31"}, "end_at"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_what_cannot_be_is_refused(door: Door, clock: Clock, fields: Json, wrong: str) -> None:
    """All faults at once, and nothing is changed."""
    made = (await door.http.post(SCHEDULES, json=WHOLE)).json()

    invalid(await put(door, "nightly", **fields), *wrong.split())
    assert await door.look("nightly") == made


async def test_what_only_the_server_sets_is_ignored(door: Door) -> None:
    """Whatever it says."""
    made = await door.schedule()
    names = ("status", "message", "next_at", "next_local", "last_at", "last_job_id", "runs", "waiting", "updated_at")

    assert await change(door, made["id"], **dict.fromkeys(names, "x")) == made


async def test_cron_and_interval_take_each_others_place(door: Door, clock: Clock) -> None:
    """There and back; an interval counts from the schedule's creation."""
    made = await door.schedule(cron="0 3 * * *")
    clock.forward(50)

    interval = await change(door, made["id"], interval_s=60)
    cron = await change(door, made["id"], cron="0 4 * * *")

    assert (interval["cron"], interval["interval_s"], interval["next_at"]) == (None, 60, "2026-01-01T00:01:00.000Z")
    assert (cron["cron"], cron["interval_s"], cron["next_at"]) == ("0 4 * * *", None, "2026-01-01T04:00:00.000Z")


# What it runs ---------------------------------------------------------------------------------------------------------


async def test_a_job_that_is_not_changed_stays_what_it_was(store: Store) -> None:
    """Also where it would be refused as new, and whatever the defaults are by now."""
    old = open_door(store)
    made = (await old.http.post(SCHEDULES, json={"cron": "@daily", "job": SHELL})).json()
    strict = open_door(store, denylist_cmds="rm", retry_max_default=0)

    assert await change(strict, made["id"], **made) == made
    await change(strict, made["id"], overlap="skip", owner="ann")
    invalid(await put(strict, made["id"], job=SHELL | {"timeout_s": 5}), "job.cmd")

    [found] = await store.schedules.get([made["id"]])
    assert found is not None
    assert (found.definition.template.retry.max_attempts, found.definition.template.owner) == (4, "ann")


async def test_a_job_takes_the_place_of_the_one_before_as_a_whole(door: Door, clock: Clock) -> None:
    """The next run is the new one; 1, 1.0 and true are three payloads."""
    made = await door.schedule(interval_s=60, start_at=START, job=JOB | {"payload": {"x": 1}, "priority": 9})
    await crons_work(door.store)
    runs = [(await door.look(made["id"]))["last_job_id"]]
    for payload in (True, 1.0):
        await change(door, made["id"], job=JOB | {"payload": {"x": payload}})
        clock.forward(60)
        await crons_work(door.store)
        runs.append((await door.look(made["id"]))["last_job_id"])

    jobs = [await record(door.store, run) for run in runs]
    assert [job.spec.payload for job in jobs] == [b'{"x":1}', b'{"x":true}', b'{"x":1.0}']
    assert [job.order for job in jobs] == [1, 5, 5]


async def test_the_owner_of_a_schedule_is_that_of_its_jobs_unless_they_say_another(door: Door, clock: Clock) -> None:
    """Also when it gets another one, or none."""
    for own, owners in ((None, ["bob", None]), ("eve", ["eve", "eve"])):
        made = await door.schedule(interval_s=60, start_at=START, owner="ann", job=JOB | {"owner": own})
        for owner, expected in zip(("bob", None), owners, strict=True):
            await change(door, made["id"], owner=owner)
            await crons_work(door.store)
            run = (await door.look(made["id"]))["last_job_id"]
            assert (await record(door.store, run)).owner == expected
            clock.forward(60)


# Names, pause and resume ----------------------------------------------------------------------------------------------


async def test_a_name_can_be_changed_and_given_up(door: Door) -> None:
    """The old one is free at once; one that another has is 409."""
    made = await door.schedule(name="a")
    other = await door.schedule(name="b")

    conflict(await put(door, "a", name="b"), other["id"])
    assert (await change(door, "a", name="c"))["id"] == made["id"]
    assert (await change(door, other["id"], name="a"))["name"] == "a"
    assert (await change(door, "c", name=None))["name"] is None
    assert (await door.look(made["id"]))["name"] is None
    refused(await door.http.get(f"{SCHEDULES}/c"), 404, "NOT_FOUND")
    assert await told(door, made["id"]) == [("created", None), ("updated", None), ("updated", None)]


async def test_it_pauses_and_resumes(door: Door, clock: Clock) -> None:
    """The reason stays unless it is said; nothing is told twice."""
    ref = (await door.schedule(cron="0 0 1 6 *"))["id"]

    assert (await change(door, ref, paused=True, reason="a"))["reason"] == "a"
    assert (await change(door, ref, paused=True))["reason"] == "a"
    assert (await change(door, ref, reason="b"))["reason"] == "b"
    assert (await change(door, ref, reason=None))["reason"] is None
    assert (await change(door, ref, paused=False))["status"] == "active"
    assert (await change(door, ref, paused=None, reason="c"))["reason"] is None
    assert await told(door, ref) == [
        ("created", None), ("paused", "a"), ("paused", "b"), ("paused", None), ("resumed", None),
    ]  # fmt: skip


async def test_a_change_and_a_pause_in_one_request_are_both_told(door: Door, clock: Clock) -> None:
    """The pause is of the changed schedule."""
    ref = (await door.schedule(cron="0 5 * * *"))["id"]

    assert (await change(door, ref, cron="@daily", paused=True, reason="r"))["status"] == "paused"
    assert (await change(door, ref, cron="@hourly", paused=False))["next_at"] == "2026-01-01T01:00:00.000Z"
    assert [what for what, _ in await told(door, ref)] == ["created", "updated", "paused", "updated", "resumed"]


# The same file again and again ----------------------------------------------------------------------------------------


async def test_what_does_not_exist_is_made_under_the_name_in_the_path(door: Door) -> None:
    """The same request again changes nothing; another one changes it."""
    body: Json = {"cron": "@daily", "job": SHELL, "max_runs": None}
    first = await put(door, "nightly%20report", **body)
    again = await put(door, "nightly%20report", **body, name="nightly report")
    other = await put(door, "nightly%20report", **body | {"cron": "@hourly"})

    made = first.json()
    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 200)
    assert (made["name"], first.headers["location"]) == ("nightly report", f"{SCHEDULES}/{made['id']}")
    assert again.json() == made
    assert (other.json()["id"], other.json()["cron"]) == (made["id"], "@hourly")
    assert await told(door, made["id"]) == [("created", None), ("updated", None)]


@pytest.mark.parametrize(
    "body", [{}, {"paused": True}, {"cron": "@daily"}, {"job": JOB}, {"cron": None, "job": JOB}], ids=str
)
async def test_a_part_of_what_does_not_exist_is_not_found(door: Door, body: Json) -> None:
    """With a hint at what is missing."""
    error = refused(await put(door, "nobody", **body), 404, "NOT_FOUND")
    assert "a job, and cron or interval_s" in error["message"]


@pytest.mark.parametrize("ref", [NOBODY, NOBODY.upper(), "%00", "a%0Ab", "x" * 129, "%2e%2e", "%7F"])
async def test_what_can_be_no_name_makes_none(door: Door, ref: str) -> None:
    """Such as an id: the server makes those."""
    refused(await put(door, ref, cron="@daily", job=JOB), 404, "NOT_FOUND")
    assert await door.store.schedules.count() == 0


async def test_what_would_be_made_wrong_is_refused_with_all_its_faults(door: Door) -> None:
    """Among them a name that is not the path's, and what the server sets."""
    body = {"cron": "x", "job": {"type": "shell"}, "name": "b", "id": NOBODY, "created_at": "2026-01-01", "runs": 7}
    invalid(await put(door, "a", **body), "cron", "job.cmd", "name", "id", "created_at")
    assert await door.store.schedules.count() == 0


async def test_of_many_at_once_one_makes_it_and_the_others_find_it(door: Door) -> None:
    """Nobody is refused."""
    answers = await asyncio.gather(*(put(door, "a", cron="@daily", job=JOB) for _ in range(10)))

    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1


# Other times ----------------------------------------------------------------------------------------------------------


async def test_other_times_count_from_now(door: Door, clock: Clock) -> None:
    """What the old ones would still have done is told; nothing is fired for the past."""
    ref = (await door.schedule(cron="*/10 * * * *", start_at=START))["id"]
    await crons_work(door.store)
    clock.forward(25 * 60)  # cron was away

    changed = await change(door, ref, cron="*/15 * * * *")

    await crons_work(door.store)
    assert changed["next_at"] == "2026-01-01T00:30:00.000Z"
    [skipped] = [line for line in (await door.look(ref, "/history"))["items"] if line["what"] == "skipped"]
    assert (skipped["why"], skipped["fire_at"], skipped["until"], skipped["count"]) == (
        "updated", "2026-01-01T00:10:00.000Z", "2026-01-01T00:20:00.000Z", 2,
    )  # fmt: skip
    assert len(await births(door.store)) == 1


async def test_the_same_times_go_on_as_they_were(door: Door, clock: Clock) -> None:
    """Who changes only the job loses no time that is due."""
    ref = (await door.schedule(cron="*/10 * * * *"))["id"]
    await crons_work(door.store)
    clock.forward(601)

    await change(door, ref, job=JOB | {"priority": 1})
    await crons_work(door.store)

    assert (await door.look(ref))["last_at"] == "2026-01-01T00:10:00.000Z"


async def test_an_end_that_has_come_is_no_fault_of_another_change(door: Door, clock: Clock) -> None:
    """Other times that are all past are."""
    ref = (await door.schedule(cron="@hourly", end_at="2026-01-01T01:30:00"))["id"]
    for _ in range(2):
        await crons_work(door.store)
        clock.forward(3600)

    assert (await change(door, ref, owner="ann"))["status"] == "ended"
    invalid(await put(door, ref, end_at="2026-01-01T01:45:00"), "end_at")
    again = await change(door, ref, end_at=None)
    assert (again["status"], again["next_at"]) == ("active", "2026-01-01T03:00:00.000Z")


async def test_one_that_has_had_all_its_runs_goes_on_if_it_may_have_more(door: Door, clock: Clock) -> None:
    """From now."""
    ref = (await door.schedule(interval_s=60, start_at=START, max_runs=1))["id"]
    await crons_work(door.store)
    assert (await door.look(ref))["status"] == "ended"
    clock.forward(600)

    changed = await change(door, ref, max_runs=2)
    await crons_work(door.store)
    assert (changed["status"], changed["next_at"], changed["runs"]) == ("active", "2026-01-01T00:11:00.000Z", 1)


async def test_what_was_cancelled_does_not_come_back(door: Door) -> None:
    """409, also when nothing would change."""
    made = await door.schedule(name="a")
    await door.http.post(f"/jobs/{made['id']}/cancel")

    conflict(await put(door, "a", paused=True), "cancelled")
    conflict(await put(door, "a", cron="@daily", job=JOB), "cancelled")


async def test_a_zone_that_was_abolished_is_mended(door: Door, clock: Clock) -> None:
    """Until then the schedule's times cannot be told."""
    await door.schedule(name="a", timezone="Asia/Tokyo")
    await abolish_zone(door.store, "a")

    invalid(await put(door, "a", overlap="skip"), "timezone")
    changed = await change(door, "a", timezone="Asia/Tokyo")
    assert changed["next_at"] == "2026-01-01T00:01:00.000Z"


# Others who change it meanwhile ---------------------------------------------------------------------------------------


async def test_a_change_during_a_fire_loses_neither(door: Door, clock: Clock) -> None:
    """The run is started and told once, and the change is made."""
    ref = (await door.schedule(cron="* * * * *"))["id"]
    for fields in ({"cron": "0 0 2 1 *"}, {"paused": True}, {"owner": "ann"}):
        await change(door, ref, paused=False, cron="* * * * *")
        due_ms = ms_of_iso((await door.look(ref))["next_at"])
        clock.at(due_ms)
        [found] = await door.store.schedules.get([ref])
        assert found is not None

        with before_write(door.store, partial(change, door, ref, **fields)):
            await Firing(door.store, 5).settle([found], clock.now_ms)
        await crons_work(door.store)

        lines = (await door.look(ref, "/history", limit=100))["items"]
        assert [line["what"] for line in lines if line["fire_at"] and ms_of_iso(line["fire_at"]) == due_ms] == ["fired"]
        assert (await door.look(ref))["last_job_id"] in await births(door.store)
    assert set((await births(door.store)).values()) == {1}
    assert len(await births(door.store)) == (await door.look(ref))["runs"] == 3


async def test_changes_at_once_are_all_made(door: Door) -> None:
    """Each is computed from what the one before left."""
    ref = (await door.schedule())["id"]
    fields: list[Json] = [
        {"owner": "ann"}, {"overlap": "skip"}, {"max_runs": 5}, {"jitter_s": 3}, {"catchup_limit": 1}, {"name": "a"},
    ]  # fmt: skip

    await asyncio.gather(*(change(door, ref, **one) for one in fields))

    schedule = await door.look(ref)
    assert all(schedule[name] == value for one in fields for name, value in one.items())


async def test_who_loses_every_race_is_put_off(door: Door) -> None:
    """With Retry-After, instead of trying for ever."""
    ref = (await door.schedule())["id"]
    get, i = door.store.schedules.find, iter(range(1000))

    async def late(wanted: str) -> Any:
        found = await get(wanted)
        assert found is not None
        write = Write(found.id, found.rev, found.progress.due_ms, replace(found.progress, runs=next(i)))
        await door.store.schedules.write([write])
        return found

    with patch.object(door.store.schedules, "find", late):
        response = await put(door, ref, owner="ann")
    refused(response, 503, "UNAVAILABLE")
    assert response.headers["retry-after"] == "1"
