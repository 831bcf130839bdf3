"""One job: get, delete, cancel."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import shapes
from taskflow_api.context import api_of, find_job, job_id_of, no_job
from taskflow_api.describe import JOB_ID, answers, takes
from taskflow_api.errors import Conflict
from taskflow_api.paths import JOB, PREFIX
from taskflow_api.present import show_job
from taskflow_streams import Canceled, Deleted

router = APIRouter(prefix=PREFIX, tags=["jobs"])
_takes_id = takes(path=[JOB_ID])


@router.get(
    JOB,
    summary="Get a job",
    responses=answers({200: (shapes.Job, "The job.")}, 400, 404, 503),
    openapi_extra=_takes_id,
)
async def get_job(request: Request) -> Response:
    """The job as it is now."""
    return show_job(await find_job(api_of(request).store, job_id_of(request)))


@router.delete(
    JOB,
    status_code=204,
    summary="Delete a job",
    responses=answers({204: (None, "It is gone.")}, 400, 404, 409, 503),
    openapi_extra=_takes_id,
)
async def delete_job(request: Request) -> Response:
    """Delete a job at once, unless another job, even one that has ended, names it as a dependency.

    The attempt of a running job is killed, and whatever it reports afterwards is ignored.
    """
    store, job_id = api_of(request).store, job_id_of(request)
    match await store.delete(job_id):
        case Deleted.DELETED:
            return Response(status_code=204)
        case Deleted.NAMED:
            raise Conflict(f"Other jobs name job {job_id} as a dependency.")
        case Deleted.RUN:
            raise Conflict(f"Job {job_id} belongs to a run.")
        case Deleted.MISSING:
            raise await no_job(store, job_id)


@router.post(
    f"{JOB}/cancel",
    summary="Cancel a job",
    responses=answers({200: (shapes.Job, "The job.")}, 400, 404, 409, 503),
    openapi_extra=_takes_id,
)
async def cancel_job(request: Request) -> Response:
    """Cancel a job: at once if it has not started.  One that runs stays RUNNING until its attempt was stopped."""
    store, job_id = api_of(request).store, job_id_of(request)
    word = await store.cancel(job_id)
    record = await find_job(store, job_id)
    if word is Canceled.ENDED:
        raise Conflict(f"Job {job_id} has ended: it is {record.status}.")
    return show_job(record)
