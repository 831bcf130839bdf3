"""GET /api/v1/jobs: filters, order, pages, and what is refused."""

import asyncio
import base64
from typing import Any

import httpx
import pytest

from taskflow_domain import JobStatus, iso_of_ms
from taskflow_streams import Store
from tests.integration.api.door import JOBS, Door, invalid, open_door
from tests.support.engine import START_MS, Clock, a_job, a_running_job, an_ended_job


async def ids(door: Door, **query: Any) -> list[str]:
    """The ids of one page."""
    return [job["id"] for job in (await door.search(**query))["items"]]


async def walk(door: Door, **query: Any) -> list[str]:
    """The ids of all pages, following the cursors."""
    found: list[str] = []
    page = await door.search(**query)
    while True:
        found += [job["id"] for job in page["items"]]
        assert page["has_more"] == (page["next_cursor"] is not None)
        if not page["has_more"]:
            return found
        page = await door.search(cursor=page["next_cursor"], **query)


async def some_jobs(store: Store, clock: Clock, count: int, together: int = 1) -> list[str]:
    """Jobs in the order a search shows them: `together` of each millisecond."""
    made = []
    for i in range(count):
        made.append((-clock.now_ms, await a_job(store)))
        if i % together == together - 1:
            clock.forward(0.001)
    return [job_id for _, job_id in sorted(made)]


async def test_nothing_is_a_page_too(door: Door) -> None:
    """An empty one, the last."""
    assert await door.search() == {"items": [], "next_cursor": None, "has_more": False}


async def test_the_newest_come_first(door: Door, clock: Clock) -> None:
    """Sorted by time, newest first, and by id where times are equal; 20 on a page unless said otherwise."""
    expected = await some_jobs(door.store, clock, 25, together=5)
    await door.project()

    assert await ids(door) == expected[:20]
    assert await ids(door, limit=100) == expected
    assert (await door.search(limit=1))["items"][0] == await door.get(expected[0])


@pytest.mark.parametrize("limit", [1, 7, 99, 100])
async def test_a_walk_sees_every_job_once(door: Door, clock: Clock, limit: int) -> None:
    """However many share a millisecond, and whatever the size of a page."""
    expected = await some_jobs(door.store, clock, 130, together=40)
    await door.project()

    assert await walk(door, limit=limit) == expected


async def test_a_page_that_is_exactly_full_is_the_last(door: Door, clock: Clock) -> None:
    """No empty page follows it."""
    await some_jobs(door.store, clock, 10)
    await door.project()
    page = await door.search(limit=10)

    assert (len(page["items"]), page["has_more"], page["next_cursor"]) == (10, False, None)


async def test_the_cursor_is_base64_of_time_and_id(door: Door, clock: Clock) -> None:
    """Of the last job on the page; it works with and without padding."""
    expected = await some_jobs(door.store, clock, 3)
    await door.project()
    page = await door.search(limit=1)
    last = page["items"][0]

    assert base64.b64decode(page["next_cursor"]).decode() == f"{last['created_at']}|{last['id']}"
    assert await ids(door, cursor=page["next_cursor"].rstrip("=")) == expected[1:]


async def test_a_cursor_outlives_its_job(door: Door, clock: Clock) -> None:
    """Also among jobs of the same millisecond; jobs created meanwhile do not shift the pages."""
    expected = await some_jobs(door.store, clock, 6, together=3)
    await door.project()
    page = await door.search(limit=2)
    await door.http.delete(f"{JOBS}/{expected[1]}")
    await a_job(door.store)
    await door.project()

    assert await ids(door, cursor=page["next_cursor"]) == expected[2:]


async def test_an_offset_skips(door: Door, clock: Clock) -> None:
    """Any number; beyond the end there is nothing."""
    expected = await some_jobs(door.store, clock, 12)
    await door.project()

    assert await ids(door, offset=0, limit=5) == expected[:5]
    assert await ids(door, offset=5, limit=5) == expected[5:10]
    page = await door.search(offset=10, limit=5)
    assert [job["id"] for job in page["items"]] == expected[10:]
    assert (page["has_more"], page["next_cursor"]) == (False, None)
    assert await ids(door, offset=10**30) == []


