"""GET /api/v1/jobs: search, page by page, the newest first."""

import base64
import binascii
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import shapes
from taskflow_api.context import api_of
from taskflow_api.describe import answers, parameter, takes
from taskflow_api.errors import Invalid
from taskflow_api.fields import ANY_QUEUE_PATTERN, OWNER_SCHEMA, TIME_SCHEMA, owner_name, time_ms
from taskflow_api.paths import PREFIX
from taskflow_api.present import show_jobs
from taskflow_api.query import Reader, integer, matching, read_query
from taskflow_domain import JobStatus, canonical_id, iso_of_ms, ms_of_iso
from taskflow_streams import JobRecord, Place, Query

router = APIRouter(prefix=PREFIX, tags=["jobs"])

DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 100
LAG_HEADER: Final = "X-TaskFlow-Lag-Ms"


def encode_cursor(job: JobRecord) -> str:
    """Where a page ends: after this job."""
    return encode_place(job.created_ms, job.id)


def encode_place(created_ms: int, known_id: str) -> str:
    """A place as answers give it: base64 of `{created_at}|{id}`."""
    return base64.b64encode(f"{iso_of_ms(created_ms)}|{known_id}".encode()).decode()


def decode_cursor(text: str) -> Place:
    """The place behind a cursor; the job itself may be gone."""
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4), validate=True).decode()
        created_at, _, given_id = plain.partition("|")
        job_id, created_ms = canonical_id(given_id), ms_of_iso(created_at)
    except (binascii.Error, ValueError):
        job_id, created_ms = None, 0
    if job_id is None or iso_of_ms(created_ms) != created_at:
        raise ValueError("is not a cursor that an answer gave")
    return -created_ms, job_id


def _status(text: str) -> JobStatus:
    if text not in JobStatus.__members__:
        raise ValueError(f"must be one of {', '.join(JobStatus)}")
    return JobStatus(text)


_READERS: Final[dict[str, Reader]] = {
    "queue": matching(ANY_QUEUE_PATTERN),
    "owner": owner_name,
    "status": _status,
    "priority_min": integer(),
    "priority_max": integer(),
    "created_after": time_ms,
    "created_before": time_ms,
    "cursor": decode_cursor,
    "limit": integer(1, MAX_LIMIT),
    "offset": integer(0),
}
_INTEGER: Final = {"type": "integer"}
_PARAMETERS: Final = [
    parameter("queue", {"type": "string", "pattern": ANY_QUEUE_PATTERN}, "Jobs of this queue."),
    parameter("owner", OWNER_SCHEMA, "Jobs of this owner."),
    parameter("status", {"type": "string", "enum": list(JobStatus)}, "Jobs in this state, as their records say."),
    parameter("priority_min", _INTEGER, "Jobs of at least this priority."),
    parameter("priority_max", _INTEGER, "Jobs of at most this priority."),
    parameter("created_after", TIME_SCHEMA, "Created then or later.  Without an offset it is UTC."),
    parameter("created_before", TIME_SCHEMA, "Created earlier.  Without an offset it is UTC."),
    parameter("cursor", {"type": "string", "format": "cursor"}, "`next_cursor` of the page before; not with `offset`."),
    parameter("limit", _INTEGER | {"minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}, "Jobs on a page."),
    parameter(
        "offset", _INTEGER | {"minimum": 0}, "Jobs to skip.  A cursor is faster, and exact while jobs come and go."
    ),
]
LAG: Final = {
    LAG_HEADER: {
        "description": "Only there when the newest changes of that many milliseconds may be missing.",
        "schema": {"type": "integer", "minimum": 1},
        "required": False,
    }
}


@router.get(
    "/jobs",
    summary="Search jobs",
    responses=answers({200: (shapes.JobPage, "One page.")}, 400, 503, headers=LAG),
    openapi_extra=takes(query=_PARAMETERS),
)
async def search_jobs(request: Request) -> Response:
    """Search jobs; filters combine with AND.  Sorted by `created_at` descending, then by `id` ascending."""
    api = api_of(request)
    given = read_query(request, _READERS)
    if "cursor" in given and "offset" in given:
        raise Invalid.field("offset", "give a cursor or an offset, not both")
    search = api.store.search
    lag_ms = await search.barrier(api.settings.search_wait_s)
    limit = given.get("limit", DEFAULT_LIMIT)
    page = await search.page(_query(given), limit, given.get("cursor"), given.get("offset", 0))
    cursor = encode_cursor(page.items[-1]) if page.has_more else None
    response = show_jobs(page.items, next_cursor=cursor, has_more=page.has_more)
    if lag_ms:
        response.headers[LAG_HEADER] = str(lag_ms)
    return response


def _query(given: dict[str, Any]) -> Query:
    names = {"created_after": "created_from_ms", "created_before": "created_before_ms"}
    filters = {
        names.get(name, name): value for name, value in given.items() if name not in ("cursor", "limit", "offset")
    }
    if "status" in filters:
        filters["statuses"] = (filters.pop("status"),)
    return Query(**filters)
