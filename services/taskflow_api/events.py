"""GET /api/v1/jobs/{job_id}/events: what happened to a job."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import shapes
from taskflow_api.context import api_of, find_job, job_id_of
from taskflow_api.describe import JOB_ID, answers, takes
from taskflow_api.paths import JOB, PREFIX
from taskflow_api.present import answer
from taskflow_domain import iso_of_ms, priority_of_order
from taskflow_streams import Event

router = APIRouter(prefix=PREFIX, tags=["jobs"])


@router.get(
    f"{JOB}/events",
    summary="The history of a job",
    responses=answers({200: (shapes.EventList, "Its events, the oldest first.")}, 400, 404, 503),
    openapi_extra=takes(path=[JOB_ID]),
)
async def get_events(request: Request) -> Response:
    """What happened to a job.  Its last 100 events are found, as long as the history is kept."""
    store = api_of(request).store
    job = await find_job(store, job_id_of(request))
    home = store.partition(job.id)
    events = await home.history.pick(job.event_ids) if home is not None else []
    return answer({"items": [_event(event) for event in events]})


def _event(event: Event) -> dict[str, Any]:
    return _more(event) | {
        "id": event.id,
        "type": event.type,
        "at": iso_of_ms(event.at_ms),
        "from": event.from_ or None,
        "to": event.to or None,
        "attempt": event.attempt,
        "worker": event.worker or None,
        "queue": event.queue,
        "priority": priority_of_order(event.order),
    }


def _more(event: Event) -> dict[str, Any]:
    """What this type of event adds, in the words of the api."""
    more = dict(event.more)
    if "due" in more:
        more["due_at"] = iso_of_ms(int(more.pop("due")))
    if "was" in more:
        was = more["was"]
        priority = priority_of_order(int(was["order"]))
        more["was"] = {"queue": was["queue"], "priority": priority, "owner": was.get("owner")}
    return more
