"""GET …/preview and …/history: when a schedule fires, also on the days when clocks change, and what happened to it."""

from typing import Any

import pytest

from taskflow_domain import iso_of_ms
from taskflow_streams import schedules
from tests.integration.api.door import SCHEDULES, Door, Json, invalid
from tests.support.engine import Clock
from tests.support.schedules import crons_work

PREVIEW = f"{SCHEDULES}/preview"
START = "2026-01-01T00:00:00.000Z"


def times(page: Json) -> list[tuple[str, str]]:
    """Each time in UTC, and on the clocks of the zone."""
    return [(item["at"], item["local"]) for item in page["items"]]


async def previewed(door: Door, **query: Any) -> list[tuple[str, str]]:
    """What a schedule with these rules would do; the same as one that was made does."""
    rules = {name: value for name, value in query.items() if name in ("cron", "timezone")}
    made = await door.schedule(**rules)
    rest = {name: value for name, value in query.items() if name not in rules}
    page = await door.look("preview", **query)
    assert await door.look(made["id"], "/preview", **rest) == page
    assert page["timezone"] == query.get("timezone", "UTC")
    assert all(item["due_at"] == item["at"] for item in page["items"])
    return times(page)


# On the days when clocks change ---------------------------------------------------------------------------------------


async def test_a_time_in_the_spring_gap_comes_right_after_it(door: Door) -> None:
    """On 28 March 2027 the clocks of Berlin go from 02:00 to 03:00."""
    found = await previewed(door, cron="30 2 * * *", timezone="Europe/Berlin", n=3, **{"from": "2027-03-27"})

    assert found == [
        ("2027-03-27T01:30:00.000Z", "2027-03-27T02:30:00.000+01:00"),
        ("2027-03-28T01:00:00.000Z", "2027-03-28T03:00:00.000+02:00"),
        ("2027-03-29T00:30:00.000Z", "2027-03-29T02:30:00.000+02:00"),
    ]


async def test_a_time_in_the_autumn_fold_comes_once(door: Door) -> None:
    """On 25 October 2026 the clocks of Berlin go from 03:00 back to 02:00; it is the first 02:30 that counts."""
    found = await previewed(door, cron="30 2 * * *", timezone="Europe/Berlin", n=3, **{"from": "2026-10-24"})

    assert found == [
        ("2026-10-24T00:30:00.000Z", "2026-10-24T02:30:00.000+02:00"),
        ("2026-10-25T00:30:00.000Z", "2026-10-25T02:30:00.000+02:00"),
        ("2026-10-26T01:30:00.000Z", "2026-10-26T02:30:00.000+01:00"),
    ]


@pytest.mark.parametrize(
    ("start", "hours"),
    [
        ("2026-10-24T23:30:00Z", ["02:00:00.000+02:00", "02:00:00.000+01:00", "03:00:00.000+01:00"]),
        ("2027-03-28T00:00:00Z", ["01:00:00.000+01:00", "03:00:00.000+02:00", "04:00:00.000+02:00"]),
    ],
)
async def test_what_is_for_every_hour_goes_on_in_every_hour(door: Door, start: str, hours: list[str]) -> None:
    """In both of the fold; nothing is owed for the one that was not."""
    found = await previewed(door, cron="0 * * * *", timezone="Europe/Berlin", n=3, **{"from": start})

    assert [local[11:] for _, local in found] == hours


# What is to come ------------------------------------------------------------------------------------------------------


async def test_ten_times_from_now_unless_something_else_is_asked_for(door: Door, clock: Clock) -> None:
    """Up to a thousand, from any time on, which may be one of them, as now may."""
    found = await previewed(door, cron="*/15 * * * *")
    assert [at[11:16] for at, _ in found[:5]] == ["00:00", "00:15", "00:30", "00:45", "01:00"]
    assert len(found) == 10
    assert len(await previewed(door, cron="*/15 * * * *", n=1000)) == 1000
    assert (await previewed(door, cron="@daily", **{"from": "2000-02-28T00:00:00.001Z"}))[0][0][:10] == "2000-02-29"


