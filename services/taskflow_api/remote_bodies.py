"""The bodies that workers send over HTTP."""

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema

from taskflow_api.body import Body
from taskflow_api.fields import NO_NUL_PATTERN, Text, once_each
from taskflow_domain import JobId, payload_bytes

MAX_QUEUES: Final = 100
MAX_HANDLERS: Final = 500
MAX_CONCURRENCY: Final = 1000
MAX_LEASES: Final = 100  # in one answer, for each may bring 64 KiB of payload
LONGEST_WAIT_S: Final = 60
RESULT_MAX_BYTES: Final = 1 << 20  # as for our own workers
NOTE_CHARS: Final = 200
MESSAGE_CHARS: Final = 2_000  # more is cut, for a failure must not be lost because it has much to say
TRACEBACK_CHARS: Final = 16_000  # of its end, where the cause stands

_QUEUE_PATTERN: Final = r"^([a-zA-Z0-9_.-]{1,64}|\*)$"
_HANDLER_PATTERN: Final = r"^(@[a-z][a-z0-9_-]{0,31}|[^@\u0000][^\u0000]*)$"
_NO_NUL: Final = {"type": "string", "pattern": NO_NUL_PATTERN}


def _some(values: tuple[str, ...]) -> tuple[str, ...]:
    if not values:  # pydantic's own check would count a bad item as a missing one
        raise ValueError("needs 1 item or more")
    return once_each(values)


def _each_once(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _result_bytes(value: object) -> bytes:
    try:
        return payload_bytes(value, RESULT_MAX_BYTES)
    except ValueError as error:
        raise ValueError(str(error).replace("a payload", "a result")) from None


def _as_error(value: object) -> object:
    return {"message": value} if isinstance(value, str) else value


Queues = Annotated[
    tuple[Annotated[str, StringConstraints(strict=True, pattern=_QUEUE_PATTERN)], ...],
    Field(max_length=MAX_QUEUES, json_schema_extra={"minItems": 1, "uniqueItems": True}),
    AfterValidator(_some),
]
Handlers = Annotated[
    tuple[Annotated[str, StringConstraints(strict=True, pattern=_HANDLER_PATTERN, max_length=255)], ...],
    Field(max_length=MAX_HANDLERS, json_schema_extra={"minItems": 1, "uniqueItems": True}),
    AfterValidator(_some),
]
Running = Annotated[tuple[JobId, ...], Field(max_length=MAX_CONCURRENCY), AfterValidator(_each_once)]
Result = Annotated[Any, AfterValidator(_result_bytes)]
Output = Annotated[str, StringConstraints(strict=True), WithJsonSchema(_NO_NUL)]


class RegisterWorker(Body):
    """A worker that comes to life."""

    never_null: ClassVar[frozenset[str]] = frozenset()

    name: Text = Field(description="For people; it need not be unique.")
    queues: Queues = Field(description="The queues it takes jobs from; `*` is all of them, also those to come.")
    concurrency: Annotated[int, Field(strict=True, ge=1, le=MAX_CONCURRENCY)] = Field(
        description="How many jobs it runs at once.  A lease request with `running` brings no more than that; one "
        "without knows nothing of those before it."
    )
    handlers: Handlers = Field(
        ("@shell",),
        description="What it can run: tasks by their names, executors with an @ before theirs (`@shell` is what runs "
        "jobs of type shell).  Unset is `@shell` alone.",
    )


class Heartbeat(Body):
    """A worker that is alive."""

    running: Running = Field(
        description="All jobs it holds, from the answer that brought them until their end was accepted.  "
        "Others that it has are given back."
    )
    cpu_percent: Annotated[float, Field(strict=True, ge=0, le=1e6, allow_inf_nan=False)] | None = Field(
        None, description="Of one core."
    )
    memory_bytes: Annotated[int, Field(strict=True, ge=0, le=2**53)] | None = None


class AskForJobs(Body):
    """A worker with room for more."""

    max: Annotated[int, Field(strict=True, ge=1, le=MAX_LEASES)] = Field(
        1,
        description="How many jobs to answer with at most; never more than the worker's concurrency, less the jobs in "
        "`running`.  Without `running` the concurrency bounds this one answer, whatever others brought.",
    )
    wait_s: Annotated[float, Field(strict=True, ge=0, le=LONGEST_WAIT_S, allow_inf_nan=False)] = Field(
        20, description="How long to wait for the first."
    )
    running: Running | None = Field(
        None,
        description="All jobs it holds.  Others that it has, because an answer was lost, are given back first, at no "
        "cost.  Leave it out where several such requests may be under way at once.",
    )


class ReleaseJob(Body):
    """A job that is given back; and what every report has."""

    token: Text = Field(description="The lease's, as it was given with the job; it serves no other.")


class AddLog(ReleaseJob):
    """A piece of output."""

    stream: Literal["stdout", "stderr"]
    text: Output
    offset: Annotated[int, Field(strict=True, ge=0, le=2**53)] | None = Field(
        None,
        description="How many bytes of this stream of this attempt came before, as UTF-8.  What is known already is "
        "not kept twice.",
    )


class TellProgress(ReleaseJob):
    """How far a job is."""

    fraction: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
    message: Annotated[str, StringConstraints(strict=True, max_length=NOTE_CHARS), WithJsonSchema(
        _NO_NUL | {"maxLength": NOTE_CHARS}
    )] = ""  # fmt: skip


class CompleteJob(ReleaseJob):
    """A job that is done."""

    never_null: ClassVar[frozenset[str]] = frozenset({"result"})

    result: Result = Field(
        None, description="Any JSON, 1 MiB at most.  Of a shell job: `exit_code` and `output`, as others look for them."
    )


class Cause(Body):
    """Why an attempt failed."""

    kind: Text = Field("Error", alias="class")
    message: Output = ""
    traceback: Output | None = None


class FailJob(CompleteJob):
    """A job that failed."""

    error: Annotated[Cause, BeforeValidator(_as_error), WithJsonSchema({
        "anyOf": [
            _NO_NUL,
            {
                "type": "object",
                "properties": {
                    "class": {"anyOf": [_NO_NUL | {"minLength": 1, "maxLength": 255}]},
                    "message": {"anyOf": [_NO_NUL, {"type": "null"}]},
                    "traceback": {"anyOf": [_NO_NUL, {"type": "null"}]},
                },
                "additionalProperties": False,
            },
        ]
    })] = Field(
        description="A sentence, or an object.  Of a message 2,000 characters are kept, of a traceback the last 16,000."
    )  # fmt: skip
    fatal: Annotated[bool, Field(strict=True)] = Field(False, description="No retry would help.")


BODIES: Final = (
    RegisterWorker, Heartbeat, AskForJobs, ReleaseJob, AddLog, TellProgress, CompleteJob, FailJob,
)  # fmt: skip