async def test_filters_combine(door: Door, clock: Clock) -> None:
    """Queue, owner, status, priority and time; each narrows what the others leave."""
    made: dict[str, dict[str, Any]] = {}
    for i in range(24):
        queue, order, status = "ab"[i % 2], i % 10, "READY" if i % 3 else "CANCELED"
        owner = "ann" if i % 5 else "bob"
        job_id = await a_job(door.store, queue=queue, order=order, owner=owner)
        if status == "CANCELED":
            await door.store.cancel(job_id)
        shown = {"queue": queue, "owner": owner, "priority": 10 - order, "status": status}
        made[job_id] = {**shown, "created": clock.now_ms}
        clock.forward(1)
    await door.project()

    def expect(**wanted: Any) -> list[str]:
        def fits(job: dict[str, Any]) -> bool:
            return bool(
                wanted.get("queue", job["queue"]) == job["queue"]
                and wanted.get("owner", job["owner"]) == job["owner"]
                and wanted.get("status", job["status"]) == job["status"]
                and wanted.get("priority_min", -99) <= job["priority"] <= wanted.get("priority_max", 99)
                and wanted.get("created_after", "") <= iso_of_ms(job["created"]) < wanted.get("created_before", "9")
            )

        return [job_id for job_id, job in reversed(made.items()) if fits(job)]

    times = {"created_after": iso_of_ms(START_MS + 5_000), "created_before": iso_of_ms(START_MS + 20_000)}
    for query in (
        {"queue": "a"},
        {"owner": "bob"},
        {"owner": "ann", "queue": "b", "status": "READY"},
        {"status": "CANCELED"},
        {"priority_min": 5},
        {"priority_max": 3},
        {"priority_min": 4, "priority_max": 4},
        times,
        {"queue": "a", "status": "READY"},
        {"queue": "b", "status": "CANCELED", "priority_min": 3, "priority_max": 9, **times},
    ):
        expected = expect(**query)
        assert expected
        assert await ids(door, limit=100, **query) == expected, query
        assert await walk(door, limit=2, **query) == expected, query


async def test_after_is_inclusive_and_before_exclusive(door: Door, clock: Clock) -> None:
    """To the millisecond, in any spelling of the time."""
    early, middle, late = [(await a_job(door.store), clock.forward(0.001))[0] for _ in range(3)]
    await door.project()
    when = iso_of_ms(START_MS + 1)

    assert await ids(door, created_after=when) == [late, middle]
    assert await ids(door, created_before=when) == [early]
    assert await ids(door, created_after=when, created_before=when) == []
    assert await ids(door, created_after="2026-01-01T02:00:00.001+02:00") == [late, middle]
    assert await ids(door, created_before="2026-01-01 00:00:00.001") == [early]
    assert await ids(door, created_after="2026-01-01") == [late, middle, early]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"priority_min": -(10**40)}, True),
        ({"priority_max": 10**40}, True),
        ({"priority_min": 10**40}, False),
        ({"priority_max": 0}, False),
        ({"priority_min": 7, "priority_max": 3}, False),
        ({"queue": "nobody_is_here"}, False),
    ],
    ids=lambda value: repr(value)[:60],
)
async def test_filters_that_match_all_or_nothing(door: Door, query: dict[str, Any], found: bool) -> None:
    """Any integer is a priority to compare with."""
    job = await door.create()
    await door.project()

    assert await ids(door, **query) == ([job["id"]] if found else [])


async def test_what_is_shown_is_current(door: Door) -> None:
    """A job that has moved on since the index was written is shown as it is, or not at all."""
    job = await door.create()
    await door.project()
    await door.http.post(f"{JOBS}/{job['id']}/cancel")

    assert await ids(door, status="READY") == []
    assert await ids(door, status="CANCELED") == []  # not yet
    await door.project()
    assert await ids(door, status="CANCELED") == [job["id"]]


async def test_every_status_can_be_searched_for(door: Door) -> None:
    """`READY` is what the record says, also of a job that is due later."""
    expected = {
        "RUNNING": (await a_running_job(door.store)).job_id,
        "COMPLETED": await an_ended_job(door.store),
        "FAILED": await an_ended_job(door.store, JobStatus.FAILED),
        "CANCELED": await an_ended_job(door.store, JobStatus.CANCELED),
        "READY": (await door.create(delay_s=100))["id"],
    }
    expected["PENDING"] = (await door.create(dependencies=[expected["READY"]]))["id"]
    expected["BLOCKED"] = (await door.create(dependencies=[expected["FAILED"]]))["id"]
    expired = await door.create(expires_at="2020-01-01")
    await door.store.partitions[0].upkeep.expire()
    expected["EXPIRED"] = expired["id"]
    await door.project()

    assert set(expected) == set(JobStatus)
    for status, job_id in expected.items():
        assert await ids(door, status=status) == [job_id]


