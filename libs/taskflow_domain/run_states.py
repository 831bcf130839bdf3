"""Where a run and its tasks can stand, in the words of those who look at them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from taskflow_domain.states import JobStatus


class RunStatus(StrEnum):
    """Of a run."""

    PENDING = "pending"  # no scheduler has seen it yet
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskStatus(StrEnum):
    """Of a task, and of one of its instances (which alone can be dispatched)."""

    PENDING = "pending"
    DISPATCHED = "dispatched"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


ENDED_RUNS: Final = frozenset({RunStatus.SUCCESS, RunStatus.FAILED, RunStatus.CANCELLED})
ENDED_TASKS: Final = frozenset({TaskStatus.SUCCESS, TaskStatus.FAILED, TaskStatus.SKIPPED, TaskStatus.CANCELLED})

STATUS_OF_JOB: Final = {
    JobStatus.PENDING: TaskStatus.PENDING,
    JobStatus.READY: TaskStatus.DISPATCHED,
    JobStatus.RUNNING: TaskStatus.RUNNING,
    JobStatus.COMPLETED: TaskStatus.SUCCESS,
    JobStatus.FAILED: TaskStatus.FAILED,
    JobStatus.EXPIRED: TaskStatus.FAILED,
    JobStatus.BLOCKED: TaskStatus.SKIPPED,
    JobStatus.CANCELED: TaskStatus.CANCELLED,
}
