"""The settings all services share, read once.

The command line beats the environment, which beats `.env`, which beats `taskflow.yaml` (or the file that
`TASKFLOW_CONFIG` names), which beats the defaults.  A value that is not allowed is told in a sentence.
"""

import re
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, TypeVar

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from taskflow_runtime.errors import BadSetting
from taskflow_runtime.sentences import explain
from taskflow_runtime.sources import PREFIX, Layer, is_broker_url, layers, variable

S = TypeVar("S", bound="Settings")

# The pieces of a regular expression: what is escaped, a set, what stands in braces, any other character.
_PIECES: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{[^{}]*\}|.", re.DOTALL)


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _split_patterns(value: object) -> object:
    """Cut at commas that are neither in brackets nor escaped: the others belong to a regular expression."""
    if not isinstance(value, str):
        return value
    patterns, depth = [""], 0
    for piece in _PIECES.findall(value):
        depth += (piece == "(") - (piece == ")")
        if piece == "," and depth <= 0:
            patterns.append("")
        else:
            patterns[-1] += piece
    return tuple(pattern.strip() for pattern in patterns if pattern.strip())


def _level(value: object) -> object:
    level = value.lower() if isinstance(value, str) else value
    return "warning" if level == "warn" else level


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
CommaList = Annotated[tuple[str, ...], BeforeValidator(_split)]
PatternList = Annotated[tuple[str, ...], BeforeValidator(_split_patterns)]
LogLevel = Annotated[Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(_level)]
LogFormat = Literal["auto", "json", "pretty"]
Port = Annotated[int, Field(ge=0, le=65535)]


class Address(NamedTuple):
    """Where to listen, and the setting to change when that cannot be."""

    host: str
    port: int
    setting: str


class _Layered(PydanticBaseSettingsSource):
    """One layer of what was found, in the form pydantic-settings wants."""

    def __init__(self, settings_cls: type[BaseSettings], layer: Layer) -> None:
        super().__init__(settings_cls)
        self._layer = layer

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        found = self._layer.get(field_name)
        return (found.value if found else None), field_name, False

    def __call__(self) -> dict[str, Any]:
        return {field: found.value for field, found in self._layer.items()}


class Settings(BaseSettings):
    """What every service needs to know.  A service adds its own fields in a subclass."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix=PREFIX, hide_input_in_errors=True)

    redis_url: str = Field(
        "redis://127.0.0.1:6379/0",
        repr=False,
        description="The Redis or Valkey server: redis://, rediss:// (TLS) or unix:// (a socket).",
    )
    namespace: str = Field(
        "tf",
        pattern=r"^[A-Za-z0-9_.-]{1,32}$",
        description="What all keys begin with; two namespaces on one server never meet.",
    )
    partitions: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None, description="Independent engines the work is spread over; can only grow.  Unset: as many as there are."
    )
    api_token: SecretStr | None = Field(
        None, description="The bearer token that clients of the api must send; unset asks for none."
    )
    log_level: LogLevel = Field("info", description="The least important level that is logged.")
    log_format: LogFormat = Field(
        "auto", description="json: one object a line; pretty: for people; auto: pretty on a terminal, else json."
    )
    health_host: str = Field("127.0.0.1", min_length=1, description="Where /healthz, /readyz and /metrics listen.")
    health_port: Port = Field(0, description="Their port; 0 finds a free one and logs it.")
    ready_within_s: Seconds = Field(
        10, description="Readiness ends when the broker has not been read successfully for so long."
    )
    stop_grace_s: float = Field(
        10,
        ge=0,
        allow_inf_nan=False,
        description="Time to finish what is in hand after SIGTERM; the rest goes back to the queue.",
    )
    heartbeat_s: Seconds = Field(5, description="Pause between two heartbeats of a worker.")
    lease_renewal_s: Seconds = Field(5, description="Pause between two renewals of a lease.")
    visibility_timeout_s: Seconds = Field(
        15, description="Silence after which a lease is lost and its job goes to another worker."
    )
    denylist_cmds: CommaList = Field(
        (), description="Commands that shell jobs may not use, such as rm,shutdown.  A guard rail, not a sandbox."
    )

    catchup_limit: int = Field(
        5,
        ge=0,
        le=1000,
        description="Missed fire times that are made up for, of a schedule that does not say how many.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings, *(_Layered(settings_cls, layer) for layer in layers(cls)))

    @property
    def address(self) -> Address:
        """Where the service's one HTTP server listens."""
        return Address(self.health_host, self.health_port, variable("health_port"))

    @field_validator("redis_url")
    @classmethod
    def _is_broker_url(cls, url: str) -> str:
        if not is_broker_url(url):
            raise ValueError("must be a redis://host:port/db, rediss://host:port/db or unix:///path URL")
        return url

    @model_validator(mode="after")
    def _renews_in_time(self) -> Self:
        for field in ("heartbeat_s", "lease_renewal_s"):
            pause: float = getattr(self, field)
            if pause >= self.visibility_timeout_s:
                raise ValueError(
                    f"{variable(field)} ({pause:g}) must be less than {variable('visibility_timeout_s')} "
                    f"({self.visibility_timeout_s:g}), or every lease would be lost before it is renewed."
                )
        return self


def read(settings_class: type[S], **overrides: Any) -> S:
    """The settings as they are now.  An override that is None was not given; a bad value is a `BadSetting`."""
    given = {field: value for field, value in overrides.items() if value is not None}
    try:
        return settings_class(**given)
    except ValidationError as error:
        raise BadSetting(explain(error, settings_class, given)) from None
