"""From a body of POST /jobs to the job that the engine takes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from taskflow_api.build import BUILT_IN, handler_of
from taskflow_api.errors import Detail, Invalid
from taskflow_api.faults import faults
from taskflow_api.fields import ms
from taskflow_api.parse import printable
from taskflow_api.s2_bodies import COMMON, MODELS, FlatBody, OtherFields, OtherJob, Submission
from taskflow_domain import Retries, executor_faults, payload_bytes
from taskflow_streams import NewJob

PAYLOAD_MAX_BYTES: Final = 262_144  # the longest command, however much JSON must escape in it, and its environment
BASE_DELAY_S: Final = 1
MAX_DELAY_S: Final = 300
JITTER: Final = 0.5
NAME_CHARS: Final = 80  # of a command, as the job's name

F = TypeVar("F", bound=FlatBody)


def read_submission(raw: Mapping[str, Any], denylist: Sequence[str]) -> tuple[Submission, str, dict[str, Any]]:
    """The body, its type, and the executor's fields as they were sent; `Invalid` with everything that is wrong."""
    if raw.get("type") == "task":
        raise Invalid.field("type", "jobs of type task are created with POST /api/v1/jobs")
    return read_flat(raw, denylist, MODELS, OtherJob)


def read_flat(
    raw: Mapping[str, Any], denylist: Sequence[str], models: Mapping[object, type[F]], other: type[F]
) -> tuple[F, str, dict[str, Any]]:
    """The same for any family of flat bodies, one for each type and one for all others."""
    type_ = raw.get("type")
    model = models.get(type_, other) if isinstance(type_, str) else other
    found: dict[str, str] = {}
    body: F | None = None
    try:
        body = model.model_validate(raw)
    except ValidationError as error:
        found = {detail.field: detail.message for detail in faults(error)}
    fields = executor_fields(model, raw)
    if isinstance(type_, str) and type_ in BUILT_IN:
        found |= {printable(field): message for field, message in executor_faults(type_, fields, denylist)}
    if body is None or found:
        raise Invalid.of([Detail(field, message) for field, message in found.items()])
    return body, str(type_), fields


def executor_fields(model: type[FlatBody], raw: Mapping[str, Any]) -> dict[str, Any]:
    """What the executor gets.  For the built-in ones a null is a field that was left out."""
    if issubclass(model, OtherFields):
        return {name: value for name, value in raw.items() if name not in COMMON}
    return {
        name: value
        for name, value in raw.items()
        if name in model.model_fields and name not in COMMON and value is not None
    }


def pack_fields(fields: Mapping[str, Any]) -> bytes:
    """The payload to store, or `Invalid` for what cannot be stored, with the field that is to blame."""
    try:
        return payload_bytes(fields, PAYLOAD_MAX_BYTES)
    except ValueError as error:
        for name, value in fields.items():
            try:
                payload_bytes([value], PAYLOAD_MAX_BYTES)
            except ValueError as fault:
                raise Invalid.field(printable(name), str(fault)) from None
        raise Invalid(f"The executor's fields are too much: {error}.") from None


def flat_work(
    body: FlatBody, type_: str, fields: Mapping[str, Any], payload: bytes, retries_max: int
) -> dict[str, Any]:
    """The part of a job that says what it does and how; `retries_max` is for those that do not say it."""
    return {
        "name": name_of(type_, fields),
        "queue": body.queue,
        "handler": handler_of(type_, None, ""),
        "payload": payload,
        "order": body.priority,
        "type": type_,
        "retry": Retries(
            max_attempts=1 + (retries_max if body.retries_max is None else body.retries_max),
            base_delay_seconds=BASE_DELAY_S,
            max_delay_seconds=MAX_DELAY_S,
            jitter=JITTER,
        ),
        "timeout_ms": ms(body.timeout_s),
        "owner": body.owner,
    }


def new_job(
    body: Submission, type_: str, fields: Mapping[str, Any], payload: bytes, job_id: str, *, retries_max: int,
    has_key: bool,
) -> NewJob:  # fmt: skip
    """The job to submit; `retries_max` is for those that do not say it."""
    return NewJob(
        id=job_id,
        due_ms=body.scheduled_at,
        delay_ms=ms(body.delay_s),
        expires_ms=body.expires_at,
        ttl_ms=ms(body.ttl_s),
        has_key=has_key,
        **flat_work(body, type_, fields, payload, retries_max),
    )


def name_of(type_: str, fields: Mapping[str, Any]) -> str:
    """A name for people: a command's first line, a function's place, or the executor's name."""
    match type_:
        case "shell":
            return str(fields["cmd"]).strip().splitlines()[0][:NAME_CHARS].strip()
        case "python":
            return str(fields["callable"])[:255]
        case _:
            return type_
