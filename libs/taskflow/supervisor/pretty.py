"""A JSON log line as people like to read it: the time of day, the level, the event, then the fields.

What is no such line comes back as it is.  A job's name or error may hold anything, so characters that would steer
the terminal are shown by their code.
"""

from datetime import datetime
from typing import Any

import orjson

_PLAIN, _BOLD, _DIM, _RED, _YELLOW = 0, 1, 2, 31, 33
_LEVELS = {"debug": _DIM, "warning": _YELLOW, "error": _RED, "critical": _RED}
_EVENT_WIDTH = 20


def render(line: bytes, *, colors: bool) -> list[bytes]:
    """The line, or the lines if it holds a traceback."""
    try:
        fields = orjson.loads(line)
    except ValueError:
        return [line]
    if not isinstance(fields, dict) or "event" not in fields:
        return [line]
    paint = _painted if colors else _unpainted
    fields.pop("component", None)  # the prefix says it
    exception = fields.pop("exception", None)
    level = _printable(str(fields.pop("level", "")))
    words = [
        paint(_time_of_day(fields.pop("ts", "")), _DIM),
        paint(f"{level:<8}", _LEVELS.get(level, _PLAIN)),
        paint(f"{_printable(str(fields.pop('event'))):<{_EVENT_WIDTH}}", _BOLD),
        *(f"{paint(f'{_printable(name)}=', _DIM)}{_shown(value)}" for name, value in fields.items()),
    ]
    return [" ".join(words).rstrip().encode(errors="backslashreplace"), *_traceback(exception)]


def _time_of_day(ts: object) -> str:
    try:
        return datetime.fromisoformat(str(ts)).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return _printable(str(ts))


def _shown(value: object) -> str:
    if isinstance(value, str) and value and not any(character.isspace() for character in value):
        return _printable(value)
    return _printable(orjson.dumps(value).decode())


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _traceback(exception: Any) -> list[bytes]:
    stack = exception.get("stack", "") if isinstance(exception, dict) else exception or ""
    return [_printable(line).encode(errors="backslashreplace") for line in str(stack).splitlines()]


def _painted(text: str, color: int) -> str:
    return f"\x1b[{color}m{text}\x1b[0m" if color else text


def _unpainted(text: str, _color: int) -> str:
    return text
