"""The bodies that requests may have.  What is not listed here is refused, and so is text where a number belongs."""

from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, GetJsonSchemaHandler, ValidationInfo, field_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from taskflow_api.body import Body
from taskflow_api.fields import (
    NO_NUL_PATTERN,
    DelaySeconds,
    IdempotencyKey,
    PayloadJson,
    Seconds,
    Text,
    TimeMs,
    TimeoutSeconds,
    TypeName,
    UniqueIds,
    UniqueTexts,
)
from taskflow_domain import (
    DEFAULT_PRIORITY,
    BackoffStrategy,
    BaseDelaySeconds,
    Jitter,
    JobName,
    MaxAttempts,
    MaxDelaySeconds,
    Priority,
    QueueName,
)
from taskflow_streams import SUBMIT_BATCH

# Of a job that is sent back as it was read.
IMMUTABLE: Final = ("id", "created_at", "status", "attempt_count")
IGNORED: Final = (
    "updated_at", "started_at", "finished_at", "result", "error", "progress", "run_id", "retry_of", "worker",
    "schedule_id",
)  # fmt: skip


class RetryPolicyBody(Body):
    """How often a job may run, and how long it rests in between; what is left out is not changed by it."""

    max_attempts: MaxAttempts = Field(3, description="How often the job may run in all.")
    backoff_strategy: BackoffStrategy = Field(
        BackoffStrategy.EXPONENTIAL, description="How the delay grows: not at all, by the base delay, or twofold."
    )
    base_delay_seconds: BaseDelaySeconds = Field(10, description="The delay before the first retry.")
    max_delay_seconds: MaxDelaySeconds = Field(
        300, description="The longest delay; at least as long as `base_delay_seconds`."
    )
    jitter: Jitter = Field(0.0, description="How much shorter a delay may be: 0.5 is by up to half.")

    def changes(self) -> dict[str, object]:
        """What was said, and no defaults."""
        return {name: getattr(self, name) for name in self.model_fields_set}


def not_both(first: str, second: str) -> dict[str, Any]:
    """As a JSON schema says it."""
    given = {first: {"not": {"type": "null"}}, second: {"not": {"type": "null"}}}
    return {"not": {"required": [first, second], "properties": given}}


class TimesBody(Body):
    """When a job is to run, and until when it makes sense."""

    model_config = ConfigDict(
        json_schema_extra={"allOf": [not_both("scheduled_at", "delay_s"), not_both("expires_at", "ttl_s")]}
    )

    scheduled_at: TimeMs | None = Field(None, description="Not to start before this time.")
    delay_s: DelaySeconds | None = Field(None, description="The same, counted from now.")
    expires_at: TimeMs | None = Field(None, description="EXPIRED unless it has started by then.")
    ttl_s: Seconds | None = Field(None, description="The same, counted from now.")

    @field_validator("delay_s", "ttl_s")
    @classmethod
    def _is_the_only_one(cls, seconds: float | None, info: ValidationInfo) -> float | None:
        rival = {"delay_s": "scheduled_at", "ttl_s": "expires_at"}[info.field_name or ""]
        if seconds is not None and info.data.get(rival) is not None:
            raise ValueError(f"give {info.field_name} or {rival}, not both")
        return seconds


class WorkBody(Body):
    """What a job does, how urgently, and what becomes of its failures."""

    payload: PayloadJson = Field(
        default=b"{}",
        description="Any JSON value for the handler; at most 65,536 bytes as compact UTF-8 JSON, 100 levels deep.",
        json_schema_extra={"default": {}},
    )
    priority: Priority = Field(DEFAULT_PRIORITY, description="10 is the most urgent.")
    retry_policy: RetryPolicyBody | None = Field(None, description="Parts left out have their defaults.")
    task: Text | None = Field(None, description="The handler that runs it, for type `task`; unset is the job's name.")
    type: TypeName = Field("task", description="The executor; the payload holds the fields of any but `task`.")
    timeout_s: TimeoutSeconds | None = Field(None, description="How long one attempt may take.")
    owner: Text | None = Field(None, description="For whom it is.")


class NamedBody(Body):
    """Which job it is, and where it waits."""

    name: JobName = Field(
        description="A name for people, and the handler's unless `task` says another.",
        json_schema_extra={"pattern": NO_NUL_PATTERN},
    )
    queue: QueueName = Field(description="The queue it waits in.")


class JobBody(WorkBody, TimesBody):
    """The fields that a new job and a changed one have in common."""

    dependencies: UniqueIds = Field((), description="Jobs that must complete first.  They must exist, each named once.")


class CreateJob(NamedBody, JobBody):
    """A job to create."""

    idempotency_key: IdempotencyKey | None = Field(
        None, description="Sent again with the same key and body, the first job is the answer.  Kept for 7 days."
    )


class RetryJob(TimesBody):
    """When to run a job again."""


class BatchJob(CreateJob):
    """A job of a batch."""

    key: Text | None = Field(None, description="What other jobs of the batch call this one.")
    depends_on: UniqueTexts = Field((), description="Keys of jobs of this batch that must complete first.")


class Batch(Body):
    """Jobs that are created together, or not at all."""

    jobs: Annotated[list[BatchJob], Field(min_length=1, max_length=SUBMIT_BATCH)]


class UpdateJob(JobBody):
    """What to change; the rest stays.  A null is the default of a new job."""

    # Never looked at unless they were sent, for the other fields' defaults are what their nulls mean.
    name: JobName = Field("-", json_schema_extra={"pattern": NO_NUL_PATTERN})
    queue: QueueName = "-"

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = super().__get_pydantic_json_schema__(core, handler)
        properties: dict[str, Any] = handler.resolve_ref_schema(schema)["properties"]
        for shape in properties.values():
            shape.pop("default", None)
        for name in IMMUTABLE:
            properties[name] = {"readOnly": True, "description": "Cannot be changed; may be sent as it is."}
        for name in IGNORED:
            properties[name] = {"readOnly": True, "description": "May be sent; it is ignored."}
        return schema


class UpdateQueue(Body):
    """What to change about a queue; the rest stays, and null takes a setting back."""

    paused: Annotated[bool, Field(strict=True)] = Field(False, description="Whether its jobs wait.")
    max_concurrent: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = Field(
        None, description="How many of its jobs may run at once; null is no limit."
    )
    weight: Annotated[float, Field(strict=True, ge=0.001, le=1000, allow_inf_nan=False)] = Field(
        1, description="Its share of the workers beside other queues."
    )
    reason: Annotated[str, Field(strict=True, min_length=1, max_length=500)] | None = Field(
        None, description="Why; shown to those who ask.  Forgotten when the queue is resumed."
    )
