"""POST /api/v1/schedules/{ref}/pause|resume|backfill: let a schedule rest, go on, and make up for what is past."""

import asyncio
import time

import httpx
import pytest

from taskflow_api import schedule_backfill
from taskflow_domain import Over
from tests.integration.api.door import SCHEDULES, Door, Json, conflict, invalid, refused
from tests.support.engine import Clock, a_worker, record
from tests.support.schedules import abolish_zone, births, crons_work

MIDNIGHT = "2026-01-01T00:00:00.000Z"
HOUR: Json = {"from": "2025-12-31T00:00:00Z", "to": "2025-12-31T01:00:00Z"}


async def post(door: Door, ref: str, verb: str, **fields: object) -> httpx.Response:
    """The answer to an order."""
    return await door.http.post(f"{SCHEDULES}/{ref}/{verb}", json=fields)


async def told(door: Door, ref: str, what: str | None = None) -> list[Json]:
    """Lines of its history, the oldest first."""
    lines: list[Json] = (await door.look(ref, "/history", limit=100))["items"][::-1]
    return [line for line in lines if what in (None, line["what"])]


# Pause and resume -----------------------------------------------------------------------------------------------------


async def test_a_paused_schedule_does_not_fire_until_it_is_resumed(door: Door, clock: Clock) -> None:
    """What it rested through is not made up for, and told."""
    await door.schedule(name="a", cron="*/10 * * * *", start_at=MIDNIGHT)
    await crons_work(door.store)

    paused = await door.order("a", "pause", reason="the disk is full")
    clock.forward(1500)
    await crons_work(door.store)
    resumed = await door.order("a", "resume")
    await crons_work(door.store)

    assert (paused["status"], paused["reason"], paused["next_at"]) == ("paused", "the disk is full", None)
    assert paused["message"] == f"Paused since {MIDNIGHT}: the disk is full."
    assert (resumed["status"], resumed["next_at"], resumed["runs"]) == ("active", "2026-01-01T00:30:00.000Z", 1)
    assert [(line["what"], line["why"], line["count"]) for line in await told(door, "a")][2:] == [
        ("paused", "the disk is full", None), ("skipped", "paused", 2), ("resumed", None, None),
    ]  # fmt: skip


async def test_both_can_be_repeated(door: Door, clock: Clock) -> None:
    """Only what changes is told; without a reason the one before stays, and so does the time of the pause."""
    ref = (await door.schedule(cron="0 0 1 6 *"))["id"]
    first = await door.order(ref, "resume")
    for seconds, fields in (
        (0, {"reason": "a"}),
        (1, {"reason": "a"}),
        (2, {}),
        (3, {"reason": None}),
        (4, {"reason": "b"}),
    ):
        clock.forward(seconds)
        paused = await door.order(ref, "pause", **fields)
    last = [await door.order(ref, "resume") for _ in range(2)]

    assert first["status"] == "active"
    assert (paused["reason"], paused["message"]) == ("b", f"Paused since {MIDNIGHT}: b.")
    assert last[0] == last[1]
    assert [line["what"] for line in await told(door, ref)] == ["created", "paused", "paused", "resumed"]


async def test_there_is_nothing_that_must_be_said(door: Door) -> None:
    """No body at all is fine; one that is no JSON object is not."""
    ref = (await door.schedule())["id"]
    path = f"{SCHEDULES}/{ref}"
    for verb in ("pause", "resume", "trigger"):
        assert (await door.http.post(f"{path}/{verb}")).status_code == 200

    json_type = {"content-type": "application/json"}
    assert (await door.http.post(f"{path}/pause", headers=json_type)).status_code == 200
    invalid(
        await door.http.post(f"{path}/pause", content=b"{}", headers={"content-type": "text/plain"}), "Content-Type"
    )
    refused(await door.http.post(f"{path}/pause", content=b"[]", headers=json_type), 400, "VALIDATION_ERROR")
    invalid(await post(door, ref, "pause", reason="", colour=1), "reason", "colour")
    invalid(await post(door, ref, "pause", reason="r" * 501), "reason")
    invalid(await door.http.post(f"{path}/pause?reason=x"), "reason")


async def test_pauses_at_once_are_one_pause(door: Door) -> None:
    """Whoever comes second finds it paused."""
    ref = (await door.schedule())["id"]

    await asyncio.gather(*(door.order(ref, "pause", reason="r") for _ in range(10)))

    assert [line["what"] for line in await told(door, ref)] == ["created", "paused"]


