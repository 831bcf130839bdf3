"""POST /api/v1/jobs: create one job."""

from dataclasses import replace

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import shapes
from taskflow_api.bodies import CreateJob
from taskflow_api.body import validate
from taskflow_api.build import new_job
from taskflow_api.context import api_of
from taskflow_api.describe import IDEMPOTENCY_HEADER, answers, takes
from taskflow_api.errors import Invalid
from taskflow_api.parse import read_object
from taskflow_api.paths import PREFIX
from taskflow_api.present import show_job
from taskflow_api.query import read_query
from taskflow_api.submit import Keyed, existing, fingerprint, given_key, submit, tie, untie
from taskflow_streams import UnknownDependency

router = APIRouter(prefix=PREFIX, tags=["jobs"])


@router.post(
    "/jobs",
    status_code=201,
    summary="Create a job",
    responses=answers(
        {201: (shapes.Job, "The new job."), 200: (shapes.Job, "The job that this key has created before.")},
        400, 409, 413, 503,
    ),
    openapi_extra=takes(CreateJob, headers=[IDEMPOTENCY_HEADER]),
)  # fmt: skip
async def create_job(request: Request) -> Response:
    """Create a job.

    It is READY, or PENDING while it has dependencies to wait for, or BLOCKED if one of them has failed already.
    """
    api = api_of(request)
    read_query(request, {})
    raw = await read_object(request, api.settings.body_limit_bytes)
    body = validate(CreateJob, raw)
    key = given_key(request, body.idempotency_key)
    store = api.store
    await api.headroom.check(store)

    job = new_job(
        body,
        store.new_id(body.dependencies),
        body.dependencies,
        has_key=key is not None,
        denylist=api.settings.denylist_cmds,
    )
    keyed = Keyed(key, fingerprint(raw), "idempotency_key") if key is not None else None
    [job_id] = await tie(store, [job.id], [keyed])
    if job_id != job.id:
        if known := await existing(store, [job_id]):
            return show_job(known[0])
        job = replace(job, id=job_id)
    try:
        [record], created = await submit(store, [job])
    except UnknownDependency as error:
        await untie(store, [job_id], [keyed])
        place = body.dependencies.index(error.dependency)
        raise Invalid.field(f"dependencies[{place}]", f"there is no job {error.dependency}") from None
    return show_job(record, 201 if created else 200)
