"""GET /api/v1/schedules/preview, …/{ref}/preview and …/{ref}/history: what will happen, and what has."""

import asyncio
from itertools import islice
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import schedule_shapes
from taskflow_api.context import api_of
from taskflow_api.describe import answers, parameter, takes
from taskflow_api.errors import Invalid
from taskflow_api.fields import CRON_SCHEMA, TIME_SCHEMA, ZONE_SCHEMA, cron_text, ms, time_ms, zone_name
from taskflow_api.logs import LOG_ID_PATTERN
from taskflow_api.paths import PREFIX, PREVIEW, SCHEDULE
from taskflow_api.present import answer
from taskflow_api.query import Reader, integer, matching, read_query, seconds
from taskflow_api.schedule_bodies import LONGEST_INTERVAL_S
from taskflow_api.schedule_change import NO_SCHEDULE, REF, find_schedule, path_ref, telling_times
from taskflow_api.schedule_present import line_fields, local
from taskflow_domain import MIN_INTERVAL_MS, Origin, Progress, Schedule, iso_of_ms

router = APIRouter(prefix=PREFIX, tags=["schedules"])

DEFAULT_TIMES: Final = 10
MOST_TIMES: Final = 1000
DEFAULT_LINES: Final = 20
MOST_LINES: Final = 100
MIN_INTERVAL_S: Final = MIN_INTERVAL_MS / 1000

_TIMES: Final[dict[str, Reader]] = {"n": integer(1, MOST_TIMES), "from": time_ms}
_RULES: Final[dict[str, Reader]] = {
    "cron": cron_text,
    "interval_s": seconds(MIN_INTERVAL_S, LONGEST_INTERVAL_S),
    "timezone": zone_name,
}
_LINES: Final[dict[str, Reader]] = {"limit": integer(1, MOST_LINES), "cursor": matching(LOG_ID_PATTERN)}
_TIME_PARAMETERS: Final = [
    parameter(
        "n", {"type": "integer", "minimum": 1, "maximum": MOST_TIMES, "default": DEFAULT_TIMES}, "How many times."
    ),
    parameter("from", TIME_SCHEMA, "The first time may be this one; unset is now."),
]
_RULE_PARAMETERS: Final = [
    parameter("cron", CRON_SCHEMA, "An expression, as a schedule has it.  This or `interval_s`."),
    parameter(
        "interval_s",
        {"type": "number", "minimum": MIN_INTERVAL_S, "maximum": LONGEST_INTERVAL_S},
        "Every so many seconds, counted from `from`.",
    ),
    parameter("timezone", ZONE_SCHEMA | {"default": "UTC"}, "The zone whose clocks `cron` means."),
]
_LINE_PARAMETERS: Final = [
    parameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": MOST_LINES, "default": DEFAULT_LINES}, "Lines on a page."
    ),
    parameter(
        "cursor", {"type": "string", "pattern": LOG_ID_PATTERN}, "`next_cursor` of the page before, or a line's `id`."
    ),
]


@router.get(
    f"/schedules/{PREVIEW}",
    summary="Preview times",
    responses=answers({200: (schedule_shapes.Preview, "The next times.")}, 400, 503),
    openapi_extra=takes(query=[*_RULE_PARAMETERS, *_TIME_PARAMETERS]),
)
async def preview_times(request: Request) -> Response:
    """When a schedule would fire, without making one: in UTC, and on the clocks of its zone."""
    given = read_query(request, _RULES | _TIMES)
    if ("cron" in given) is ("interval_s" in given):
        raise Invalid.field("cron", "give cron or interval_s, and one of them only")
    from_ms: int = given["from"] if "from" in given else await api_of(request).store.now_ms()
    schedule = Schedule(
        id="",
        anchor_ms=from_ms,
        cron=given.get("cron"),
        interval_ms=ms(given.get("interval_s")),
        zone=given.get("timezone", "UTC"),
    )
    return await _show(schedule, max(0, from_ms - 1), given.get("n", DEFAULT_TIMES))


@router.get(
    f"{SCHEDULE}/{PREVIEW}",
    summary="Preview a schedule's times",
    responses=answers(
        {200: (schedule_shapes.Preview, "The next times.")}, 400, 404, 409, 503,
        about={404: NO_SCHEDULE, 409: "Its times cannot be told any more, such as those of a zone that was abolished."},
    ),
    openapi_extra=takes(path=[REF], query=_TIME_PARAMETERS),
)  # fmt: skip
async def preview_schedule(request: Request) -> Response:
    """When a schedule will fire, or would if it were not paused: none if it has ended.

    With `from` these are its times by its rules alone, also those of the past.
    """
    store, given = api_of(request).store, read_query(request, _TIMES)
    record = await find_schedule(store, path_ref(request))
    schedule, progress, n = record.schedule, record.progress, given.get("n", DEFAULT_TIMES)
    with telling_times(record):
        if "from" in given:
            return await _show(schedule, max(0, given["from"] - 1), n)
        if progress.over is not None:
            return await _show(schedule, 0, 0)
        n = min(n, _runs_left(schedule, progress))
        return await _show(schedule, _settled_ms(progress, await store.now_ms()), n)


@router.get(
    f"{SCHEDULE}/history",
    summary="Get a schedule's history",
    responses=answers({200: (schedule_shapes.HistoryPage, "One page.")}, 400, 404, 503, about={404: NO_SCHEDULE}),
    openapi_extra=takes(path=[REF], query=_LINE_PARAMETERS),
)
async def schedule_history(request: Request) -> Response:
    """What happened to a schedule, the newest first: each fire, also those that were skipped, with why.

    The last thousand lines are kept.
    """
    store, given = api_of(request).store, read_query(request, _LINES)
    record = await find_schedule(store, path_ref(request))
    limit: int = given.get("limit", DEFAULT_LINES)
    lines = await store.schedules.history(record.id, given.get("cursor"), limit + 1)
    cursor = lines[limit - 1].id if len(lines) > limit else None
    return answer({"items": [line_fields(line) for line in lines[:limit]], "next_cursor": cursor})


def _settled_ms(progress: Progress, now_ms: int) -> int:
    """After which its next times come: a fire time that is past may be due only later, by its jitter."""
    if progress.due_ms is not None and progress.due_ms >= now_ms:
        return progress.after_ms
    return max(progress.after_ms, now_ms - 1)


def _runs_left(schedule: Schedule, progress: Progress) -> int:
    if schedule.max_runs is None:
        return MOST_TIMES
    waiting = sum(fire.origin is Origin.SCHEDULE for fire in progress.waiting)
    return max(0, schedule.max_runs - progress.runs - waiting)


async def _show(schedule: Schedule, after_ms: int, n: int) -> Response:
    """Beside other requests: a thousand times take a while."""
    return answer({"timezone": schedule.zone, "items": await asyncio.to_thread(_times, schedule, after_ms, n)})


def _times(schedule: Schedule, after_ms: int, n: int) -> list[dict[str, Any]]:
    rhythm = schedule.rhythm
    return [
        {"at": iso_of_ms(at_ms), "local": local(schedule, at_ms), "due_at": iso_of_ms(rhythm.due_ms(at_ms))}
        for at_ms in islice(rhythm.times_after(after_ms), n)
    ]
