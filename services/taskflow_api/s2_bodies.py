"""The bodies of POST /jobs: what every job may say, and the fields of its executor beside it.

The executor's fields are described here for OpenAPI; what they must be is the domain's to say, for workers check
them again.
"""

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, RootModel, ValidationInfo, WithJsonSchema, field_validator

from taskflow_api.bodies import TimesBody
from taskflow_api.body import Body
from taskflow_api.fields import (
    ANY_QUEUE_PATTERN,
    CRON_SCHEMA,
    NO_NUL_PATTERN,
    TYPE_PATTERN,
    CronText,
    IdempotencyKey,
    Text,
    TimeoutSeconds,
    TypeName,
)
from taskflow_domain import CMD_MAX_BYTES, MAX_ORDER, MIN_ORDER

DEFAULT_QUEUE: Final = "general"
MAX_RETRIES: Final = 1000

_VARIABLE: Final = "[A-Za-z_][A-Za-z0-9_]*"
# Python's names, of which a pattern can say no more than where ASCII ends: not every sign beyond it is a letter.
_IDENTIFIER: Final = r"[^\u0000-@\[-\^`{-\u007f][^\u0000-/:-@\[-\^`{-\u007f]*"
_DOTTED: Final = rf"{_IDENTIFIER}(\.{_IDENTIFIER})*"
_NO_SPACE: Final = (  # as Python knows them; dialects of patterns differ in what \s is
    r"[^\u0000\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
_NO_NUL: Final = {"type": "string", "pattern": NO_NUL_PATTERN}


_CRON_SCHEMA: Final = {name: value for name, value in CRON_SCHEMA.items() if name != "examples"}  # not with all fields


def _shown(schema: dict[str, Any]) -> Any:
    return WithJsonSchema(schema)


Queue = Annotated[str, Field(strict=True, pattern=ANY_QUEUE_PATTERN)]
Order = Annotated[int, Field(strict=True, ge=MIN_ORDER, le=MAX_ORDER)]
RetriesMax = Annotated[int, Field(strict=True, ge=0, le=MAX_RETRIES)]

Cmd = Annotated[
    Any,
    _shown({
        "type": "string",
        "minLength": 1,
        "maxLength": CMD_MAX_BYTES,
        "pattern": rf"^[^\u0000]*{_NO_SPACE}[^\u0000]*$",
        "description": "For `/bin/sh -c`; at most 65,536 bytes.",
    }),
]  # fmt: skip
Env = Annotated[
    Any,
    _shown({
        "type": "object",
        "propertyNames": {"pattern": rf"^(?!TASKFLOW_){_VARIABLE}$"},
        "additionalProperties": _NO_NUL,
        "description": "Variables beside those that the worker lets through.",
    }),
]  # fmt: skip
Cwd = Annotated[Any, _shown({"type": "string", "pattern": r"^/[^\u0000]*$", "description": "The directory to run in."})]
Callable_ = Annotated[
    Any,
    _shown({
        "type": "string",
        "pattern": f"^{_DOTTED}:{_DOTTED}$",
        "description": "`package.module:function`, as the workers can import it.",
    }),
]  # fmt: skip
Args = Annotated[Any, _shown({"type": "array", "items": {}, "description": "Positional arguments."})]
Kwargs = Annotated[
    Any,
    _shown({
        "type": "object",
        "propertyNames": {"pattern": f"^{_IDENTIFIER}$"},
        "description": "Arguments by name.",
    }),
]  # fmt: skip


class FlatBody(Body):
    """What every flat job may say."""

    never_null: ClassVar[frozenset[str]] = frozenset()

    queue: Queue = Field(DEFAULT_QUEUE, description="The queue it waits in.")
    priority: Order = Field(0, description="Lower runs first.")
    retries_max: RetriesMax | None = Field(
        None, description="Attempts after the first; unset is the setting RETRY_MAX_DEFAULT, which is 3 by default."
    )
    timeout_s: TimeoutSeconds | None = Field(None, description="How long one attempt may take.")
    owner: Text | None = Field(None, description="For whom it is.")


class ShellFields(Body):
    """A command for the shell."""

    type: Literal["shell"]
    cmd: Cmd
    env: Env = None
    cwd: Cwd = None


class PythonFields(Body):
    """A Python function, called in a process of its own."""

    type: Literal["python"]
    callable: Callable_
    args: Args = None
    kwargs: Kwargs = None


class OtherFields(Body):
    """A job for another executor; every field that is not named here is that executor's."""

    model_config = ConfigDict(extra="allow")

    type: Annotated[
        TypeName, _shown({"type": "string", "pattern": TYPE_PATTERN.replace("^", "^(?!(shell|python|task)$)")})
    ]


class Submission(FlatBody, TimesBody):
    """What every job sent to POST /jobs may say."""

    idempotency_key: IdempotencyKey | None = Field(
        None, description="Sent again with the same key and body, the first job is the answer.  Kept for 7 days."
    )
    schedule_cron: Annotated[CronText, WithJsonSchema(_CRON_SCHEMA)] | None = Field(
        None, description="Run it again and again, at these times (UTC).  Makes a schedule; not with `scheduled_at`."
    )

    @field_validator("schedule_cron")
    @classmethod
    def _says_when(cls, cron: str | None, info: ValidationInfo) -> str | None:
        for rival in ("scheduled_at", "delay_s", "expires_at"):
            if cron is not None and info.data.get(rival) is not None:
                raise ValueError(f"give schedule_cron or {rival}, not both")
        return cron


class ShellJob(ShellFields, Submission):
    """A command for the shell."""


class PythonJob(PythonFields, Submission):
    """A Python function, called in a process of its own."""


class OtherJob(OtherFields, Submission):
    """A job for another executor; every field that is not named here is that executor's."""

    model_config = ConfigDict(extra="allow")  # of two parents the last one would decide


class SubmitJob(RootModel[ShellJob | PythonJob | OtherJob]):
    """A job to run."""


MODELS: Final[dict[object, type[Submission]]] = {"shell": ShellJob, "python": PythonJob}
COMMON: Final = frozenset(Submission.model_fields) - {"timeout_s"} | {"type"}
