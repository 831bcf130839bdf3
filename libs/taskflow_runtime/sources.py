"""Where settings come from: the environment, then `.env`, then a YAML file, each as {field: Found}.

A setting has one name everywhere: field `heartbeat_s` is `TASKFLOW_HEARTBEAT_S` in the environment and in
`.env`, and `heartbeat_s` in the file.  The names in `PLAIN_NAMES` are read without the prefix too.
`DATABASE_URL` names the broker only when nothing else does, for in most environments it belongs to another program.
"""

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from taskflow_runtime.errors import BadSetting
from taskflow_runtime.files import ENV_FILE, read_config_file, read_env_file

if TYPE_CHECKING:
    from taskflow_runtime.settings import Settings

PREFIX = "TASKFLOW_"
PLAIN_NAMES = frozenset({
    "CATCHUP_LIMIT",
    "DENYLIST_CMDS",
    "HEARTBEAT_S",
    "LEASE_RENEWAL_S",
    "LOG_LEVEL",
    "RETRY_MAX_DEFAULT",
    "VISIBILITY_TIMEOUT_S",
    "WORKER_CONCURRENCY",
})  # fmt: skip
DATABASE_URL = "DATABASE_URL"
BROKER_SCHEMES = ("redis", "rediss", "unix")


@dataclass(frozen=True, slots=True)
class Found:
    """A value, the name its author gave it, and the file it stands in ("" for the environment)."""

    value: Any
    name: str
    file: str = ""


Layer = dict[str, Found]


def layers(cls: "type[Settings]") -> list[Layer]:
    """All that was found for the fields of `cls`, the strongest layer first."""
    dotenv = read_env_file()
    path, document = read_config_file(dotenv)
    return [
        _from_variables(cls, os.environ),
        _from_variables(cls, dotenv, str(ENV_FILE)),
        _from_document(cls, document, path),
        _broker_of([(os.environ, ""), (dotenv, str(ENV_FILE)), (_upper(document), str(path))]),
    ]


def foreign_database_url() -> str | None:
    """The scheme of a `DATABASE_URL` that is no broker's, and is therefore ignored."""
    for variables in (os.environ, read_env_file()):
        scheme = _scheme(variables.get(DATABASE_URL))
        if scheme and scheme not in BROKER_SCHEMES:
            return scheme
    return None


def is_broker_url(url: str) -> bool:
    """Whether a Redis client could be given this URL."""
    try:
        parts = urlsplit(url)
        port = parts.port  # parsed only now, and refused if it is no port
    except ValueError:
        return False
    if parts.scheme == "unix":
        return bool(parts.path) and port is None
    return parts.scheme in BROKER_SCHEMES


def variable(field: str) -> str:
    """The environment's name for a field."""
    return PREFIX + field.upper()


def _from_variables(cls: "type[Settings]", variables: Mapping[str, str | None], file: str = "") -> Layer:
    layer: Layer = {}
    for field in cls.model_fields:
        plain = field.upper()
        for name in (variable(field), *({plain} & PLAIN_NAMES)):
            value = variables.get(name)
            if value:  # an empty variable is how a compose file says "not set"
                layer[field] = Found(value, name, file)
                break
    return layer


def _from_document(cls: "type[Settings]", document: Mapping[str, Any], path: Path) -> Layer:
    layer: Layer = {}
    for key, value in document.items():
        field = key.lower().removeprefix(PREFIX.lower())
        if field in cls.model_fields:
            if value is not None:
                layer[field] = Found(value, key, str(path))
        elif field != DATABASE_URL.lower() and field.upper() not in PLAIN_NAMES:
            _check_foreign(field, key, path, set(cls.model_fields))
    return layer


def _check_foreign(field: str, key: str, path: Path, own: set[str]) -> None:
    """One file serves all services, so a key is unknown only if no service has such a setting."""
    from taskflow_runtime.catalogue import services_settings  # loads all services' settings; seldom needed

    known = own.union(*(other.model_fields for other in services_settings().values()))
    if field not in known:
        near = difflib.get_close_matches(field, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise BadSetting(f"{path} has an unknown key {key!r}{hint}")


def _broker_of(places: list[tuple[Mapping[str, Any], str]]) -> Layer:
    for variables, file in places:
        value = variables.get(DATABASE_URL)
        if _scheme(value) in BROKER_SCHEMES:
            return {"redis_url": Found(value, DATABASE_URL, file)}
    return {}


def _scheme(url: object) -> str:
    return url.partition("://")[0].lower() if isinstance(url, str) else ""


def _upper(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key.upper(): value for key, value in document.items()}
