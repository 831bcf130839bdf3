"""The job as users know it, and the types its fields are made of.

Doors build their requests from these types, so a limit is written once.  A `Job` that exists is
valid; it is never changed, only replaced.
"""

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)

from taskflow_domain.ids import canonical_id
from taskflow_domain.ordering import MAX_PRIORITY, MIN_PRIORITY
from taskflow_domain.payload import payload_bytes
from taskflow_domain.retry import RetryPolicy
from taskflow_domain.states import JobStatus
from taskflow_domain.times import datetime_of_ms, iso_of_ms, ms_of_datetime, ms_of_iso

NAME_MAX_CHARS: Final = 255
MAX_DEPENDENCIES: Final = 50
DEFAULT_PRIORITY: Final = 5


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("a text cannot hold a NUL character")
    return text


def _canonical(text: str) -> str:
    job_id = canonical_id(text)
    if job_id is None:
        raise ValueError("an id is a UUID such as 019b7c3f-0000-7000-8000-000000000000")
    return job_id


def _in_utc(value: object) -> datetime:
    if isinstance(value, datetime):
        return datetime_of_ms(ms_of_datetime(value))
    if isinstance(value, str):
        return datetime_of_ms(ms_of_iso(value))
    raise ValueError("a time is an ISO 8601 text such as 2026-01-02T03:04:05.678Z")


def _spelled(moment: datetime) -> str:
    return iso_of_ms(ms_of_datetime(moment))


def _storable(value: object) -> object:
    payload_bytes(value)
    return value


JobId = Annotated[
    str, Field(strict=True), AfterValidator(_canonical), WithJsonSchema({"type": "string", "format": "uuid"})
]
JobName = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=NAME_MAX_CHARS), AfterValidator(_without_nul)
]
# pydantic's `$` is the end of the text and nothing else; Python's own would let a trailing newline through.
QueueName = Annotated[str, StringConstraints(strict=True, pattern=r"^[a-zA-Z0-9_]{1,64}$")]
Priority = Annotated[int, Field(strict=True, ge=MIN_PRIORITY, le=MAX_PRIORITY)]
Payload = Annotated[Any, AfterValidator(_storable)]
Dependencies = Annotated[tuple[JobId, ...], Field(max_length=MAX_DEPENDENCIES)]
AttemptCount = Annotated[int, Field(strict=True, ge=0)]
UtcTime = Annotated[
    datetime,
    BeforeValidator(_in_utc),
    PlainSerializer(_spelled, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


class Job(BaseModel):
    """A job: what to do, how urgent, after what, and how far it has come."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: JobId
    name: JobName
    queue: QueueName
    payload: Payload = Field(default_factory=dict)
    priority: Priority = DEFAULT_PRIORITY
    status: JobStatus
    dependencies: Dependencies = ()
    retry_policy: RetryPolicy = RetryPolicy()
    created_at: UtcTime
    updated_at: UtcTime
    attempt_count: AttemptCount = 0
