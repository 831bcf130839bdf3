"""What every service shares: settings, logs, health, the run loop and the two-stage stop.

The names are loaded when they are first used, so reading a setting does not cost the import of a Redis client.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taskflow_runtime.door import DoorSettings
    from taskflow_runtime.errors import BadSetting, Refusal
    from taskflow_runtime.health import Health
    from taskflow_runtime.lifecycle import run
    from taskflow_runtime.service import Service
    from taskflow_runtime.settings import Address, CommaList, PatternList, Seconds, Settings, read

__all__ = [
    "Address",
    "BadSetting",
    "CommaList",
    "DoorSettings",
    "Health",
    "PatternList",
    "Refusal",
    "Seconds",
    "Service",
    "Settings",
    "read",
    "run",
]

_HOMES = {
    "DoorSettings": "door",
    "BadSetting": "errors",
    "Refusal": "errors",
    "Health": "health",
    "run": "lifecycle",
    "Service": "service",
    "Address": "settings",
    "CommaList": "settings",
    "PatternList": "settings",
    "Seconds": "settings",
    "Settings": "settings",
    "read": "settings",
}

if not TYPE_CHECKING:  # a type checker would take it as leave to import any name

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
