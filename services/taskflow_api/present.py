"""Jobs as the api shows them.  Payload and result go out as the JSON text they are stored as."""

import json
from collections.abc import Iterable
from typing import Any

import orjson
from starlette.responses import Response

from taskflow_api.paths import PREFIX
from taskflow_domain import iso_of_ms, priority_of_order
from taskflow_streams import JobRecord


def job_fields(job: JobRecord) -> dict[str, Any]:
    """All that is shown of a job."""
    spec, retry, failure = job.spec, job.retry, job.failure
    return {
        "id": job.id,
        "name": spec.name,
        "queue": job.queue,
        "payload": orjson.Fragment(spec.payload),
        "priority": priority_of_order(job.order),
        "status": job.status,
        "dependencies": spec.dependencies,
        "retry_policy": {
            "max_attempts": retry.max_attempts,
            "backoff_strategy": retry.backoff_strategy,
            "base_delay_seconds": retry.base_delay_seconds,
            "max_delay_seconds": retry.max_delay_seconds,
            **({"jitter": retry.jitter} if retry.jitter else {}),
        },
        "created_at": iso_of_ms(job.created_ms),
        "updated_at": iso_of_ms(job.updated_ms),
        "attempt_count": job.attempt,
        "type": spec.type,
        "task": spec.task,
        "owner": job.owner,
        "timeout_s": None if job.timeout_ms is None else job.timeout_ms / 1000,
        "scheduled_at": iso(job.due_ms),
        "expires_at": iso(job.expires_ms),
        "started_at": iso(job.started_ms),
        "finished_at": iso(job.finished_ms),
        "result": None if job.value is None else orjson.Fragment(job.value),
        "error": failure and {"class": failure.kind, "message": failure.message, "traceback": failure.traceback},
        "progress": None if job.progress is None else {"fraction": job.progress, "message": job.progress_note},
        "run_id": job.run_id,
        "retry_of": job.retry_of,
        "schedule_id": job.schedule_id,
        "worker": job.worker,
    }


def iso(ms: int | None) -> str | None:
    """A time, if there is one."""
    return None if ms is None else iso_of_ms(ms)


def compact(value: object) -> bytes:
    """JSON in few bytes, with integers of any length."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def answer(body: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(orjson.dumps(body), status, headers, "application/json")


def show_job(job: JobRecord, status: int = 200) -> Response:
    """The response that is one job; a new one says where it is found."""
    headers = {"Location": f"{PREFIX}/jobs/{job.id}"} if status == 201 else None
    return answer(job_fields(job), status, headers)


def show_jobs(jobs: Iterable[JobRecord], status: int = 200, **more: object) -> Response:
    """The response that is a list of jobs."""
    return answer({"items": [job_fields(job) for job in jobs], **more}, status)
