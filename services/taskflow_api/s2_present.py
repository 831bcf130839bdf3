"""Jobs in the words of the second door: its columns, its states, its priorities (lower runs first)."""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from taskflow_api.present import iso
from taskflow_domain import JobStatus, iso_of_ms
from taskflow_streams import JobRecord, Partition, Store

STATUS_WORDS: Final[dict[JobStatus, str]] = {
    JobStatus.PENDING: "queued",
    JobStatus.READY: "queued",
    JobStatus.RUNNING: "running",
    JobStatus.COMPLETED: "succeeded",
    JobStatus.FAILED: "failed",
    JobStatus.BLOCKED: "failed",
    JobStatus.CANCELED: "canceled",
    JobStatus.EXPIRED: "expired",
}
STATUSES: Final[dict[str, tuple[JobStatus, ...]]] = {
    word: tuple(status for status, shown in STATUS_WORDS.items() if shown == word) for word in STATUS_WORDS.values()
}
BLOCKED: Final = "Blocked: a job that it depends on did not succeed"


async def listed(store: Store, jobs: Sequence[JobRecord]) -> list[dict[str, Any]]:
    """All that a list shows of jobs."""
    crons = await store.schedules.crons({job.schedule_id for job in jobs if job.schedule_id is not None})
    return [_columns(job, crons.get(job.schedule_id or "")) for job in jobs]


def _columns(job: JobRecord, cron: str | None) -> dict[str, Any]:
    return {
        "id": job.id,
        "queue": job.queue,
        "type": job.spec.type,
        "payload": orjson.Fragment(job.spec.payload),
        "schedule_cron": cron,
        "priority": job.order,
        "retries_max": job.retry.max_attempts - 1,
        "retries_attempted": max(job.attempt - 1, 0),
        "status": STATUS_WORDS[job.status],
        "created_at": iso_of_ms(job.created_ms),
        "scheduled_at": iso(job.asked_ms),
        "started_at": iso(job.started_ms),
        "finished_at": iso(job.finished_ms),
        "result": None if job.value is None else orjson.Fragment(job.value),
        "error": error_text(job),
        "owner": job.owner,
        "progress": None if job.progress is None else {"fraction": job.progress, "message": job.progress_note},
    }


def error_text(job: JobRecord) -> str | None:
    """Why the last attempt failed, or why there was none."""
    if job.failure is not None:
        return f"{job.failure.kind}: {job.failure.message}" if job.failure.message else job.failure.kind
    return BLOCKED if job.status is JobStatus.BLOCKED else None


async def lease_of(job: JobRecord, home: Partition, visibility_ms: int) -> dict[str, Any] | None:
    """Who holds a job that runs, and until when unless it is renewed."""
    if job.status is not JobStatus.RUNNING or job.worker is None:
        return None
    leased_ms = job.started_ms or job.updated_ms
    renewed_ms = await home.leases.renewed_ms(job.id, job.queue)
    return {
        "worker_id": job.worker,
        "leased_at": iso_of_ms(leased_ms),
        "lease_expires_at": iso_of_ms((renewed_ms or leased_ms) + visibility_ms),
    }
