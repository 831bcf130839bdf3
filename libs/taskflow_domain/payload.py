"""Payloads: any JSON value, as compact UTF-8, within a size and a depth.

What would not survive the way to another reader is refused here with a sentence: NaN and infinities, lone
surrogates, NUL characters, keys that are no strings, and nesting that overflows a parser's stack.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final

PAYLOAD_MAX_BYTES: Final = 65_536
PAYLOAD_MAX_DEPTH: Final = 100  # arrays and objects within one another; parsers commonly give up at 128 to 1,000

_COMPACT: Final = json.JSONEncoder(
    ensure_ascii=False,
    allow_nan=False,
    check_circular=False,  # bounded depth has ruled circles out already
    separators=(",", ":"),
)


def payload_bytes(value: object, max_bytes: int = PAYLOAD_MAX_BYTES) -> bytes:
    """`value` as compact UTF-8 JSON.  Raises ValueError for what JSON cannot carry, or not in `max_bytes`."""
    _inspect(value, max_bytes)
    try:
        encoded = _COMPACT.encode(value).encode()
    except UnicodeEncodeError:
        raise ValueError("a payload cannot hold half a surrogate pair") from None
    except TypeError as error:
        raise ValueError(f"a payload holds JSON values only: {error}") from None
    except ValueError:
        raise ValueError("a payload cannot hold NaN, an infinity or a number of thousands of digits") from None
    if len(encoded) > max_bytes:
        raise _too_large(max_bytes)
    return encoded


def _inspect(value: object, max_bytes: int) -> None:
    """Look at each level of nesting in turn, without recursion.

    Every value takes a byte at least, so counting values bounds the walk, even where one contains itself.
    """
    level, seen = [value], 1
    for _ in range(PAYLOAD_MAX_DEPTH + 1):
        below: list[object] = []
        containers = False
        for node in level:
            if isinstance(node, str):
                _refuse_nul(node)
            elif isinstance(node, dict | list | tuple):
                containers = True
                below.extend(_children(node))
        if not containers:
            return
        seen += len(below)
        if seen > max_bytes:
            raise _too_large(max_bytes)
        level = below
    raise ValueError(f"a payload may be nested {PAYLOAD_MAX_DEPTH} levels deep, no more")


def _children(container: dict[object, object] | Sequence[object]) -> Iterable[object]:
    if not isinstance(container, dict):
        return container
    for key in container:
        if not isinstance(key, str):
            raise ValueError(f"a payload's keys are strings, not {key!r}")
        _refuse_nul(key)
    return container.values()


def _refuse_nul(text: str) -> None:
    if "\0" in text:
        raise ValueError("a payload cannot hold a NUL character")


def _too_large(max_bytes: int) -> ValueError:
    return ValueError(f"a payload may take {max_bytes:,} bytes as compact UTF-8 JSON, no more")
