"""A job's payload as JSON, or a sentence that names the place of what JSON cannot hold, and what to do about it."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from taskflow.errors import NotJson
from taskflow_domain import PAYLOAD_MAX_BYTES, payload_bytes

_ADVICE: Final[tuple[tuple[tuple[type, ...], str], ...]] = (
    ((date, time), "value.isoformat()"),
    ((timedelta,), "value.total_seconds()"),
    ((UUID, PurePath, Decimal), "str(value)"),
    ((bytes, bytearray, memoryview), "base64.b64encode(value).decode()"),
    ((set, frozenset), "sorted(value)"),
    ((Enum,), "value.value"),
    ((Mapping,), "dict(value)"),
)


def encode_payload(value: Any, place: str = "payload") -> bytes:
    """Compact JSON.  Raises NotJson, which is a ValueError, for what JSON cannot carry, or not in the size allowed."""
    try:
        return payload_bytes(value)
    except ValueError as error:
        for where, why in _faults(value, place):
            raise NotJson(f"{where}: {why}" if where else why) from None
        raise NotJson(f"{place}: {error}" if place else str(error)) from None


def _faults(whole: Any, place: str) -> Iterator[tuple[str, str]]:
    """What is wrong, and where, in order.  Each container is looked at once, even where one contains itself."""
    seen: set[int] = set()
    ahead = [(place, whole)]
    while ahead and len(seen) <= PAYLOAD_MAX_BYTES:
        where, value = ahead.pop()
        if isinstance(value, float) and not math.isfinite(value):
            yield where, f"JSON has no {value!r}; send None or a text in its place"
        elif isinstance(value, str) and "\0" in value:
            yield where, "a payload cannot hold a NUL character"
        elif isinstance(value, dict | list | tuple) and id(value) not in seen:
            seen.add(id(value))
            odd = [key for key in value if not isinstance(key, str)] if isinstance(value, dict) else []
            if odd:
                yield where, f"a payload's keys are strings, not {odd[0]!r}"
            ahead += reversed(_parts(where, value))
        elif not (value is None or isinstance(value, bool | int | float | str | dict | list | tuple)):
            yield where, f"{type(value).__name__} is not JSON; convert it, e.g. {_advice(value)}"


def _parts(place: str, container: Any) -> list[tuple[str, Any]]:
    if isinstance(container, dict):
        return [(f"{place}.{key}" if place else str(key), inner) for key, inner in container.items()]
    return [(f"{place}[{i}]", inner) for i, inner in enumerate(container)]


def _advice(value: Any) -> str:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return "dataclasses.asdict(value)"
    if hasattr(value, "model_dump"):
        return 'value.model_dump(mode="json")'
    if hasattr(value, "id") and hasattr(value, "result"):
        return "value.id"
    for kinds, advice in _ADVICE:
        if isinstance(value, kinds):
            return advice
    return "to a dict, list, str, int, float, bool or None"
