"""The bodies of requests about schedules."""

import re
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    RootModel,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from taskflow_api.bodies import NamedBody, WorkBody, not_both
from taskflow_api.body import Body
from taskflow_api.fields import CronText, DelaySeconds, Seconds, Text, TimeMs, ZoneName
from taskflow_api.paths import PREVIEW
from taskflow_api.s2_bodies import FlatBody, OtherFields, PythonFields, ShellFields
from taskflow_domain import LARGEST_CATCHUP, Overlap, canonical_id

LONGEST_NAME: Final = 128
LONGEST_INTERVAL_S: Final = 3650 * 86_400
LONGEST_JITTER_S: Final = 86_400
MOST_RUNS: Final = 1_000_000_000
# What a schedule decides for each of its runs, or what can be true of one job only.
NOT_IN_TEMPLATE: Final = ("scheduled_at", "expires_at", "schedule_cron", "idempotency_key", "dependencies")
TIMING: Final = ("cron", "interval_s")
# Of a schedule that is sent back as it was read.
IMMUTABLE: Final = ("id", "created_at")
IGNORED: Final = (
    "status", "message", "next_at", "next_local", "last_at", "last_job_id", "runs", "waiting", "updated_at",
)  # fmt: skip


# U+FFFD is what stands for bytes that are no text.  Directions and ends of lines would let a name pass for another.
_FORBIDDEN: Final = r"/\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ufffd"
_NOT_IN_NAME: Final = re.compile(f"[{_FORBIDDEN}]")


def schedule_name(text: str) -> str:
    """A name by which a schedule can be found in a path."""
    if text.strip(".") == "" or _NOT_IN_NAME.search(text):
        raise ValueError("a name has no slash and no control characters, and is more than dots")
    if canonical_id(text) is not None or text == PREVIEW:
        raise ValueError("a name is no UUID, for schedules are found by id too, and not 'preview'")
    return text


_NAME_SCHEMA: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": LONGEST_NAME,
    "pattern": rf"^(?!\.+$)(?!preview$)[^{_FORBIDDEN}]*$",
    "examples": ["nightly report"],
}
Name = Annotated[
    str,
    Field(strict=True, min_length=1, max_length=LONGEST_NAME),
    AfterValidator(schedule_name),
    WithJsonSchema(_NAME_SCHEMA),
]
Flag = Annotated[bool, Field(strict=True)]
Reason = Annotated[
    str, Field(strict=True, min_length=1, max_length=500, json_schema_extra={"pattern": r"^[^\u0000]*$"})
]
Interval = Annotated[float, Field(strict=True, ge=1, le=LONGEST_INTERVAL_S, allow_inf_nan=False)]
Jitter = Annotated[float, Field(strict=True, ge=0, le=LONGEST_JITTER_S, allow_inf_nan=False)]
Limit = Annotated[int, Field(strict=True, ge=0, le=LARGEST_CATCHUP)]
Runs = Annotated[int, Field(strict=True, ge=1, le=MOST_RUNS)]


class SpansBody(Body):
    """Times that count from the start of each run."""

    delay_s: DelaySeconds | None = Field(None, description="Not to start before so long after the fire.")
    ttl_s: Seconds | None = Field(None, description="EXPIRED unless it has started within so long.")


class ScheduledJob(NamedBody, WorkBody, SpansBody):
    """A job as POST /api/v1/jobs takes it, but for its times, its dependencies and its key."""


class ScheduledShell(ShellFields, FlatBody, SpansBody):
    """A command as POST /jobs takes it."""


class ScheduledPython(PythonFields, FlatBody, SpansBody):
    """A Python function as POST /jobs takes it."""


