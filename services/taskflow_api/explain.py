"""GET /api/v1/jobs/{job_id}/explain: why a job is where it is, and what would have to happen."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import shapes
from taskflow_api.context import Api, api_of, find_job, job_id_of
from taskflow_api.describe import JOB_ID, answers, takes
from taskflow_api.paths import JOB, PREFIX
from taskflow_api.present import answer
from taskflow_api.roster import is_draining, is_online, takes_from
from taskflow_domain import UNSUCCESSFUL, JobStatus, iso_of_ms
from taskflow_streams import JobRecord, Partition, WorkerRecord

router = APIRouter(prefix=PREFIX, tags=["jobs"])


@dataclass(frozen=True, slots=True)
class Reason:
    """One cause, for programs and for people."""

    code: str
    message: str
    jobs: tuple[str, ...] = ()


@router.get(
    f"{JOB}/explain",
    summary="Why is it not running?",
    responses=answers({200: (shapes.Explanation, "Why the job is where it is.")}, 400, 404, 503),
    openapi_extra=takes(path=[JOB_ID]),
)
async def explain_job(request: Request) -> Response:
    """Why a job is where it is.

    The codes: of a PENDING job `WAITING_FOR_DEPENDENCIES`; of a READY one `DELAYED`, `QUEUE_PAUSED`, `NO_HANDLER`,
    `NO_WORKER_FOR_QUEUE`, `QUEUE_AT_LIMIT`, `WAITING_FOR_SLOT`; of a RUNNING one `RUNNING`, `BEING_CANCELED`; of an
    ended one `COMPLETED`, `FAILED`, `DEPENDENCY_FAILED`, `CANCELED`, `EXPIRED`.
    """
    api = api_of(request)
    job = await find_job(api.store, job_id_of(request))
    reasons = await _reasons(api, job)
    return answer({"id": job.id, "status": job.status, "message": reasons[0].message, "reasons": reasons})


async def _reasons(api: Api, job: JobRecord) -> Sequence[Reason]:
    home = api.store.partition(job.id)
    match job.status:
        case JobStatus.PENDING:
            return [await _waits(api, job)]
        case JobStatus.READY if home is not None:
            return await _ready(api, job, home)
        case JobStatus.RUNNING:
            return [_runs(job)]
        case _:
            return [await _ended(api, job)]


async def _waits(api: Api, job: JobRecord) -> Reason:
    records = await api.store.get(job.spec.dependencies)
    open_ = tuple(found.id for found in records if found is not None and found.status is not JobStatus.COMPLETED)
    if not open_:
        return Reason(
            "WAITING_FOR_DEPENDENCIES", "All that it waited for is done; the scheduler is about to release it."
        )
    return Reason("WAITING_FOR_DEPENDENCIES", f"It waits for {_count(open_, 'job')}.", open_)


async def _ready(api: Api, job: JobRecord, home: Partition) -> Sequence[Reason]:
    """All that holds it back, what must change first at the head."""
    now_ms = await api.store.now_ms()
    found: list[Reason] = []
    if job.due_ms is not None and job.due_ms > now_ms:
        why = f"after attempt {job.attempt} failed" if job.attempt and job.failure else "as was asked"
        found.append(Reason("DELAYED", f"It is not due before {iso_of_ms(job.due_ms)}, {why}."))
    queue = await home.queues.get(job.queue)
    if queue.paused:
        found.append(Reason("QUEUE_PAUSED", f"Queue {job.queue} is paused: {queue.reason or 'no reason was given'}."))
    pools = await home.workers.pools_with(job.handler)
    if not pools:
        found.append(Reason("NO_HANDLER", f"No live worker has {_skill(job)}.  It waits for one."))
    elif (able := await _who_takes(api, job, home, pools, now_ms)) and all(is_draining(worker) for worker in able):
        who = f"All live workers with {_skill(job)} that take jobs from queue {job.queue}"
        found.append(Reason("NO_WORKER_FOR_QUEUE", f"{who} are draining: start another, or resume one."))
    elif not able:
        who = f"No live worker with {_skill(job)}"
        found.append(Reason("NO_WORKER_FOR_QUEUE", f"{who} takes jobs from queue {job.queue}."))
    if queue.max_concurrent is not None and queue.running >= queue.max_concurrent:
        limit = f"{queue.running} of {queue.max_concurrent} jobs run"
        found.append(Reason("QUEUE_AT_LIMIT", f"Queue {job.queue} is at its limit: {limit}."))
    return found or [
        Reason("WAITING_FOR_SLOT", f"It waits for a free slot; {queue.waiting} wait in queue {job.queue}.")
    ]


async def _who_takes(api: Api, job: JobRecord, home: Partition, pools: set[str], now_ms: int) -> Sequence[WorkerRecord]:
    silence_ms = int(api.settings.visibility_timeout_s * 1000)
    return [
        worker
        for worker in await home.workers.list()
        if worker.fields.get("pool") in pools
        and takes_from(worker, job.queue)
        and is_online(worker, now_ms, silence_ms)
    ]


def _skill(job: JobRecord) -> str:
    name = job.handler
    return f"the executor {name[1:]}" if name.startswith("@") else f"a handler called '{name}'"


def _runs(job: JobRecord) -> Reason:
    where = f"on {job.worker} since {iso_of_ms(job.started_ms or job.updated_ms)}, attempt {job.attempt}"
    if job.canceling:
        return Reason("BEING_CANCELED", f"It is being cancelled; it runs {where}, until its worker has stopped it.")
    return Reason("RUNNING", f"It runs {where}.")


async def _ended(api: Api, job: JobRecord) -> Reason:
    match job.status:
        case JobStatus.BLOCKED:
            records = await api.store.get(job.spec.dependencies)
            failed = tuple(found.id for found in records if found is not None and found.status in UNSUCCESSFUL)
            return Reason(
                "DEPENDENCY_FAILED", f"It can never run: {_count(failed, 'dependency')} did not complete.", failed
            )
        case JobStatus.FAILED:
            why = f"{job.failure.kind}: {job.failure.message}" if job.failure else "unknown"
            return Reason("FAILED", f"It failed after {job.attempt} of {job.retry.max_attempts} attempts.  {why}")
        case JobStatus.EXPIRED:
            return Reason("EXPIRED", "It had not started when its time was over.")
        case _:
            return Reason(job.status, f"It is {job.status}.")


def _count(jobs: Sequence[str], noun: str) -> str:
    many = {"job": "jobs", "dependency": "dependencies"}
    return f"{len(jobs)} {noun if len(jobs) == 1 else many[noun]}"
