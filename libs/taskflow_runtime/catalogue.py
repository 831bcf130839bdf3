"""Every setting there is, of all services; `python -m taskflow_runtime.catalogue` prints `.env.example`.

Services are found by their entry points, for this library is below them and knows none by name.
"""

import sys
from importlib import import_module, metadata
from textwrap import wrap

from pydantic.fields import FieldInfo

from taskflow_runtime.settings import Settings
from taskflow_runtime.sources import PLAIN_NAMES, variable

HEAD = """\
# Every setting of TaskFlow with its default.  Copy this file to `.env` and uncomment what you change.
#
# The command line beats the environment, the environment beats `.env`, and `.env` beats `taskflow.yaml` (or the file
# that TASKFLOW_CONFIG names), where `heartbeat_s: 5` stands for TASKFLOW_HEARTBEAT_S=5.
#
# DATABASE_URL is read as TASKFLOW_REDIS_URL when nothing else names the server and its scheme is redis, rediss or unix.
#
# This file is written by `python -m taskflow_runtime.catalogue > .env.example`.
"""


def services_settings() -> dict[str, type[Settings]]:
    """The settings class of each service; `Settings` itself for one that has none of its own."""
    entries = sorted(metadata.entry_points(group="taskflow.services"), key=lambda entry: entry.name)
    return {entry.name: _settings_beside(entry.module) for entry in entries}


def render() -> str:
    """The text of `.env.example`."""
    parts = [HEAD, _section("All services", list(Settings.model_fields), Settings)]
    for service, cls in services_settings().items():
        own = [field for field in cls.model_fields if field not in Settings.model_fields]
        if own:
            parts.append(_section(service, own, cls))
    return "\n".join(parts)


def _settings_beside(main_module: str) -> type[Settings]:
    module = f"{main_module.rpartition('.')[0]}.settings"
    try:
        names = vars(import_module(module))
    except ModuleNotFoundError as error:
        if error.name not in (module, module.rpartition(".")[0]):
            raise
        return Settings
    own = [value for value in names.values() if isinstance(value, type) and issubclass(value, Settings)]
    return max(own, key=lambda cls: len(cls.model_fields), default=Settings)


def _section(title: str, fields: list[str], cls: type[Settings]) -> str:
    lines = ["", f"# --- {title} ".ljust(119, "-")]
    for field in fields:
        lines += ["", *_entry(field, cls.model_fields[field])]
    return "\n".join(lines) + "\n"


def _entry(field: str, info: FieldInfo) -> list[str]:
    about = info.description or ""
    if field.upper() in PLAIN_NAMES:
        about += f"  Also read as {field.upper()}."
    return [
        *(f"# {line}" for line in wrap(about, 117)),
        f"# {variable(field)}={_written(info.get_default(call_default_factory=True))}",
    ]


def _written(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.stdout.write(render())
