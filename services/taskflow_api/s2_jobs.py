"""GET /jobs/{job_id} and POST /jobs/{job_id}/cancel: one job, with all that it printed."""

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import s2_shapes
from taskflow_api.context import api_of, find_job, job_id_of, path_job_id
from taskflow_api.describe import JOB_ID, answers, parameter, takes
from taskflow_api.errors import Conflict, NotFound
from taskflow_api.logs import DEFAULT_LIMIT, LOG_ID_SCHEMA, MAX_LIMIT, START, last_output, log_id, read_page
from taskflow_api.paths import JOB
from taskflow_api.present import answer
from taskflow_api.query import Reader, integer, read_query
from taskflow_api.s2_present import STATUS_WORDS, lease_of, listed
from taskflow_api.s2_schedules import cancel_schedule, schedule_columns
from taskflow_streams import Canceled

router = APIRouter(tags=["submissions"])

_READERS: Final[dict[str, Reader]] = {"logs_after": log_id, "logs_limit": integer(1, MAX_LIMIT)}
_PARAMETERS: Final = [
    parameter("logs_after", LOG_ID_SCHEMA, "`next` of the logs before; the page begins after it."),
    parameter(
        "logs_limit",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
        "Pieces of output on a page.",
    ),
]


@router.get(
    JOB,
    summary="Get a submitted job",
    responses=answers({200: (s2_shapes.SubmittedJob, "The job.")}, 400, 404, 503),
    openapi_extra=takes(path=[JOB_ID], query=_PARAMETERS),
)
async def get_submitted_job(request: Request) -> Response:
    """The job as it is now, what its last attempt printed, and a page of the logs of all its attempts.

    Jobs of every door are found here.  `lease` says who runs it, and until when unless the lease is renewed.  A
    schedule is shown as a job that is `queued`, with its next time in `scheduled_at`.
    """
    api = api_of(request)
    given = read_query(request, _READERS)
    job_id = path_job_id(request)
    job = (await api.store.get([job_id]))[0]
    if job is None and (schedule := (await api.store.schedules.get([job_id]))[0]):
        return answer(schedule_columns(schedule))
    if job is None:
        raise NotFound(f"There is no job {job_id}.")
    home = api.store.partition(job.id)
    if home is None:
        raise NotFound(f"There is no job {job.id}.")
    output = await last_output(home, job)
    page = await read_page(home, job, given.get("logs_after", START), given.get("logs_limit", DEFAULT_LIMIT))
    visibility_ms = int(api.settings.visibility_timeout_s * 1000)
    [columns] = await listed(api.store, [job])
    return answer(columns | output | {"lease": await lease_of(job, home, visibility_ms), "logs": page})


@router.post(
    f"{JOB}/cancel",
    summary="Cancel a submitted job",
    responses=answers({200: (s2_shapes.JobState, "Its state.")}, 400, 404, 409, 503),
    openapi_extra=takes(path=[JOB_ID]),
)
async def cancel_submitted_job(request: Request) -> Response:
    """Cancel a job: at once if it has not started.  One that runs is `running` until its attempt was stopped.

    A schedule starts no more jobs; those that it has started go on.
    """
    store, job_id = api_of(request).store, job_id_of(request)
    word = await store.cancel(job_id)
    if word is Canceled.MISSING and (await store.schedules.get([job_id]))[0]:
        await cancel_schedule(store, job_id)
        return answer({"id": job_id, "status": "canceled"})
    job = await find_job(store, job_id)
    if word is Canceled.ENDED:
        raise Conflict(f"Job {job_id} has ended: it has {_ending(STATUS_WORDS[job.status])}.")
    return answer({"id": job_id, "status": STATUS_WORDS[job.status]})


def _ending(word: str) -> str:
    return f"been {word}" if word == "canceled" else word
