"""The fields a request may have, each with its limits, as they are checked and as OpenAPI shows them.

A field checked here needs no second look: a payload is its compact JSON, a time is in milliseconds.
"""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema

from taskflow_domain import MAX_DEPENDENCIES, JobId, ms_of_iso, parse_cron, parse_zone, payload_bytes
from taskflow_domain.cron_text import TEXT_MAX_CHARS as CRON_MAX_CHARS

DAY_S: Final = 86_400
LONGEST_TIMEOUT_S: Final = 365 * DAY_S
LONGEST_DELAY_S: Final = 3650 * DAY_S
TEXT_MAX_CHARS: Final = 255

# Any queue, also those of doors whose names may have hyphens and dots.
ANY_QUEUE_PATTERN: Final = r"^[a-zA-Z0-9_.-]{1,64}$"
KEY_PATTERN: Final = r"^[!-~]{1,255}$"  # what a header can carry as it is
NO_NUL_PATTERN: Final = r"^[^\u0000]*$"  # `parse` has seen to that before a field is looked at
TYPE_PATTERN: Final = r"^[a-z][a-z0-9_-]{0,31}$"
# All of ISO 8601 that is read, with colons and hyphens or without; no `format`, for date-time would refuse most of it.
_YEAR: Final = r"(19(69|[7-9][0-9])|[2-9][0-9]{3})"  # in some zones 1970 begins in 1969
_DAY: Final = r"(-[0-9]{2}-[0-9]{2}|[0-9]{4}|-?[Ww][0-9]{2}(-?[0-9])?)"
_CLOCK: Final = r"[0-9]{2}(:?[0-9]{2}(:?[0-9]{2}([.,][0-9]+)?)?)?"
_OFFSET: Final = r"([Zz]|[+-][0-9]{2}(:?[0-9]{2}(:?[0-9]{2})?)?)"
TIME_SCHEMA: Final[dict[str, Any]] = {
    "type": "string",
    "pattern": rf"^{_YEAR}{_DAY}([Tt ]{_CLOCK}{_OFFSET}?)?$",
    "examples": ["2026-01-02T03:04:05.678Z", "2026-01-02"],
}

OWNER_SCHEMA: Final = {"type": "string", "minLength": 1, "maxLength": TEXT_MAX_CHARS, "pattern": NO_NUL_PATTERN}


def owner_name(text: str) -> str:
    """An owner, as a query names it."""
    if not 0 < len(text) <= TEXT_MAX_CHARS or "\0" in text:
        raise ValueError(f"must be a text of 1 to {TEXT_MAX_CHARS} characters")
    return text


def time_ms(value: object) -> int:
    """The time that an ISO 8601 text names."""
    if not isinstance(value, str):
        raise ValueError("must be an ISO 8601 time such as 2026-01-02T03:04:05.678Z")
    return ms_of_iso(value)


def once_each(values: tuple[str, ...]) -> tuple[str, ...]:
    """The values, unless one is there twice."""
    if len(set(values)) != len(values):
        twice = next(value for i, value in enumerate(values) if value in values[:i])
        raise ValueError(f"{twice} is named twice")
    return values


PayloadJson = Annotated[Any, AfterValidator(payload_bytes)]
TimeMs = Annotated[int, BeforeValidator(time_ms), WithJsonSchema(TIME_SCHEMA)]
Text = Annotated[
    str,
    StringConstraints(strict=True, min_length=1, max_length=TEXT_MAX_CHARS),
    Field(json_schema_extra={"pattern": NO_NUL_PATTERN}),
]
TypeName = Annotated[str, StringConstraints(strict=True, pattern=TYPE_PATTERN)]
IdempotencyKey = Annotated[str, StringConstraints(strict=True, pattern=KEY_PATTERN)]
Seconds = Annotated[float, Field(strict=True, gt=0, le=LONGEST_DELAY_S, allow_inf_nan=False)]
DelaySeconds = Annotated[float, Field(strict=True, ge=0, le=LONGEST_DELAY_S, allow_inf_nan=False)]
TimeoutSeconds = Annotated[float, Field(strict=True, gt=0, le=LONGEST_TIMEOUT_S, allow_inf_nan=False)]
UniqueIds = Annotated[
    tuple[JobId, ...],
    Field(max_length=MAX_DEPENDENCIES, json_schema_extra={"uniqueItems": True}),
    AfterValidator(once_each),
]
UniqueTexts = Annotated[
    tuple[Text, ...],
    Field(max_length=MAX_DEPENDENCIES, json_schema_extra={"uniqueItems": True}),
    AfterValidator(once_each),
]


def cron_text(text: str) -> str:
    """An expression that means something."""
    parse_cron(text)
    return text


def zone_name(text: str) -> str:
    """A zone that exists."""
    parse_zone(text)
    return text


CRON_SCHEMA: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": CRON_MAX_CHARS,
    "examples": ["*/5 * * * *", "@daily"],
}
ZONE_SCHEMA: Final = {"type": "string", "minLength": 1, "maxLength": 64, "examples": ["Europe/Berlin", "UTC"]}
CronText = Annotated[str, Field(strict=True), AfterValidator(cron_text), WithJsonSchema(CRON_SCHEMA)]
ZoneName = Annotated[str, Field(strict=True), AfterValidator(zone_name), WithJsonSchema(ZONE_SCHEMA)]


def ms(seconds: float | None) -> int | None:
    """Seconds in milliseconds; a time that is not nothing does not become nothing."""
    return None if seconds is None else max(round(seconds * 1000), 1 if seconds else 0)