async def test_an_interval_without_a_schedule_counts_from_the_time_that_is_asked_for(door: Door, clock: Clock) -> None:
    """As one does that is made now."""
    now = await door.look("preview", interval_s=2.5, n=2)
    then = await door.look("preview", interval_s=2.5, n=2, **{"from": "2026-06-01T12:00:00"})
    made = await door.schedule(interval_s=2.5)

    assert [at for at, _ in times(now)] == ["2026-01-01T00:00:00.000Z", "2026-01-01T00:00:02.500Z"]
    assert [at for at, _ in times(then)] == ["2026-06-01T12:00:00.000Z", "2026-06-01T12:00:02.500Z"]
    assert await door.look(made["id"], "/preview", n=2) == now


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("", "cron"),
        ("cron=@daily&interval_s=5", "cron"),
        ("cron=1%202&timezone=Mars&n=0&from=x&colour=1", "cron timezone n from colour"),
        ("interval_s=0.5", "interval_s"),
        ("interval_s=nan", "interval_s"),
        ("interval_s=1e99", "interval_s"),
        ("cron=@daily&n=1001", "n"),
        ("cron=0%200%2031%202%20*", "cron"),
        ("cron=@daily&cron=@daily", "cron"),
        ("cron=%00", "cron"),
        ("timezone=UTC", "cron"),
    ],
)
async def test_a_preview_of_what_cannot_be_is_refused(door: Door, query: str, wrong: str) -> None:
    """All faults at once, in the words that a schedule is refused with."""
    invalid(await door.http.get(f"{PREVIEW}?{query}"), *wrong.split())


async def test_a_fault_in_an_expression_is_told_with_its_place(door: Door) -> None:
    """Who types it sees where."""
    error = invalid(await door.http.get(PREVIEW, params={"cron": "0 3 * * 8"}), "cron")
    assert "at character 9" in error["message"]


async def test_a_preview_is_of_what_will_be(door: Door, clock: Clock) -> None:
    """One that is paused shows what it would do; one that has ended nothing, nor more than the runs that are left."""
    paused = (await door.schedule(paused=True, cron="@hourly"))["id"]
    limited = (await door.schedule(max_runs=3, cron="@hourly", start_at=START))["id"]
    bounded = (await door.schedule(cron="@hourly", start_at="2026-01-01T04:30:00", end_at="2026-01-01T07:00:00"))["id"]
    ended = (await door.schedule(cron="@hourly", start_at=START, end_at="2026-01-01T00:30:00"))["id"]
    canceled = (await door.schedule(cron="@hourly"))["id"]
    await door.http.post(f"/jobs/{canceled}/cancel")
    await crons_work(door.store)
    clock.forward(5400)

    async def hours(ref: str, **query: Any) -> list[str]:
        return [at[11:13] for at, _ in times(await door.look(ref, "/preview", n=4, **query))]

    assert await hours(paused) == ["02", "03", "04", "05"]
    assert await hours(limited) == ["02", "03"]
    assert await hours(bounded) == ["05", "06", "07"]
    assert await hours(ended) == await hours(canceled) == []
    assert await hours(ended, **{"from": "2025-12-31T22:30:00"}) == ["00"]  # by its rules, also of the past
    assert await hours(paused, **{"from": "2025-12-31T22:30:00"}) == ["23", "00", "01", "02"]


async def test_a_time_that_is_due_only_later_is_still_to_come(door: Door, clock: Clock) -> None:
    """By its jitter, which the preview tells and the fire keeps."""
    ref = (await door.schedule(cron="@hourly", jitter_s=3000, start_at=START))["id"]
    [first] = (await door.look(ref, "/preview", n=1))["items"]
    assert first["at"] == "2026-01-01T00:00:00.000Z" < first["due_at"] < "2026-01-01T00:50:00.001Z"

    clock.at(clock.now_ms + 1)
    assert (await door.look(ref, "/preview", n=1))["items"] == [first]
    await crons_work(door.store)
    assert (await door.look(ref))["runs"] == 0
    clock.forward(3000)
    await crons_work(door.store)
    assert (await door.look(ref))["last_at"] == first["at"]


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York", "UTC"])
async def test_there_are_no_times_beyond_the_year_9999(door: Door, zone: str) -> None:
    """Also where it has begun already, or 1970 has not."""
    late = times(await door.look("preview", interval_s=3600, timezone=zone, n=5, **{"from": "9999-12-31T22:00:00"}))
    early = await previewed(door, cron="@hourly", timezone=zone, n=2, **{"from": "1970-01-01"})
    cron = await previewed(door, cron="@hourly", timezone=zone, n=50, **{"from": "9999-12-31"})

    assert [at[:16] for at, _ in late] == ["9999-12-31T22:00", "9999-12-31T23:00"]
    assert [at[:16] for at, _ in early] == ["1970-01-01T01:00", "1970-01-01T02:00"]
    assert len(cron) <= 24
    jittery = await door.schedule(interval_s=3600, timezone=zone, jitter_s=86_400)
    assert (await door.look(jittery["id"], "/preview", **{"from": "9999-12-31T22:00:00"}))["items"]


# What has happened ----------------------------------------------------------------------------------------------------


