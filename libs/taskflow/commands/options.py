"""Options that many commands share, and how what people type becomes what the api takes."""

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

import typer

CONNECTION: Final = "Connection"
NONE: Final = "none"  # what people say to take a setting back
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
T = TypeVar("T")

ApiUrl = Annotated[
    str | None,
    typer.Option(
        "--api",
        metavar="URL",
        envvar="TASKFLOW_API_URL",
        show_envvar=False,
        rich_help_panel=CONNECTION,
        help="Where the api is; unset: the `taskflow up` of this directory, or port 8000 here  [TASKFLOW_API_URL]",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="TASKFLOW_API_TOKEN",
        show_envvar=False,
        rich_help_panel=CONNECTION,
        help="The token that the api asks for  [TASKFLOW_API_TOKEN]",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs")]


def duration_s(text: str) -> float:
    """Seconds: `90`, `1.5`, `250ms`, `5m`, `1h30m`."""
    try:
        return _not_negative(float(text))
    except ValueError:
        parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise typer.BadParameter(f"{text!r} is no duration; write seconds, or a form such as 250ms, 5m or 1h30m.")
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def _not_negative(seconds: float) -> float:
    if not 0 <= seconds < float("inf"):
        raise ValueError(seconds)
    return seconds


def moment(text: str) -> datetime:
    """A time in ISO 8601; without an offset it is local, as on the clock beside the keyboard."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is no time; write it like 2026-01-31T18:00 or 2026-01-31T18:00Z.") from None


def iso(at: datetime) -> str:
    """A time as the api takes it."""
    return at.isoformat(timespec="milliseconds")


def or_none(parse: Callable[[str], T]) -> Callable[[str], T | str]:
    """The same, but for `none`."""

    def parsed(text: str) -> T | str:
        return NONE if text.lower() == NONE else parse(text)

    return parsed


def whole(text: str) -> int:
    """A number of things, from 0."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise typer.BadParameter(f"{text[:40]!r} is no number of them; give a whole number, such as 3, or none.")
    return int(text)


def whole_number(text: str) -> int:
    """A whole number, also one below 0."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise typer.BadParameter(f"{text[:40]!r} is no whole number; give one such as 3, or none.")
    return int(text)


def said(**fields: Any) -> dict[str, Any]:
    """What was said, without what was not; `none` is null."""
    return {name: None if value == NONE else value for name, value in fields.items() if value is not None}


def assignment(text: str, what: str) -> tuple[str, str]:
    """`name=value` as a pair."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{text!r} gives no {what}; write it as name=value.")
    return name, value


def variable(text: str) -> tuple[str, str]:
    """`NAME=value`, or `NAME` for the value that it has here."""
    if "=" in text or not text:
        return assignment(text, "variable")
    if text not in os.environ:
        raise typer.BadParameter(f"{text} is not set here; set it, or write {text}=value.")
    return text, os.environ[text]


def json_or_text(text: str) -> Any:
    """The JSON value that a text spells, or else the text itself; NaN and its like are text, for JSON has none."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise typer.BadParameter(
            f"{text[:40]!r} holds a number that is too large; send it as a text in quotes."
        ) from None
    return value


def json_value(text: str) -> Any:
    """The JSON value that a text spells."""
    try:
        value = json.loads(text, parse_constant=_refuse)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        raise typer.BadParameter(f"{text[:40]!r} is no JSON; write it like '{{\"day\": 1}}'.") from None
    return value


def _refuse(constant: str) -> None:
    raise ValueError(constant)