GOOD_CURSOR = base64.b64encode(b"2026-01-02T03:04:05.678Z|019b7c3f-5d2e-7000-8000-3f2a9c1b4d5e").decode()
BAD: list[tuple[str, tuple[str, ...]]] = [
    ("limit=0", ("limit",)),
    ("limit=101", ("limit",)),
    ("limit=-1", ("limit",)),
    ("limit=ten", ("limit",)),
    ("limit=5.0", ("limit",)),
    ("limit=", ("limit",)),
    ("limit=%EF%BC%95", ("limit",)),  # a digit, but not one of ours
    ("limit=5&limit=6", ("limit",)),
    ("limit=5&limit=5", ("limit",)),
    ("offset=-1", ("offset",)),
    ("offset=x", ("offset",)),
    ("priority_min=", ("priority_min",)),
    ("priority_max=1e3", ("priority_max",)),
    ("status=ready", ("status",)),
    ("status=", ("status",)),
    ("status=READY,RUNNING", ("status",)),
    ("queue=", ("queue",)),
    ("queue=a%20b", ("queue",)),
    ("queue=a%00", ("queue",)),
    ("queue=a%0A", ("queue",)),
    (f"queue={'a' * 65}", ("queue",)),
    ("created_after=yesterday", ("created_after",)),
    ("created_before=2026-13-01", ("created_before",)),
    ("created_before=1767323045", ("created_before",)),
    ("cursor=", ("cursor",)),
    ("cursor=x", ("cursor",)),
    ("cursor=%21%21", ("cursor",)),
    ("cursor=" + base64.b64encode(b"2026-01-02T03:04:05.678Z|nobody").decode(), ("cursor",)),
    ("cursor=" + base64.b64encode(b"now|019b7c3f-5d2e-7000-8000-3f2a9c1b4d5e").decode(), ("cursor",)),
    ("cursor=" + base64.b64encode(b"\xff\xfe").decode(), ("cursor",)),
    (f"cursor={GOOD_CURSOR}&offset=5", ("offset",)),
    ("page=2", ("page",)),
    ("Queue=a", ("Queue",)),
    ("limit=0&offset=-1&x=1", ("limit", "offset", "x")),
    ("queue=%ff", ()),
]


@pytest.mark.parametrize(("query", "fields"), BAD, ids=lambda value: str(value)[:40])
async def test_a_bad_query_is_400_and_names_the_parameter(door: Door, query: str, fields: tuple[str, ...]) -> None:
    """Each by its name, all at once."""
    invalid(await door.http.get(httpx.URL(f"http://api{JOBS}?{query}")), *fields)


async def test_search_spans_partitions(wide_door: Door) -> None:
    """One order over all of them, page by page."""
    made = [await wide_door.create(priority=1 + i % 10) for i in range(30)]
    await wide_door.project()
    expected = [
        job["id"]
        for job in sorted(sorted(made, key=lambda job: job["id"]), key=lambda job: job["created_at"], reverse=True)
    ]

    assert len({job["id"][19:22] for job in made}) > 1
    assert await walk(wide_door, limit=4) == expected
    assert await ids(wide_door, offset=20, limit=100) == expected[20:]


async def test_lag_is_told_in_a_header(door: Door) -> None:
    """While the projector is behind what had happened, and not when it has caught up."""
    await door.create()
    behind = await door.http.get(JOBS)
    await door.project()
    caught_up = await door.http.get(JOBS)

    assert int(behind.headers["x-taskflow-lag-ms"]) >= 1
    assert behind.json()["items"] == []
    assert "x-taskflow-lag-ms" not in caught_up.headers


async def test_a_search_waits_for_what_had_happened(store: Store) -> None:
    """A job that was created before the question is in the answer, as soon as the projector gets to it."""
    patient = open_door(store, search_wait_s=10)
    job = await patient.create()
    question = asyncio.create_task(patient.search())
    while not question.done():
        await asyncio.sleep(0)
        await patient.project()

    assert [found["id"] for found in (await question)["items"]] == [job["id"]]