async def test_what_was_cancelled_obeys_no_more(door: Door) -> None:
    """409, and why."""
    ref = (await door.schedule())["id"]
    await door.http.post(f"/jobs/{ref}/cancel")

    for verb, fields in (("pause", {}), ("resume", {}), ("trigger", {}), ("backfill", HOUR)):
        conflict(await post(door, ref, verb, **fields), "cancelled")
    assert (await door.look(ref))["message"] == "It fires no more: it was cancelled."


async def test_one_whose_zone_was_abolished_is_not_resumed(door: Door, clock: Clock) -> None:
    """Nor backfilled or previewed: 409 with what to do."""
    await door.schedule(name="a", timezone="Asia/Tokyo", paused=True)
    await abolish_zone(door.store, "a")

    conflict(await post(door, "a", "resume"), "Mars/Base", "Change it first")
    conflict(await post(door, "a", "backfill", **HOUR), "Mars/Base")
    conflict(await door.http.get(f"{SCHEDULES}/a/preview"), "Mars/Base")
    assert (await door.look("a"))["timezone"] == "Mars/Base"


# Backfill -------------------------------------------------------------------------------------------------------------


async def test_times_of_the_past_are_made_up_for(door: Door, clock: Clock) -> None:
    """Also those before it was made; both ends belong to the span."""
    clock.forward(1)
    ref = (await door.schedule(cron="*/20 * * * *"))["id"]

    answer = await door.order(ref, "backfill", **HOUR)
    await crons_work(door.store)

    assert answer == {
        "count": 4, "from": "2025-12-31T00:00:00.000Z", "to": "2025-12-31T01:00:00.000Z", "overlap": "allow",
        "rerun": False,
    }  # fmt: skip
    runs = [line for line in await told(door, ref, "fired") if line["origin"] == "backfill"]
    assert [run["fire_at"][11:16] for run in runs] == ["00:00", "00:20", "00:40", "01:00"]
    job = await record(door.store, runs[0]["job_id"])
    assert (job.schedule_id, job.due_ms) == (ref, clock.now_ms - 86_400_000 - 1000)
    assert (await door.look(ref))["runs"] == 0  # at its own times


async def test_times_that_come_by_themselves_are_left_to_that(door: Door, clock: Clock) -> None:
    """What cron is yet to fire or to catch up is not made up for too: it would be told twice."""
    ref = (await door.schedule(cron="* * * * *", start_at=MIDNIGHT))["id"]
    await crons_work(door.store)
    clock.forward(150)

    answer = await door.order(ref, "backfill", **{"from": MIDNIGHT, "to": "2026-01-01T00:02:30Z"})
    await crons_work(door.store)

    assert (answer["count"], answer["to"]) == (1, MIDNIGHT)
    fired = [line["fire_at"][11:16] for line in await told(door, ref, "fired")]
    assert fired == ["00:00", "00:01", "00:02"]


async def test_what_has_run_is_left_out_unless_it_is_to_run_again(door: Door, clock: Clock) -> None:
    """So the request can be repeated; `rerun` makes new jobs each time."""
    ref = (await door.schedule(cron="*/20 * * * *", paused=True))["id"]
    for rerun, jobs in ((False, 4), (False, 4), (True, 8), (True, 12)):
        assert (await door.order(ref, "backfill", **HOUR, rerun=rerun))["count"] == 4
        await crons_work(door.store)
        assert len(await births(door.store)) == jobs

    assert {line["why"] for line in await told(door, ref, "skipped")} == {"ran_before"}
    assert set((await births(door.store)).values()) == {1}


@pytest.mark.parametrize(
    ("overlap", "asked", "how"),
    [
        ("allow", None, "allow"),
        ("allow", "buffer_all", "buffer_all"),
        ("skip", None, "buffer_all"),
        ("buffer_one", None, "buffer_all"),
        ("cancel_previous", None, "buffer_all"),
        ("skip", "allow", "allow"),
    ],
)
async def test_they_run_at_once_or_one_after_the_other(
    door: Door, clock: Clock, overlap: str, asked: str | None, how: str
) -> None:
    """As is asked for; else at once only if the schedule allows overlap."""
    ref = (await door.schedule(cron="0 0 1 6 *", overlap=overlap))["id"]
    worker = await a_worker(door.store)

    answer = await door.order(ref, "backfill", **{"from": "2020-01-01", "to": "2025-01-01"}, overlap=asked)
    assert (answer["overlap"], answer["count"]) == (how, 5)
    for left in range(5, 0, -1):
        await crons_work(door.store)
        held = await worker.lease(9)
        assert len(held) == (1 if how == "buffer_all" else left)
        for one in held:
            await worker.complete(one)
        if how == "allow":
            break
    assert len(await births(door.store)) == 5


