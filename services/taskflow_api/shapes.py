"""The answers, for OpenAPI.  Nothing is validated or built with these; tests hold the real answers against them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from taskflow_api import examples
from taskflow_api.fields import ANY_QUEUE_PATTERN, TYPE_PATTERN
from taskflow_domain import BackoffStrategy, JobStatus

_TIME_PATTERN = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$"
Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time", "pattern": _TIME_PATTERN})]
Uuid = Annotated[str, WithJsonSchema({"type": "string", "format": "uuid"})]
Queue = Annotated[str, Field(pattern=ANY_QUEUE_PATTERN)]


class Shape(BaseModel):
    """An object that always has all its fields, null where there is nothing to say."""

    model_config = ConfigDict(extra="forbid")


class RetryPolicy(Shape):
    """How often a job may run, and how long it rests in between."""

    max_attempts: int = Field(ge=1, le=1001, description="More than 10 only by `retries_max` of POST /jobs.")
    backoff_strategy: BackoffStrategy
    base_delay_seconds: int = Field(ge=1, le=300)
    max_delay_seconds: int = Field(ge=1, le=3600)
    jitter: float = Field(0.0, ge=0, le=1, description="Shown if it is not 0.")


class JobError(Shape):
    """Why the last attempt failed."""

    class_: str = Field(alias="class", description="The exception's class, or a word such as TimedOut or LeaseLost.")
    message: str
    traceback: str | None


class Progress(Shape):
    """How far the attempt is, as its handler says."""

    fraction: float
    message: str | None


class Job(Shape):
    """A job: what to do, how urgent, after what, and how far it has come."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.JOB]})

    id: Uuid
    name: str = Field(min_length=1, max_length=255)
    queue: Queue
    payload: Any = Field(description="Any JSON value, as it was sent.")
    priority: int = Field(ge=1, le=10)
    status: JobStatus
    dependencies: list[Uuid]
    retry_policy: RetryPolicy
    created_at: Time
    updated_at: Time = Field(description="The time of the last transition or update.")
    attempt_count: int = Field(ge=0, description="Attempts started.")
    type: str = Field(pattern=TYPE_PATTERN, description="The executor.")
    task: str | None = Field(description="The handler; null is the one called as the job.")
    owner: str | None
    timeout_s: float | None
    scheduled_at: Time | None = Field(description="It does not start before: as you asked, or as its retry demands.")
    expires_at: Time | None
    started_at: Time | None = Field(description="The start of the last attempt.")
    finished_at: Time | None
    result: Any = Field(description="What the handler returned; null until it has completed.")
    error: JobError | None = Field(description="Why the last attempt failed, also while a retry is due.")
    progress: Progress | None
    run_id: str | None = Field(description="The workflow run it belongs to.")
    retry_of: Uuid | None = Field(description="The ended job that this one repeats.")
    schedule_id: Uuid | None = Field(description="The schedule that started it.")
    worker: str | None = Field(description="Who runs it, or ran it last.")


class JobPage(Shape):
    """One page of a search, the newest first; of one millisecond, by id."""

    items: list[Job]
    next_cursor: str | None = Field(description="Where the next page begins; null on the last one.")
    has_more: bool


class JobList(Shape):
    """The jobs of a batch, in the order they were sent."""

    items: list[Job]


class Event(BaseModel):
    """One step in the life of a job.  Some types add fields of their own."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [examples.EVENT]})

    id: str = Field(pattern=r"^\d+-\d+$")
    type: str = Field(pattern=r"^job\.[a-z]+$")
    at: Time
    from_: JobStatus | None = Field(alias="from")
    to: JobStatus | None
    attempt: int = Field(ge=0)
    worker: str | None
    queue: Queue
    priority: int = Field(ge=1, le=10)


class EventList(Shape):
    """A job's history, the oldest first: its last 100 events, as far as they are still kept."""

    items: list[Event]


class Reason(Shape):
    """One cause, for programs (`code`) and for people (`message`)."""

    code: str = Field(pattern=r"^[A-Z_]+$")
    message: str
    jobs: list[Uuid] = Field(description="The jobs it is about, if it is about jobs.")


class Explanation(Shape):
    """Why a job is where it is."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.EXPLANATION]})

    id: Uuid
    status: JobStatus
    message: str
    reasons: list[Reason]


class QueueState(Shape):
    """A queue and its settings."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.QUEUE]})

    name: Queue
    waiting: int = Field(ge=0, description="READY, due, and for a handler that a live worker has.")
    running: int = Field(ge=0)
    paused: bool
    max_concurrent: int | None
    weight: float
    reason: str | None


class QueueList(Shape):
    """All queues that ever had a job or a setting, by name."""

    items: list[QueueState]


class Worker(Shape):
    """A worker as it last described itself."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.WORKER]})

    id: str
    name: str
    kind: Literal["process", "http"] = Field(description="Whether it is one of ours, or one that speaks HTTP.")
    queues: list[str] | None = Field(description="null is all of them.")
    concurrency: int | None
    running: int | None
    started_at: Time | None
    last_heartbeat: Time
    status: Literal["online", "degraded", "offline"] = Field(
        description="degraded: late, something it does fails, or a job blocks it.  offline: silent for too long."
    )
    draining: bool = Field(description="It takes nothing new.")
    running_ids: list[str] = Field(description="Jobs that it runs, 50 at the most.")
    cpu_percent: float | None = Field(description="Of one core, with all that it has started.")
    memory_bytes: int | None = Field(description="With all that it has started.")


class WorkerList(Shape):
    """All workers, also those that went offline a while ago."""

    items: list[Worker]


class ErrorDetail(Shape):
    """One fault."""

    field: str
    message: str


class ErrorInfo(Shape):
    """What went wrong."""

    code: str
    message: str
    details: list[ErrorDetail]


class Error(Shape):
    """Every error, whatever its status."""

    error: ErrorInfo


class HealthState(BaseModel):
    """How the service is."""

    status: str
    component: str
