"""Read a request's body: within its limit, and as strict JSON.

What two readers could understand differently is refused with a sentence: doubled keys, NaN, text that is no
UTF-8, half of a surrogate pair, NUL.  Integers of any length stay exact.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from starlette.requests import Request

from taskflow_api.errors import Invalid, TooLarge

# Browsers send other types, and bodies without one, across sites and without asking; they ask before sending these.
_JSON_TYPE: Final = re.compile(r"application/(?:[\w.+-]+\+)?json\s*(?:;|$)", re.IGNORECASE)
_SUSPECT_ESCAPE: Final = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


async def read_object(request: Request, limit_bytes: int) -> dict[str, Any]:
    """The JSON object in a request's body."""
    _check_type(request)
    return _object_in(await read_body(request, limit_bytes))


async def read_any_object(request: Request, limit_bytes: int) -> dict[str, Any]:
    """The same where nothing has to be said: no body is an empty object."""
    raw = await read_body(request, limit_bytes)
    if not raw:
        return {}
    _check_type(request)
    return _object_in(raw)


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """The whole body; more than the limit is not even read."""
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced) > limit_bytes:
        raise _too_large(limit_bytes)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit_bytes:
            raise _too_large(limit_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


def _check_type(request: Request) -> None:
    if not _JSON_TYPE.match(request.headers.get("content-type", "")):
        raise Invalid.field("Content-Type", "send JSON, with the header Content-Type: application/json")


def _object_in(raw: bytes) -> dict[str, Any]:
    value = parse_json(raw)
    if not isinstance(value, dict):
        raise Invalid(f"The body must be a JSON object, not {_kind(value)}.")
    return value


def parse_json(raw: bytes) -> Any:
    """The JSON value in `raw`."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"The body is not valid UTF-8: byte {error.start} does not belong there.") from None
    if not text.strip():
        raise Invalid("The body is empty; send a JSON object.")
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Invalid(f"The body is not valid JSON: {error.msg} at {where}.") from None
    except RecursionError:
        raise Invalid("The body is nested too deeply.") from None
    except ValueError:  # Python's guard: the time such a number takes grows with its square
        raise Invalid("The body holds a number of more than 4,300 digits.") from None
    if _SUSPECT_ESCAPE.search(text):
        _refuse_bad_text(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise Invalid.field(printable(key), "the body has this key twice in one object")
            seen.add(key)
    return members


def _constant(name: str) -> None:
    raise Invalid(f"The body is not valid JSON: {name} is not a JSON number.")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


def _refuse_bad_text(value: Any) -> None:
    for path, text in _texts(value):
        if "\0" in text:
            raise Invalid.field(path, "a text cannot hold a NUL character")
        if _SURROGATE.search(text):
            raise Invalid.field(path, "a text cannot hold half of a surrogate pair")


def _texts(root: Any) -> Iterator[tuple[str, str]]:
    """Every text in a JSON value, keys too, with its path."""
    stack: list[tuple[str, Any]] = [("", root)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, dict):
            for key, below in value.items():
                inner = join_path((path, key)) if path else printable(key)
                yield inner, key
                stack.append((inner, below))
        elif isinstance(value, list):
            stack.extend((f"{path}[{i}]", below) for i, below in enumerate(value))


def join_path(parts: Iterable[str | int]) -> str:
    """A field's path: `jobs[2].retry_policy.max_attempts`."""
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{printable(part)}" if path else printable(part)
    return path


def printable(text: str) -> str:
    """A name from outside, short and fit for an answer."""
    shown = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return shown if len(shown) <= 200 else f"{shown[:200]}…"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    kinds = ((bool, "a boolean"), (str, "a string"), (list, "an array"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "a number")


def _too_large(limit_bytes: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit_bytes:,} bytes, the most that is accepted here.")
