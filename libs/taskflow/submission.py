"""A job as a client asks for it, and the checks it passes on its way to the engine."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any

from taskflow.tasks import DEFAULT_QUEUE, Registry
from taskflow_domain import (
    DEFAULT_PRIORITY,
    MAX_DEPENDENCIES,
    MAX_PRIORITY,
    MIN_PRIORITY,
    NAME_MAX_CHARS,
    RetryPolicy,
    ms_of_datetime,
    order_of_priority,
    payload_bytes,
)
from taskflow_streams import NewJob

QUEUE_NAME = re.compile(r"[a-zA-Z0-9_]{1,64}")
EMPTY_PAYLOAD = b"{}"
DEFAULT_RETRY = RetryPolicy()
SHORTEST_S = 0.001
LONGEST_S = 100 * 366 * 86_400  # beyond any plan; larger numbers are mistakes


@dataclass(slots=True)
class Submission:
    """A job to enqueue.  What is None is the task's own option, or the default."""

    task: str | Callable[..., Any]  # a function registered with @task, or a name that some worker knows
    payload: Any = field(default_factory=dict)
    name: str | None = None  # for people; by default the task's
    queue: str | None = None
    priority: int = DEFAULT_PRIORITY  # 10 is the most urgent, 1 the least
    after: Sequence[str] = ()  # ids of jobs that must be COMPLETED first
    delay_s: float | None = None
    scheduled_at: datetime | None = None
    ttl_s: float | None = None  # EXPIRED if it has not started by then
    timeout_s: float | None = None
    retry_policy: RetryPolicy | None = None
    owner: str | None = None
    idempotency_key: str | None = None


def new_job(submission: Submission, job_id: str, tasks: Registry) -> NewJob:
    """The job as the engine takes it.  Raises ValueError for what is out of bounds."""
    task = tasks.find(submission.task)
    handler = task.name if task else submission.task
    if not isinstance(handler, str):
        raise ValueError(f"{handler!r} is not registered as a task; decorate it with @task, or give a name")
    name = submission.name or handler
    queue = submission.queue or (task.queue if task else DEFAULT_QUEUE)
    timeout_s = submission.timeout_s if submission.timeout_s is not None or task is None else task.timeout_s
    retry = submission.retry_policy or (task.retry_policy if task else None)
    _check_name(handler)
    _check_name(name)
    _check_queue(queue)
    _check_limits(submission)
    return NewJob(
        id=job_id,
        name=name,
        queue=queue,
        handler=handler,
        payload=payload_bytes(submission.payload) if submission.payload != {} else EMPTY_PAYLOAD,
        order=order_of_priority(submission.priority),
        task=None if name == handler else handler,
        dependencies=tuple(submission.after),
        retry=retry or DEFAULT_RETRY,
        timeout_ms=_ms(timeout_s),
        due_ms=ms_of_datetime(submission.scheduled_at) if submission.scheduled_at else None,
        delay_ms=_ms(submission.delay_s),
        ttl_ms=_ms(submission.ttl_s),
        owner=submission.owner,
        has_key=submission.idempotency_key is not None,
    )


def fingerprint(job: NewJob) -> str:
    """The same for two submissions of the same content, whatever their ids."""
    content = (job.name, job.queue, job.handler, job.payload, job.order, job.dependencies, job.retry, job.timeout_ms)
    times = (job.due_ms, job.delay_ms, job.ttl_ms, job.owner)
    return sha256(repr((content, times)).encode()).hexdigest()


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)


@lru_cache(maxsize=1024)
def _check_name(name: str) -> None:
    if not 1 <= len(name) <= NAME_MAX_CHARS or "\0" in name:
        raise ValueError(f"a job's name has 1 to {NAME_MAX_CHARS} characters, none of them NUL")


@lru_cache(maxsize=1024)
def _check_queue(queue: str) -> None:
    if QUEUE_NAME.fullmatch(queue) is None:
        raise ValueError(f"a queue's name is 1 to 64 letters, digits and underscores, not {queue!r}")


def _check_limits(submission: Submission) -> None:
    if not MIN_PRIORITY <= submission.priority <= MAX_PRIORITY:
        raise ValueError(f"priority is from {MIN_PRIORITY} to {MAX_PRIORITY}, not {submission.priority}")
    if len(submission.after) > MAX_DEPENDENCIES:
        raise ValueError(f"a job may wait for {MAX_DEPENDENCIES} others, not {len(submission.after)}")
    if submission.delay_s is not None and submission.scheduled_at is not None:
        raise ValueError("a job has a delay_s or a scheduled_at, not both")
    _check_seconds("delay_s", submission.delay_s, 0)
    _check_seconds("ttl_s", submission.ttl_s, SHORTEST_S)
    _check_seconds("timeout_s", submission.timeout_s, SHORTEST_S)


def _check_seconds(name: str, seconds: float | None, least: float) -> None:
    if seconds is not None and not least <= seconds <= LONGEST_S:
        raise ValueError(f"{name} is a number of seconds from {least:g} to {LONGEST_S:,}, not {seconds!r}")
