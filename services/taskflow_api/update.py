"""PUT /api/v1/jobs/{job_id}: change what may still be changed.

The change is computed from a record and applied only if that is still the record; else it is computed again.
"""

from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import shapes
from taskflow_api.bodies import UpdateJob
from taskflow_api.change import Wanted, difference, moves, wanted_state
from taskflow_api.context import api_of, find_job, job_id_of
from taskflow_api.describe import JOB_ID, answers, takes
from taskflow_api.errors import Conflict, Detail, Invalid, NotFound
from taskflow_api.parse import read_object
from taskflow_api.paths import JOB, PREFIX
from taskflow_api.present import show_job
from taskflow_domain import TERMINAL, JobStatus, partition_of
from taskflow_streams import JobRecord, Store, Updated

router = APIRouter(prefix=PREFIX, tags=["jobs"])

TRIES: Final = 10  # each lost race means that somebody else's change went through


@router.put(
    JOB,
    summary="Change a job",
    responses=answers({200: (shapes.Job, "The job as it is now.")}, 400, 404, 409, 413, 503),
    openapi_extra=takes(UpdateJob, path=[JOB_ID]),
)
async def update_job(request: Request) -> Response:
    """Change a job that has not ended.

    Send the fields to change, or the whole job as it was read: what cannot be changed (`id`, `created_at`, `status`,
    `attempt_count`) must then be the same, and what only the server sets is ignored.  A part of a retry policy is
    merged into the one there is.  New dependencies that are not met make a READY job PENDING again.  The queue, the
    dependencies and the due time of a RUNNING job cannot be changed; the rest is for its next attempt.
    """
    api, job_id = api_of(request), job_id_of(request)
    store = api.store
    body = await read_object(request, api.settings.body_limit_bytes)
    for _ in range(TRIES):
        record = await find_job(store, job_id)
        if await _apply(store, record, body, api.settings.denylist_cmds):
            return show_job(await find_job(store, job_id))
    raise Conflict(f"Job {job_id} is being changed by others; try again.")


async def _apply(store: Store, job: JobRecord, body: dict[str, Any], denylist: Sequence[str]) -> bool:
    """Apply the change; False if the job, or what it depends on, changed meanwhile."""
    relative = not body.keys().isdisjoint({"delay_s", "ttl_s"})
    wanted = wanted_state(job, body, await store.now_ms() if relative else 0, denylist)
    graph_version = await _refuse_cycle(store, job, wanted) if moves(job, wanted) else 0
    if job.status in TERMINAL:
        raise _ended(job)
    if moves(job, wanted):
        await _check_new(store, job, wanted.dependencies)
    change = difference(job, wanted)
    if change is None:
        return True
    if job.status is JobStatus.RUNNING:
        _refuse_while_running(job, wanted)
    word, unknown = await store.update(job.id, job.version, change, graph_version)
    match word:
        case Updated.OK:
            return True
        case Updated.UNKNOWN:
            raise Invalid.of(_unknown(wanted.dependencies, [unknown]))
        case Updated.MISSING:
            raise NotFound(f"There is no job {job.id}.")
        case Updated.CHANGED | Updated.ENDED | Updated.RUNNING:
            return False  # read again: the next look tells why it cannot be, or how it can


async def _refuse_cycle(store: Store, job: JobRecord, wanted: Wanted) -> int:
    cycle, graph_version = await store.find_cycle(job.id, wanted.dependencies)
    if cycle:
        path = " → ".join([*cycle, cycle[0]])
        raise Conflict(f"These jobs would wait for one another: {path}.", [Detail("dependencies", f"cycle: {path}")])
    return graph_version


async def _check_new(store: Store, job: JobRecord, dependencies: Sequence[str]) -> None:
    new = [job_id for job_id in dependencies if job_id not in job.spec.dependencies]
    there = dict(zip(new, await store.exist(new), strict=True))
    missing = [job_id for job_id in new if not there[job_id]]
    if missing:
        raise Invalid.of(_unknown(dependencies, missing))
    for job_id in new:
        if partition_of(job_id) != partition_of(job.id):
            raise Conflict(f"Job {job_id} lives in another partition; only a new job can depend on it.")


def _refuse_while_running(job: JobRecord, wanted: Wanted) -> None:
    for field, changes in (
        ("queue", wanted.queue != job.queue),
        ("dependencies", moves(job, wanted)),
        ("scheduled_at", wanted.due_ms != job.due_ms),
    ):
        if changes:
            raise Conflict(f"Job {job.id} is RUNNING; its {field} cannot be changed now.")


def _ended(job: JobRecord) -> Conflict:
    return Conflict(f"Job {job.id} has ended: it is {job.status}.")


def _unknown(dependencies: Sequence[str], missing: Sequence[str]) -> list[Detail]:
    places = list(dependencies)
    return [Detail(f"dependencies[{places.index(job_id)}]", f"there is no job {job_id}") for job_id in missing]
