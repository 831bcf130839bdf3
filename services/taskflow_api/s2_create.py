"""POST /jobs: hand in a job, flat: its type, the fields of its executor, and what every job may say."""

from dataclasses import replace

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import s2_shapes
from taskflow_api.context import api_of
from taskflow_api.describe import IDEMPOTENCY_HEADER, answers, takes
from taskflow_api.parse import read_object
from taskflow_api.present import answer
from taskflow_api.query import read_query
from taskflow_api.s2_bodies import SubmitJob
from taskflow_api.s2_build import new_job, pack_fields, read_submission
from taskflow_api.s2_schedules import make_of_job
from taskflow_api.submit import Keyed, existing, fingerprint, given_key, submit, tie

router = APIRouter(tags=["submissions"])


@router.post(
    "/jobs",
    status_code=201,
    summary="Submit a job",
    responses=answers(
        {
            201: (s2_shapes.JobRef, "The new job's id."),
            200: (s2_shapes.JobRef, "The id of the job that this key has created before."),
        },
        400, 409, 413, 503,
    ),
    openapi_extra=takes(SubmitJob, headers=[IDEMPOTENCY_HEADER]),
)  # fmt: skip
async def submit_job(request: Request) -> Response:
    """Submit a shell command, a Python function, or a job for any other executor that the workers have.

    The executor's fields stand beside those that every job has, and come back as its `payload`.  A failed attempt is
    repeated up to `retries_max` times, after a second, then two, four and so on up to 300, each shortened at random
    by up to a half.  A command that the setting DENYLIST_CMDS forbids is refused.

    With `schedule_cron` it is a schedule that is made.  Its id stands for a job that is `queued` for the next time;
    the jobs that it starts have ids of their own, and its `schedule_cron`.
    """
    api = api_of(request)
    read_query(request, {})
    raw = await read_object(request, api.settings.body_limit_bytes)
    body, type_, fields = read_submission(raw, api.settings.denylist_cmds)
    payload = pack_fields(fields)
    key = given_key(request, body.idempotency_key)
    keyed = Keyed(key, fingerprint(raw), "idempotency_key") if key is not None else None
    if body.schedule_cron is not None:
        schedule, is_new = await make_of_job(api, body, type_, fields, payload, raw, keyed)
        return _ref(schedule.id, 201 if is_new else 200, schedule_id=schedule.id)
    store = api.store
    await api.headroom.check(store)

    job = new_job(
        body, type_, fields, payload, store.new_id(),
        retries_max=api.settings.retry_max_default, has_key=key is not None,
    )  # fmt: skip
    [job_id] = await tie(store, [job.id], [keyed])
    if job_id != job.id:
        if await existing(store, [job_id]):
            return _ref(job_id, 200)
        job = replace(job, id=job_id)
    _, created = await submit(store, [job])
    return _ref(job_id, 201 if created else 200)


def _ref(job_id: str, status: int, **more: str) -> Response:
    headers = {"Location": f"/jobs/{job_id}"} if status == 201 else None
    return answer({"id": job_id, **more}, status, headers)
