"""Read a request's query string: known parameters, each once, each of its type."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from taskflow_api.errors import Detail, Invalid
from taskflow_api.parse import printable

Reader = Callable[[str], Any]

_INTEGER: Final = re.compile(r"-?[0-9]+")
_NUMBER: Final = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,60})?(?:[eE][+-]?[0-9]{1,3})?")
_LONG_DIGITS: Final = 30  # an integer longer than this is as good as infinite, and slow to read


def read_query(request: Request, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """The parameters that were given, read; `Invalid` with everything that is wrong with them."""
    raw: bytes = request.scope["query_string"]
    if not raw:
        return {}
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict")
    except UnicodeError:
        raise Invalid("The query string is not valid UTF-8.") from None
    found: dict[str, Any] = {}
    faults: list[Detail] = []
    for name, text in pairs:
        try:
            if name not in readers:
                raise ValueError("there is no such query parameter here")
            if name in found:
                raise ValueError("is given twice")
            found[name] = None
            found[name] = readers[name](text)
        except ValueError as error:
            faults.append(Detail(printable(name), str(error)))
    if faults:
        raise Invalid.of(faults)
    return found


def integer(least: int | None = None, most: int | None = None) -> Reader:
    """Reads a whole number within bounds."""

    def read(text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise ValueError("must be a whole number")
        number = int(text) if len(text) <= _LONG_DIGITS else int(text[:_LONG_DIGITS])
        if (least is not None and number < least) or (most is not None and number > most):
            raise ValueError(f"must be {least} to {most}" if most is not None else f"must be {least} or more")
        return number

    return read


def seconds(least: float, most: float) -> Reader:
    """Reads a number of seconds within bounds."""

    def read(text: str) -> float:
        if not _NUMBER.fullmatch(text) or not least <= (number := float(text)) <= most:
            raise ValueError(f"must be a number from {least:g} to {most:g}")
        return number

    return read


def one_of(words: Sequence[str]) -> Reader:
    """Reads one of these words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return text

    return read


def matching(pattern: str) -> Reader:
    """Reads a text of a certain shape."""
    shape = re.compile(pattern.removesuffix("$"))

    def read(text: str) -> str:
        if not shape.fullmatch(text):
            raise ValueError(f"must match {pattern}")
        return text

    return read