async def test_every_fire_is_told_also_one_that_was_skipped(door: Door, clock: Clock) -> None:
    """The newest first; with the job, the reason, and a sentence."""
    clock.forward(1)
    ref = (await door.schedule(cron="*/10 * * * *", overlap="skip", paused=True, reason="not yet"))["id"]
    await door.order(ref, "resume")
    for seconds in (599, 600):
        clock.forward(seconds)
        await crons_work(door.store)
    run = (await door.look(ref))["last_job_id"]
    at = [iso_of_ms(clock.now_ms - 600_000), iso_of_ms(clock.now_ms)]

    lines = (await door.look(ref, "/history"))["items"]

    assert [{name: value for name, value in line.items() if name != "id"} for line in lines[:2]] == [
        {
            "at": at[1], "what": "skipped", "fire_at": at[1], "origin": "schedule", "why": "overlap", "job_id": run,
            "until": None, "count": 1, "message": f"Skipped; a run was still active (job {run}).",
        },
        {
            "at": at[0], "what": "fired", "fire_at": at[0], "origin": "schedule", "why": None, "job_id": run,
            "until": None, "count": 1, "message": f"Started job {run}.",
        },
    ]  # fmt: skip
    assert [line["message"] for line in lines[2:]] == ["Resumed.", "Paused: not yet.", "Created."]


async def test_what_was_missed_is_told_with_its_span_and_the_reason(door: Door, clock: Clock) -> None:
    """Too many to make up for, or too long ago."""
    ref = (await door.schedule(cron="* * * * *", catchup_limit=2, catchup_window_s=600))["id"]
    await crons_work(door.store)
    clock.forward(3600)
    await crons_work(door.store)

    lines = (await door.look(ref, "/history", limit=100))["items"]
    skipped = {
        line["why"]: (line["fire_at"], line["until"], line["count"]) for line in lines if line["what"] == "skipped"
    }
    assert skipped == {
        "catchup_window": ("2026-01-01T00:01:00.000Z", "2026-01-01T00:49:00.000Z", 49),
        "catchup_limit": ("2026-01-01T00:50:00.000Z", "2026-01-01T00:57:00.000Z", 8),
    }
    assert any("49 times: missed longer ago than `catchup_window_s`" in line["message"] for line in lines)
    late = [line for line in lines if line["fire_at"] == "2026-01-01T00:58:00.000Z"]
    assert [line["message"] for line in late] == [f"Started job {late[0]['job_id']}, 120 s after its time."]


async def test_history_comes_page_by_page(door: Door, clock: Clock) -> None:
    """Each line once; what happens meanwhile does not shift the pages."""
    ref = (await door.schedule(paused=True))["id"]
    for i in range(6):
        await door.order(ref, "pause", reason=str(i))

    seen: list[str | None] = []
    cursor: Json = {}
    for size in (3, 3, 2):
        page = await door.look(ref, "/history", limit=3, **cursor)
        assert len(page["items"]) == size
        seen += [line["why"] for line in page["items"]]
        assert page["next_cursor"] == (page["items"][-1]["id"] if size == 3 else None)
        cursor = {"cursor": page["next_cursor"]}
        await door.order(ref, "pause", reason="meanwhile")
    assert seen == ["5", "4", "3", "2", "1", "0", None, None]

    everything = await door.look(ref, "/history", limit=100)
    assert await door.look(ref, "/history", cursor=everything["items"][-1]["id"]) == {"items": [], "next_cursor": None}
    assert await door.look(ref, "/history", cursor="0-0") == {"items": [], "next_cursor": None}
    assert len((await door.look(ref, "/history", cursor="9" * 15 + "-0", limit=100))["items"]) == len(
        everything["items"]
    )


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=101", "cursor=x", "cursor=1", "cursor=-1-1", f"cursor={'9' * 30}-1", "from=1"]
)
async def test_a_page_that_cannot_be_is_refused(door: Door, query: str) -> None:
    """With the parameter that is wrong."""
    ref = (await door.schedule())["id"]
    invalid(await door.http.get(f"{SCHEDULES}/{ref}/history?{query}"), query.partition("=")[0])


async def test_the_last_lines_are_kept(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some more than are promised, and not without end."""
    monkeypatch.setattr(schedules, "HISTORY_LINES", 100)
    ref = (await door.schedule())["id"]
    for i in range(300):
        await door.order(ref, "pause", reason=str(i))

    page = await door.look(ref, "/history", limit=100)
    assert [line["why"] for line in page["items"]] == [str(i) for i in range(299, 199, -1)]
    older = (
        (await door.look(ref, "/history", limit=100, cursor=page["next_cursor"]))["items"]
        if page["next_cursor"]
        else []
    )
    assert len(older) < 150
