"""POST, GET and DELETE /api/v1/schedules: make schedules, look at them, remove them."""

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import schedule_shapes
from taskflow_api.context import api_of
from taskflow_api.describe import IDEMPOTENCY_HEADER, answers, parameter, takes
from taskflow_api.errors import NotFound
from taskflow_api.fields import OWNER_SCHEMA, owner_name
from taskflow_api.parse import printable
from taskflow_api.paths import PREFIX, SCHEDULE
from taskflow_api.present import answer
from taskflow_api.query import Reader, integer, one_of, read_query
from taskflow_api.schedule_bodies import LONGEST_NAME, CreateSchedule
from taskflow_api.schedule_change import NO_SCHEDULE, REF, find_schedule, ref_of
from taskflow_api.schedule_make import make_from
from taskflow_api.schedule_present import STATUSES, schedule_fields, show_schedule, status_of
from taskflow_api.search import decode_cursor, encode_place
from taskflow_streams import ScheduleRecord, Store

router = APIRouter(prefix=PREFIX, tags=["schedules"])

DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 100
MOST_LOOKED_AT: Final = 2000  # records in one request; there is no index of what is asked for here
CHUNK: Final = 200
NAME_TAKEN: Final = "Another schedule has the name, there are too many, or the key was used before."


def _name_prefix(text: str) -> str:
    if not 0 < len(text) <= LONGEST_NAME:
        raise ValueError(f"must be a text of 1 to {LONGEST_NAME} characters")
    return text


def _place(text: str) -> tuple[int, str]:
    order, schedule_id = decode_cursor(text)
    return -order, schedule_id


_READERS: Final[dict[str, Reader]] = {
    "status": one_of(STATUSES),
    "owner": owner_name,
    "name": _name_prefix,
    "cursor": _place,
    "limit": integer(1, MAX_LIMIT),
}
_PARAMETERS: Final = [
    parameter("status", {"type": "string", "enum": list(STATUSES)}, "Schedules in this state."),
    parameter("owner", OWNER_SCHEMA, "Schedules of this owner."),
    parameter("name", {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}, "What their names begin with."),
    parameter("cursor", {"type": "string", "format": "cursor"}, "`next_cursor` of the page before."),
    parameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
        "Schedules on a page.",
    ),
]


@router.post(
    "/schedules",
    status_code=201,
    summary="Make a schedule",
    responses=answers(
        {
            201: (schedule_shapes.Schedule, "The new schedule."),
            200: (schedule_shapes.Schedule, "The schedule that this key has made before."),
        },
        400, 409, 413, 503, about={409: NAME_TAKEN},
    ),
    openapi_extra=takes(CreateSchedule, headers=[IDEMPOTENCY_HEADER]),
)  # fmt: skip
async def create_schedule(request: Request) -> Response:
    """Make a schedule, which starts a job each time its cron expression or its interval says.

    An expression means the clocks of `timezone`: a time that is missing on the day when they are put forward comes
    right after the gap, one that comes twice when they are put back is fired once, and what is for every hour goes on
    in every hour.  What was missed in a downtime is made up for within `catchup_limit` and `catchup_window_s`.
    """
    record, is_new = await make_from(request)
    return show_schedule(record, 201 if is_new else 200)


@router.get(
    "/schedules",
    summary="List schedules",
    responses=answers({200: (schedule_shapes.SchedulePage, "One page.")}, 400, 503),
    openapi_extra=takes(query=_PARAMETERS),
)
async def list_schedules(request: Request) -> Response:
    """List schedules, the newest first; filters combine with AND.

    One request looks at 2,000 schedules.  If few of them are what it asks for, the page is short, or empty, and
    `next_cursor` goes on.
    """
    given = read_query(request, _READERS)
    limit: int = given.get("limit", DEFAULT_LIMIT)
    items, last = await _page(api_of(request).store, given, limit)
    cursor = None if last is None else encode_place(*last)
    return answer({
        "items": [schedule_fields(record) for record in items], "next_cursor": cursor, "has_more": cursor is not None,
    })  # fmt: skip


@router.get(
    SCHEDULE,
    summary="Get a schedule",
    responses=answers({200: (schedule_shapes.Schedule, "The schedule.")}, 400, 404, 503, about={404: NO_SCHEDULE}),
    openapi_extra=takes(path=[REF]),
)
async def get_schedule(request: Request) -> Response:
    """The schedule as it is now, and why."""
    return show_schedule(await find_schedule(api_of(request).store, ref_of(request)))


@router.delete(
    SCHEDULE,
    status_code=204,
    summary="Delete a schedule",
    responses=answers({204: (None, "It is gone.")}, 400, 404, 503, about={404: NO_SCHEDULE}),
    openapi_extra=takes(path=[REF]),
)
async def delete_schedule(request: Request) -> Response:
    """Delete a schedule and its history.  Jobs that it has started go on; what waits for their end is not started."""
    store, ref = api_of(request).store, ref_of(request)
    record = await find_schedule(store, ref)
    if not await store.schedules.delete(record.id):
        raise NotFound(f"There is no schedule {printable(ref)}.")
    return Response(status_code=204)


async def _page(store: Store, given: dict[str, Any], limit: int) -> tuple[list[ScheduleRecord], tuple[int, str] | None]:
    """Schedules that match, and the place after which there are more to look at; None: there are none."""
    found: list[ScheduleRecord] = []
    place: tuple[int, str] | None = given.get("cursor")
    for _ in range(MOST_LOOKED_AT // CHUNK):
        places = await store.schedules.ids(place, CHUNK + 1)
        ahead = places[:CHUNK]
        records = await store.schedules.get([schedule_id for _, schedule_id in ahead])
        for i, record in enumerate(records):
            if record is not None and _matches(record, given):
                found.append(record)
            if len(found) == limit:
                return found, ahead[i] if i + 1 < len(places) else None
        if len(places) <= CHUNK:
            return found, None
        place = ahead[-1]
    return found, place


def _matches(record: ScheduleRecord, given: dict[str, Any]) -> bool:
    return (
        given.get("status") in (None, status_of(record))
        and given.get("owner") in (None, record.definition.owner)
        and (record.name or "").startswith(given.get("name", ""))
    )