async def test_only_its_own_times_count(door: Door, clock: Clock) -> None:
    """None before its start or after its end; an interval has none before it began to count.  None is no fault."""
    bounds = {"start_at": "2025-12-31T00:30:00", "end_at": "2025-12-31T00:45:00"}
    ended = (await door.schedule(cron="*/10 * * * *"))["id"]
    await door.http.put(f"{SCHEDULES}/{ended}", json={"start_at": "2025-12-31T00:30:00"})
    interval = (await door.schedule(interval_s=600))["id"]
    grid = (await door.schedule(interval_s=600, start_at=bounds["start_at"]))["id"]
    leap = (await door.schedule(cron="0 0 29 2 *"))["id"]

    assert (await door.order(ended, "backfill", **HOUR))["count"] == 4
    assert (await door.order(interval, "backfill", **HOUR))["count"] == 0
    assert (await door.order(grid, "backfill", **HOUR))["count"] == 4
    assert (await door.order(leap, "backfill", **{"from": "1970-01-01", "to": "2026-01-01"}))["count"] == 14
    assert (await door.look(interval, "/history"))["items"][0]["what"] == "created"


async def test_it_works_while_the_schedule_is_paused_and_after_it_has_ended(door: Door, clock: Clock) -> None:
    """Somebody has asked for it."""
    paused = (await door.schedule(paused=True, cron="*/20 * * * *"))["id"]
    ended = (await door.schedule(max_runs=1, cron="*/20 * * * *"))["id"]
    await crons_work(door.store)
    assert (await door.look(ended))["status"] == "ended"

    for ref, status in ((paused, "paused"), (ended, "active")):
        await door.order(ref, "backfill", **HOUR)
        under_way = await door.look(ref)
        assert (under_way["status"], "A backfill is under way." in under_way["message"]) == (status, True)
    await crons_work(door.store)

    assert [(await door.look(ref))["status"] for ref in (paused, ended)] == ["paused", "ended"]
    assert len(await births(door.store)) == 1 + 4 + 4


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, "from to"),
        ({"from": "x", "to": 5, "overlap": "skip", "rerun": 1, "colour": 1}, "from to overlap rerun colour"),
        ({"from": "2025-01-02", "to": "2025-01-01"}, "to"),
        ({"from": "2025-12-31T23:00:00", "to": "2026-01-01T00:00:00.001Z"}, "to"),
        ({"from": None, "to": "2025-01-01"}, "from"),
    ],
    ids=str,
)
async def test_a_span_that_cannot_be_is_refused(door: Door, clock: Clock, fields: Json, wrong: str) -> None:
    """All faults at once; times to come are the schedule's own."""
    ref = (await door.schedule())["id"]
    invalid(await post(door, ref, "backfill", **fields), *wrong.split())


async def test_too_many_times_are_refused_at_once_with_how_far_to_go(door: Door, clock: Clock) -> None:
    """A year of seconds is not counted to its end; up to the time in the answer it is accepted."""
    ref = (await door.schedule(cron="* * * * * *", paused=True))["id"]
    year = {"from": "2025-01-01", "to": "2026-01-01"}

    began = time.monotonic()
    [fault] = invalid(await post(door, ref, "backfill", **year), "to")["details"]
    took_s = time.monotonic() - began

    assert "more than 10,000 times" in fault["message"]
    assert "go up to 2025-01-01T02:46:39.000Z first" in fault["message"]
    assert took_s < 5  # of which it takes a tenth; the whole would take minutes
    first = await door.order(ref, "backfill", **{**year, "to": "2025-01-01T02:46:39.000Z"})
    assert first["count"] == 10_000


async def test_only_so_many_are_under_way(door: Door, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same span again is none more."""
    monkeypatch.setattr(schedule_backfill, "MOST_BACKFILLS", 2)
    ref = (await door.schedule(cron="*/20 * * * *"))["id"]

    for rerun in (False, False, True):
        assert (await door.order(ref, "backfill", **HOUR, rerun=rerun))["count"] == 4
    conflict(await post(door, ref, "backfill", **HOUR, rerun=True), "2 backfills", "wait")
    await crons_work(door.store)
    assert (await door.order(ref, "backfill", **HOUR, rerun=True))["count"] == 4


async def test_a_cancel_ends_a_backfill_and_says_how_far_it_came(door: Door, clock: Clock) -> None:
    """What is left of it is told."""
    ref = (await door.schedule(cron="*/20 * * * *", overlap="skip", paused=True))["id"]
    await door.order(ref, "backfill", **HOUR)
    await crons_work(door.store)

    await door.http.post(f"/jobs/{ref}/cancel")

    [skipped] = await told(door, ref, "skipped")
    assert (skipped["why"], skipped["until"]) == (Over.CANCELED, "2025-12-31T01:00:00.000Z")
    assert len(await births(door.store)) == 1