class ScheduledOther(OtherFields, FlatBody, SpansBody):
    """A job for another executor as POST /jobs takes it; every field that is not named here is that executor's."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"propertyNames": {"not": {"enum": [*NOT_IN_TEMPLATE, "name"]}}}
    )


FLAT: Final[dict[object, type[FlatBody]]] = {"shell": ScheduledShell, "python": ScheduledPython}


class Template(RootModel[ScheduledJob | ScheduledShell | ScheduledPython | ScheduledOther]):
    """A job that is made again and again: with a name, as POST /api/v1/jobs takes it; without, as POST /jobs does."""


class _AsTemplate:
    """Shows a field as a `Template`, which is read by itself: of its forms only the one that is meant complains."""

    def __get_pydantic_json_schema__(self, _core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(Template.__pydantic_core_schema__)


class CreateSchedule(Body):
    """When to run what."""

    never_null: ClassVar[frozenset[str]] = frozenset()
    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in TIMING]
        }
    )

    name: Name | None = Field(None, description="By which it can be found, as by its id; no two have the same.")
    cron: CronText | None = Field(
        None, description="Five fields, or six with seconds last, or a name such as `@daily`.  This or `interval_s`."
    )
    interval_s: Interval | None = Field(
        None, description="Every so many seconds, counted from `start_at`, or from the schedule's creation."
    )
    timezone: ZoneName = Field("UTC", description="The IANA name of the zone whose clocks `cron` means.")
    start_at: TimeMs | None = Field(None, description="It does not fire before.")
    end_at: TimeMs | None = Field(None, description="It does not fire afterwards.")
    jitter_s: Jitter = Field(0, description="A fire comes up to so much later, always the same for the same time.")
    overlap: Overlap = Field(Overlap.ALLOW, description="What becomes of a fire while a run is active.")
    catchup_limit: Limit | None = Field(
        None, description="Fires missed in a downtime that are made up for, the latest; unset is CATCHUP_LIMIT, 5."
    )
    catchup_window_s: Seconds | None = Field(None, description="How old a missed fire may be to be made up for.")
    max_runs: Runs | None = Field(None, description="It ends after so many runs; skipped fires do not count.")
    owner: Text | None = Field(
        None, description="For whom it is; its jobs have the same owner unless they say another."
    )
    paused: Flag = Field(False, description="It rests until it is resumed.")
    reason: Reason | None = Field(None, description="Why it is paused.")
    job: Annotated[Any, _AsTemplate()] = Field(description="What to run.")

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = super().__get_pydantic_json_schema__(core, handler)
        for shape in handler.resolve_ref_schema(schema)["properties"].values():
            for form in (shape, *shape.get("anyOf", ())):
                form.pop("examples", None)  # of a field: not all of them fit together, as those of the body do
        return schema

    @field_validator("interval_s")
    @classmethod
    def _is_the_only_one(cls, seconds: float | None, info: ValidationInfo) -> float | None:
        if seconds is not None and info.data.get("cron") is not None:
            raise ValueError("give cron or interval_s, not both")
        return seconds

    @field_validator("end_at")
    @classmethod
    def _is_later(cls, end_ms: int | None, info: ValidationInfo) -> int | None:
        start_ms = info.data.get("start_at")
        if end_ms is not None and start_ms is not None and end_ms < start_ms:
            raise ValueError("must not be before start_at")
        return end_ms


class UpdateSchedule(CreateSchedule):
    """What to change; the rest stays.  A null is the default of a new schedule."""

    never_null: ClassVar[frozenset[str]] = frozenset({"job"})
    model_config = ConfigDict(json_schema_extra=not_both(*TIMING))

    job: Annotated[Any, _AsTemplate()] = Field(None, description="What to run; as a whole, for its parts mean little.")

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


class PauseSchedule(Body):
    """Why a schedule is to rest."""

    reason: Reason | None = Field(None, description="Why; shown to those who ask.")


class TriggerSchedule(Body):
    """How to run a schedule now."""

    overlap: Overlap | None = Field(None, description="Instead of the schedule's own, for this run.")


class BackfillSchedule(Body):
    """Times of the past to make up for."""

    from_: TimeMs = Field(alias="from", description="From this time on.")
    to: TimeMs = Field(description="Up to and with this time, which is past.")
    overlap: Literal["allow", "buffer_all"] | None = Field(
        None,
        description="All at once, or one after the other; unset is all at once only if the schedule allows overlap.",
    )
    rerun: Flag = Field(False, description="Also the times that have run, as far as that is remembered.")


BODIES: Final = (Template, CreateSchedule, UpdateSchedule, PauseSchedule, TriggerSchedule, BackfillSchedule)
