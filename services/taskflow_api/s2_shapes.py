"""The answers of the second door, and of logs, for OpenAPI."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from taskflow_api import examples
from taskflow_api.fields import TYPE_PATTERN
from taskflow_api.shapes import Progress, Queue, Shape, Time, Uuid

Status = Literal["queued", "running", "succeeded", "failed", "canceled", "expired"]


class JobRef(Shape):
    """Which job it is."""

    id: Uuid
    schedule_id: Uuid | None = Field(
        None, description="The same, for a job with `schedule_cron`; else it is not there."
    )


class JobState(Shape):
    """Which job it is, and how it is."""

    id: Uuid
    status: Status


class LogItem(Shape):
    """A piece of output."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.LOG_ITEM]})

    id: str = Field(pattern=r"^\d+-\d+$")
    stream: Literal["stdout", "stderr", "system"]
    at: Time
    attempt: int = Field(ge=0)
    text: str


class LogPage(Shape):
    """Some of the output, in order."""

    items: list[LogItem]
    next: str | None = Field(description="Where to go on; null when there is nothing more now.")


class Lease(Shape):
    """Who runs a job, and until when unless it is renewed."""

    worker_id: str
    leased_at: Time
    lease_expires_at: Time


class ListedJob(Shape):
    """A job as lists show it."""

    id: Uuid
    queue: Queue
    type: str = Field(pattern=TYPE_PATTERN)
    payload: Any = Field(description="The executor's fields, as they were sent.")
    schedule_cron: str | None = Field(description="The expression of the schedule that it is, or that started it.")
    priority: int = Field(ge=-1000, le=1000, description="Lower runs first.")
    retries_max: int = Field(ge=0, le=1000)
    retries_attempted: int = Field(ge=0, description="Attempts started after the first.")
    status: Status
    created_at: Time
    scheduled_at: Time | None = Field(description="When it was asked to start; null: at once.")
    started_at: Time | None = Field(description="The start of the last attempt.")
    finished_at: Time | None
    result: Any = Field(description="shell: `exit_code` and `output`; others: what was returned.")
    error: str | None = Field(description="Why the last attempt failed, also while a retry is due.")
    owner: str | None
    progress: Progress | None


class SubmittedJob(ListedJob):
    """A job with what it printed."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.SUBMITTED_JOB]})

    stdout: str = Field(description="Of the last attempt; at most 1 MiB, with a mark where it was cut.")
    stderr: str = Field(description="Of the last attempt; at most 1 MiB, with a mark where it was cut.")
    lease: Lease | None = Field(description="While it runs.")
    logs: LogPage = Field(description="Of all attempts.")


class NumberedPage(Shape):
    """One page of a list, the newest first; of one millisecond, by id."""

    items: list[ListedJob]
    page: int = Field(ge=1)
    page_size: int = Field(ge=1, le=100)
    total: int = Field(ge=0, description="Jobs on all pages.")


class ListedWorker(Shape):
    """A worker as it last described itself."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.LISTED_WORKER]})

    id: str
    name: str
    queues: list[str] = Field(description="`*` is all of them.")
    concurrency: int | None
    last_heartbeat: Time
    started_at: Time | None
    status: Literal["online", "degraded", "offline"]
    running: list[str] = Field(description="The jobs it named at its last heartbeat, 50 at the most.")


class ListedWorkers(Shape):
    """All workers, also those that went offline a while ago."""

    items: list[ListedWorker]
