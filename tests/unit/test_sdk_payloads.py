"""What cannot be sent is refused with its place, and what to do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from taskflow import NotJson, task
from taskflow.payloads import encode_payload
from taskflow.submission import new_job
from taskflow.tasks import registry


@dataclass
class Point:
    """Some data."""

    x: int


class Model(BaseModel):
    """Some more."""

    x: int = 1


class Colour(Enum):
    """A choice."""

    RED = "red"


@task(name="test_sdk_payloads.send")
def send(to: Any, /, *, when: Any = None, more: Any = None) -> None:
    """A task."""


@task(name="test_sdk_payloads.whole")
def whole(payload: Any, /) -> None:
    """A task that takes one payload."""


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (datetime(2026, 1, 2, tzinfo=UTC), "datetime is not JSON; convert it, e.g. value.isoformat()"),
        (date(2026, 1, 2), "date is not JSON; convert it, e.g. value.isoformat()"),
        (timedelta(1), "timedelta is not JSON; convert it, e.g. value.total_seconds()"),
        (Decimal(1), "Decimal is not JSON; convert it, e.g. str(value)"),
        (UUID(int=1), "UUID is not JSON; convert it, e.g. str(value)"),
        (Path("x"), "PosixPath is not JSON; convert it, e.g. str(value)"),
        (b"x", "bytes is not JSON; convert it, e.g. base64.b64encode(value).decode()"),
        ({1, 2}, "set is not JSON; convert it, e.g. sorted(value)"),
        (Point(1), "Point is not JSON; convert it, e.g. dataclasses.asdict(value)"),
        (Model(), 'Model is not JSON; convert it, e.g. value.model_dump(mode="json")'),
        (Colour.RED, "Colour is not JSON; convert it, e.g. value.value"),
        (object(), "object is not JSON; convert it, e.g. to a dict, list, str, int, float, bool or None"),
        (float("nan"), "JSON has no nan; send None or a text in its place"),
        ("a\0b", "a payload cannot hold a NUL character"),
        ({1: 2}, "a payload's keys are strings, not 1"),
    ],
)
def test_the_message_says_how_to_convert(value: Any, advice: str) -> None:
    """For what people send."""
    with pytest.raises(NotJson, match=f"^{re.escape('payload: ' + advice)}$"):
        encode_payload(value)


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: send.prepare("ann", when={1}), "kwargs.when"),
        (lambda: send.prepare({"a": [1, {"b": {2}}]}), "args[0].a[1].b"),
        (lambda: send.prepare("ann", more=[None, (1, {3})]), "kwargs.more[1][1]"),
        (lambda: whole.prepare({"x": {1}}), "args[0].x"),
    ],
)
def test_the_message_names_the_place(call: Any, place: str) -> None:
    """As it stands in the call."""
    with pytest.raises(NotJson, match=f"^{re.escape(place)}: set is not JSON"):
        new_job(call(), "id", registry)


def test_what_contains_itself_or_is_too_large_is_told_soon() -> None:
    """However it branches, and however deep it is."""
    knot: list[Any] = []
    knot += [knot, knot]
    deep: list[Any] = []
    for _ in range(50_000):
        deep = [deep]
    for value, reason in ((knot, "65,536 bytes|100 levels"), (deep, "100 levels"), ("x" * 70_000, "65,536 bytes")):
        with pytest.raises(NotJson, match=reason):
            encode_payload(value)


def test_what_is_json_is_sent_as_it_is() -> None:
    """Compact, in UTF-8; tuples are lists."""
    assert encode_payload({"a": (1, 2.5, None, True), "ü": "ß"}) == '{"a":[1,2.5,null,true],"ü":"ß"}'.encode()
