"""GET /jobs: jobs by state, queue, owner and age, in numbered pages, the newest first."""

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import s2_shapes
from taskflow_api.context import api_of
from taskflow_api.describe import answers, parameter, takes
from taskflow_api.fields import ANY_QUEUE_PATTERN, OWNER_SCHEMA, TIME_SCHEMA, owner_name, time_ms
from taskflow_api.present import answer
from taskflow_api.query import Reader, integer, matching, one_of, read_query
from taskflow_api.s2_present import STATUSES, listed
from taskflow_api.search import LAG, LAG_HEADER
from taskflow_domain import JobStatus
from taskflow_streams import Query

router = APIRouter(tags=["submissions"])

DEFAULT_SIZE: Final = 20
MAX_SIZE: Final = 100
MAX_PAGE: Final = 1_000_000_000


_READERS: Final[dict[str, Reader]] = {
    "status": one_of(tuple(STATUSES)),
    "queue": matching(ANY_QUEUE_PATTERN),
    "owner": owner_name,
    "created_from": time_ms,
    "created_to": time_ms,
    "page": integer(1, MAX_PAGE),
    "page_size": integer(1, MAX_SIZE),
}
_PARAMETERS: Final = [
    parameter("status", {"type": "string", "enum": list(STATUSES)}, "Jobs in this state."),
    parameter("queue", {"type": "string", "pattern": ANY_QUEUE_PATTERN}, "Jobs of this queue."),
    parameter("owner", OWNER_SCHEMA, "Jobs of this owner."),
    parameter("created_from", TIME_SCHEMA, "Created then or later.  Without an offset it is UTC."),
    parameter("created_to", TIME_SCHEMA, "Created then, to the millisecond, or earlier."),
    parameter("page", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 1}, "Which page; 1 is first."),
    parameter(
        "page_size", {"type": "integer", "minimum": 1, "maximum": MAX_SIZE, "default": DEFAULT_SIZE}, "Jobs on a page."
    ),
]


@router.get(
    "/jobs",
    summary="List submitted jobs",
    responses=answers({200: (s2_shapes.NumberedPage, "One page.")}, 400, 503, headers=LAG),
    openapi_extra=takes(query=_PARAMETERS),
)
async def list_submitted_jobs(request: Request) -> Response:
    """List jobs of all doors, the newest first; filters combine with AND.  A page beyond the last one is empty.

    Schedules are not among them, but the jobs that they have started.
    """
    api = api_of(request)
    given = read_query(request, _READERS)
    number, size = given.pop("page", 1), given.pop("page_size", DEFAULT_SIZE)
    search, query = api.store.search, _query(given)
    lag_ms = await search.barrier(api.settings.search_wait_s)
    total = await search.total(query)
    skip = (number - 1) * size
    items = (await search.page(query, size, offset=skip)).items if skip < total else []
    headers = {LAG_HEADER: str(lag_ms)} if lag_ms else None
    page = {"items": await listed(api.store, items), "page": number, "page_size": size, "total": total}
    return answer(page, headers=headers)


def _query(given: dict[str, Any]) -> Query:
    last_ms = given.get("created_to")
    return Query(
        queue=given.get("queue"),
        owner=given.get("owner"),
        created_from_ms=given.get("created_from"),
        created_before_ms=None if last_ms is None else last_ms + 1,
        statuses=STATUSES[given["status"]] if "status" in given else tuple(JobStatus),
    )
