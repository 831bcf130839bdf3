"""Structured logs on stdout: one JSON object a line, or coloured lines for a terminal.

Each line has `ts, level, component, event`, and `job_id`, `worker_id` where they are bound; then what the call
added.  The standard library's loggers (uvicorn, redis) come out the same way.  Passwords in URLs are masked.
Logging never fails its caller: a value that has no JSON form is shown by its repr, and a reader that went
away is ignored.
"""

import logging
import os
import sys
import traceback
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any, BinaryIO

import orjson

from taskflow_runtime.masking import mask
from taskflow_runtime.slim_structlog import structlog

EventDict = MutableMapping[str, Any]
Log = structlog.typing.FilteringBoundLogger

_FIRST = ("ts", "level", "component", "job_id", "worker_id", "event")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_CHATTY = ("uvicorn", "asyncio", "redis")  # their info lines are about themselves; ours say the same


def configure(component: str, level: str = "info", log_format: str = "auto", out: BinaryIO | None = None) -> None:
    """Set up logging for this process.  Call once, before the first line."""
    stream = out or sys.stdout.buffer
    pretty = log_format == "pretty" or (log_format == "auto" and stream.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _head(component),
            *([_pretty(colors=_wants_color(stream))] if pretty else [_exception, _json]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=lambda *_: _Lines(stream),
        cache_logger_on_first_use=False,  # a test, or a process that forked, may configure again
    )
    logging.basicConfig(handlers=[_Bridge()], level=_LEVELS[level], force=True)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING if level == "info" else logging.NOTSET)


def get_log(**fields: Any) -> Log:
    """A logger with these fields bound."""
    log: Log = structlog.get_logger().bind(**fields)
    return log


def bind(**fields: Any) -> None:
    """Add fields, such as `worker_id`, to every line of this task and of those it starts."""
    structlog.contextvars.bind_contextvars(**fields)


def now() -> str:
    """The time as TaskFlow writes it everywhere: UTC, milliseconds, fixed width."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


class _Lines:
    """Writes whole lines, each with one call, so lines of several threads never mix."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        try:
            self._stream.write(f"{mask(line)}\n".encode(errors="backslashreplace"))
            self._stream.flush()
        except (OSError, ValueError):  # the reader is gone, or the stream is closed; the work goes on
            return

    debug = info = warning = error = critical = log = msg


class _Bridge(logging.Handler):
    """Hands a record of the standard library to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:
            message = str(record.msg)
        level = min(record.levelno // 10 * 10, logging.CRITICAL)  # a level of somebody's own goes to the next below
        get_log(logger=record.name).log(level, message, exc_info=record.exc_info)


def _head(component: str) -> Callable[[object, str, EventDict], EventDict]:
    def put_first(_logger: object, _method: str, event: EventDict) -> EventDict:
        event["ts"] = now()
        event.setdefault("component", component)
        return {name: event.pop(name) for name in _FIRST if name in event} | dict(event)

    return put_first


def _exception(_logger: object, _method: str, event: EventDict) -> EventDict:
    """The exception as one field: type, message and stack."""
    info = event.pop("exc_info", None)
    if info is True:
        info = sys.exc_info()
    error = info[1] if isinstance(info, tuple) else info
    if isinstance(error, BaseException):
        event["exception"] = {
            "type": type(error).__qualname__,
            "message": str(error),
            "stack": "".join(traceback.format_exception(error)),
        }
    return event


def _json(_logger: object, _method: str, event: EventDict) -> str:
    try:
        return _dump(event)
    except TypeError:  # an integer beyond 64 bits, half of a surrogate pair: show the odd fields by their repr
        return _dump({_tame(key): _tame(value) for key, value in event.items()})


def _tame(value: object) -> object:
    try:
        _dump(value)
    except TypeError:
        return repr(value).encode(errors="backslashreplace").decode()
    return value


def _dump(value: object) -> str:
    return orjson.dumps(value, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()


def _pretty(colors: bool) -> structlog.dev.ConsoleRenderer:
    return structlog.dev.ConsoleRenderer(
        colors=colors,
        timestamp_key="ts",
        sort_keys=False,
        pad_event_to=24,
        exception_formatter=structlog.dev.plain_traceback,
    )


def _wants_color(stream: BinaryIO) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return stream.isatty() or bool(os.environ.get("FORCE_COLOR"))
