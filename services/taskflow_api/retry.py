"""POST /api/v1/jobs/{job_id}/retry: an ended job stays what it is; a new one is tried in its place."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import shapes
from taskflow_api.bodies import RetryJob
from taskflow_api.body import validate
from taskflow_api.context import api_of, find_job, job_id_of
from taskflow_api.describe import IDEMPOTENCY_HEADER, JOB_ID, answers, takes
from taskflow_api.errors import Conflict
from taskflow_api.fields import ms
from taskflow_api.parse import read_any_object
from taskflow_api.paths import JOB, PREFIX
from taskflow_api.present import show_job
from taskflow_api.submit import Keyed, existing, fingerprint, header_key, submit, tie
from taskflow_domain import TERMINAL
from taskflow_streams import JobRecord, NewJob, Store, UnknownDependency

router = APIRouter(prefix=PREFIX, tags=["jobs"])


@router.post(
    f"{JOB}/retry",
    status_code=201,
    summary="Run an ended job again, as a new one",
    responses=answers(
        {201: (shapes.Job, "The new job."), 200: (shapes.Job, "The job that this key has created before.")},
        400, 404, 409, 413, 503,
    ),
    openapi_extra=takes(RetryJob, path=[JOB_ID], headers=[IDEMPOTENCY_HEADER], is_required=False),
)  # fmt: skip
async def retry_job(request: Request) -> Response:
    """Create a job like one that has ended, however it ended, and linked to it by `retry_of`.

    It has the same dependencies as far as they exist, and none of the old times: it runs now, or as the body says.
    One that never ran because a dependency failed is BLOCKED again: retry that dependency first, and create a job
    that names the new one.
    """
    api, job_id, key = api_of(request), job_id_of(request), header_key(request)
    raw = await read_any_object(request, api.settings.body_limit_bytes)
    times = validate(RetryJob, raw)
    store = api.store
    old = await find_job(store, job_id)
    if old.status not in TERMINAL:
        raise Conflict(f"Job {job_id} has not ended: it is {old.status}.")
    await api.headroom.check(store)
    dependencies = await _dependencies_left(store, old)
    fresh = store.new_id(dependencies or [old.id])
    keyed = Keyed(key, f"retry:{old.id}:{fingerprint(raw)}", "Idempotency-Key") if key is not None else None
    [new_id] = await tie(store, [fresh], [keyed])
    if new_id != fresh and (known := await existing(store, [new_id])):
        return show_job(known[0])
    try:
        [record], created = await submit(store, [_again(old, times, new_id, dependencies, has_key=key is not None)])
    except UnknownDependency as error:
        raise Conflict(f"Its dependency {error.dependency} was just removed; try again.") from None
    return show_job(record, 201 if created else 200)


async def _dependencies_left(store: Store, old: JobRecord) -> tuple[str, ...]:
    named = old.spec.dependencies
    left = tuple(job_id for job_id, there in zip(named, await store.exist(named), strict=True) if there)
    if len(left) < len(named) and not old.attempt:  # a job that has run had all it needed
        gone = next(job_id for job_id in named if job_id not in left)
        raise Conflict(f"Job {old.id} never ran, and its dependency {gone} does not exist any more.")
    return left


def _again(old: JobRecord, times: RetryJob, new_id: str, dependencies: tuple[str, ...], *, has_key: bool) -> NewJob:
    spec = old.spec
    return NewJob(
        id=new_id,
        name=spec.name,
        queue=old.queue,
        handler=old.handler,
        payload=spec.payload,
        order=old.order,
        type=spec.type,
        task=spec.task,
        dependencies=dependencies,
        retry=old.retry,
        timeout_ms=old.timeout_ms,
        due_ms=times.scheduled_at,
        delay_ms=ms(times.delay_s),
        expires_ms=times.expires_at,
        ttl_ms=ms(times.ttl_s),
        owner=old.owner,
        retry_of=old.id,
        has_key=has_key,
    )
