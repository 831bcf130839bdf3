"""What a shell job and a Python job may ask for.

The same rules at the door, where a fault is told to whoever sends the job, and in the worker, which believes nobody.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from taskflow_domain.commands import denied_command

CMD_MAX_BYTES: Final = 65_536
ENV_MAX_BYTES: Final = 100_000  # Linux starts nothing with a variable of more than 128 KiB, its name included
MAX_TIMEOUT_S: Final = 365 * 86_400
RESERVED_ENV_PREFIX: Final = "TASKFLOW_"

_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUL: Final = "must not hold a NUL character"

Fault = tuple[str, str]  # the field, as a path such as `env.HOME` ("": the whole), and what to do about it


def executor_faults(type: str, payload: object, denylist: Sequence[str] = ()) -> list[Fault]:
    """What is wrong with the fields of a job for the executor `type`; nothing for executors that are not built in."""
    fields = _FIELDS.get(type)
    if fields is None:
        return []
    required, checks = fields
    if not isinstance(payload, Mapping):
        return [("", f"must be an object with the field {required}")]
    faults: list[Fault] = []
    if required not in payload:
        faults.append((required, f"is required: {_WANTED[required]}"))
    for name, value in payload.items():
        if name == "type" and value == type:
            continue
        check = checks.get(name)
        faults += [(str(name), _no_such_field(checks))] if check is None else check(name, value)
    if type == "shell" and not any(name == "cmd" for name, _ in faults):
        faults += _denied(payload["cmd"], denylist)
    return faults


def _cmd(name: str, value: object) -> list[Fault]:
    if not isinstance(value, str) or not value.strip():
        return [(name, f"must be {_WANTED['cmd']}")]
    if "\0" in value:
        return [(name, _NUL)]
    if not _encodes(value):
        return [(name, "must not hold half a surrogate pair")]
    if len(value.encode()) > CMD_MAX_BYTES:
        return [(name, f"may take {CMD_MAX_BYTES:,} bytes, no more: put a longer script into a file, and run that")]
    return []


def _denied(cmd: str, denylist: Sequence[str]) -> list[Fault]:
    entry = denied_command(cmd, denylist)
    if entry is None:
        return []
    return [("cmd", f"uses {entry}, which DENYLIST_CMDS forbids here: do without it, or have it taken off that list")]


def _env(name: str, value: object) -> list[Fault]:
    if not isinstance(value, Mapping):
        return [(name, 'must be an object of texts such as {"LEVEL": "3"}, or be left out')]
    return [
        (f"{name}.{key}", sentence)
        for key, text in value.items()
        if (sentence := _env_name_fault(key) or _env_value_fault(text))
    ]


def _env_name_fault(name: object) -> str | None:
    if not isinstance(name, str) or not _ENV_NAME.fullmatch(name):
        return "is no variable's name: use letters, digits and underscores, and no digit first"
    if name.startswith(RESERVED_ENV_PREFIX):
        return f"is set by TaskFlow itself: choose a name that does not begin with {RESERVED_ENV_PREFIX}"
    return None


def _env_value_fault(value: object) -> str | None:
    if isinstance(value, bool | int | float):
        shown = str(value).lower() if isinstance(value, bool) else repr(value)
        return f'must be a text: write "{shown}", in quotes'
    if not isinstance(value, str):
        return "must be a text"
    if "\0" in value:
        return _NUL
    if not _encodes(value):
        return "must not hold half a surrogate pair"
    if len(value.encode()) > ENV_MAX_BYTES:
        return f"may take {ENV_MAX_BYTES:,} bytes, no more: put what is longer into a file"
    return None


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _cwd(name: str, value: object) -> list[Fault]:
    if not isinstance(value, str) or not value.startswith("/") or not _encodes(value):
        return [(name, "must be an absolute path such as /srv/data, or be left out")]
    return [(name, _NUL)] if "\0" in value else []


def _timeout_s(name: str, value: object) -> list[Fault]:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if 0 < number <= MAX_TIMEOUT_S:
        return []
    return [(name, f"must be a number of seconds above 0, at most {MAX_TIMEOUT_S:,} (a year), or be left out")]


def _callable(name: str, value: object) -> list[Fault]:
    module, colon, attributes = value.partition(":") if isinstance(value, str) else ("", "", "")
    if colon and all(part.isidentifier() for part in (*module.split("."), *attributes.split("."))):
        return []
    return [(name, f"must be {_WANTED['callable']}")]


def _args(name: str, value: object) -> list[Fault]:
    return [] if isinstance(value, list | tuple) else [(name, "must be an array such as [1, 2], or be left out")]


def _kwargs(name: str, value: object) -> list[Fault]:
    if not isinstance(value, Mapping):
        return [(name, 'must be an object such as {"name": "value"}, or be left out')]
    return [
        (f"{name}.{key}", "is no argument's name: use letters, digits and underscores, and no digit first")
        for key in value
        if not isinstance(key, str) or not key.isidentifier()
    ]


def _no_such_field(checks: Mapping[str, object]) -> str:
    return f"there is no such field: there are {', '.join(checks)}"


_Check = Callable[[str, object], list[Fault]]
_SHELL: Final[dict[str, _Check]] = {"cmd": _cmd, "env": _env, "cwd": _cwd, "timeout_s": _timeout_s}
_PYTHON: Final[dict[str, _Check]] = {"callable": _callable, "args": _args, "kwargs": _kwargs, "timeout_s": _timeout_s}
_FIELDS: Final = {"shell": ("cmd", _SHELL), "python": ("callable", _PYTHON)}
_WANTED: Final = {
    "cmd": "a command for the shell, such as echo hello",
    "callable": "a function's place, such as package.module:function",
}
