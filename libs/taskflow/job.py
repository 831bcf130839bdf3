"""A job as a client sees it, the same over Redis and over HTTP, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from taskflow_domain import TERMINAL, JobStatus, datetime_of_ms, ms_of_iso, priority_of_order
from taskflow_streams import JobRecord


@dataclass(frozen=True, slots=True)
class JobError:
    """Why the last attempt failed."""

    kind: str  # the exception's class, or a word such as TimedOut or LeaseLost
    message: str
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the attempt is, as its handler says."""

    fraction: float
    note: str | None = None


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A piece of output.  `str()` is its text."""

    id: str
    stream: str  # stdout, stderr, or system: what the worker has to say
    attempt: int
    at: datetime
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Job:
    """A job at one moment."""

    id: str
    name: str
    queue: str
    status: JobStatus
    priority: int
    payload: Any
    dependencies: tuple[str, ...]
    type: str
    task: str | None
    attempt: int  # attempts started
    worker: str | None
    owner: str | None
    timeout_s: float | None
    created_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    result: Any
    error: JobError | None
    progress: Progress | None

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status in TERMINAL


def of_record(record: JobRecord) -> Job:
    """A job as the engine knows it."""
    failure, spec = record.failure, record.spec
    return Job(
        id=record.id,
        name=spec.name,
        queue=record.queue,
        status=record.status,
        priority=priority_of_order(record.order),
        payload=json.loads(spec.payload),
        dependencies=spec.dependencies,
        type=spec.type,
        task=spec.task,
        attempt=record.attempt,
        worker=record.worker,
        owner=record.owner,
        timeout_s=None if record.timeout_ms is None else record.timeout_ms / 1000,
        created_at=datetime_of_ms(record.created_ms),
        scheduled_at=_time(record.due_ms),
        started_at=_time(record.started_ms),
        finished_at=_time(record.finished_ms),
        expires_at=_time(record.expires_ms),
        result=None if record.value is None else json.loads(record.value),
        error=JobError(failure.kind, failure.message, failure.traceback) if failure else None,
        progress=None if record.progress is None else Progress(record.progress, record.progress_note),
    )


def of_json(shown: Mapping[str, Any]) -> Job:
    """A job as the api shows it."""
    error, progress = shown["error"], shown["progress"]
    times = ("created_at", "scheduled_at", "started_at", "finished_at", "expires_at")
    same = ("id", "name", "queue", "priority", "payload", "type", "task", "worker", "owner", "timeout_s", "result")
    return Job(
        status=JobStatus(shown["status"]),
        dependencies=tuple(shown["dependencies"]),
        attempt=shown["attempt_count"],
        error=error and JobError(error["class"], error["message"], error["traceback"]),
        progress=progress and Progress(progress["fraction"], progress["message"]),
        **{name: _time(ms_of_iso(shown[name]) if shown[name] else None) for name in times},  # type: ignore[arg-type]
        **{name: shown[name] for name in same},
    )


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else datetime_of_ms(ms)
