"""Payloads as compact UTF-8 JSON."""

import json
import math
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskflow_domain import PAYLOAD_MAX_BYTES, PAYLOAD_MAX_DEPTH, payload_bytes

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@given(json_values)
def test_a_payload_comes_back_as_it_went_in(value: object) -> None:
    """Any JSON value survives, and strict readers agree that it is JSON."""
    assert json.loads(payload_bytes(value)) == value


def test_a_payload_is_compact_utf_8() -> None:
    """No spaces, no escapes where UTF-8 will do: what users count is what is counted."""
    assert payload_bytes({"a": [1, 2.5, None, True], "é": "日本"}) == '{"a":[1,2.5,null,true],"é":"日本"}'.encode()
    assert payload_bytes({}) == b"{}"


def test_the_last_byte_counts() -> None:
    """65,536 bytes are accepted, one more is not; bytes, not characters."""
    assert len(payload_bytes("x" * (PAYLOAD_MAX_BYTES - 2))) == PAYLOAD_MAX_BYTES == 65_536
    assert len(payload_bytes("é" * ((PAYLOAD_MAX_BYTES - 2) // 2))) == PAYLOAD_MAX_BYTES
    for too_large in ("x" * (PAYLOAD_MAX_BYTES - 1), "é" * (PAYLOAD_MAX_BYTES // 2)):
        with pytest.raises(ValueError, match="65,536 bytes"):
            payload_bytes(too_large)


def test_the_limit_can_be_another() -> None:
    """Other values, such as results, have limits of their own."""
    assert payload_bytes([1, 2], max_bytes=5) == b"[1,2]"
    with pytest.raises(ValueError, match="4 bytes"):
        payload_bytes([1, 2], max_bytes=4)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, pytest.param(10**5000, id="5001 digits")])
def test_numbers_that_json_cannot_carry_are_refused(number: float) -> None:
    """NaN and infinity are no JSON; and nobody can read a number of 5,001 digits."""
    for value in (number, [number], {"deep": [{"er": number}]}):
        with pytest.raises(ValueError, match="cannot hold NaN, an infinity or a number of thousands of digits"):
            payload_bytes(value)


@pytest.mark.parametrize("value", ["a\0b", ["\0"], {"k": {"k": ["\0"]}}, {"\0": 1}, [{"a\0": 1}]])
def test_nul_is_refused_in_texts_and_keys(value: object) -> None:
    """Wherever it hides."""
    with pytest.raises(ValueError, match="NUL"):
        payload_bytes(value)


def test_an_escape_that_only_looks_like_nul_is_a_text() -> None:
    """A backslash, a u and four zeros are six harmless characters."""
    assert json.loads(payload_bytes("\\u0000")) == "\\u0000"


@pytest.mark.parametrize("value", ["\ud800", {"a": ["x\udfff"]}, {"\udc00": 1}])
def test_lone_surrogates_are_refused(value: object) -> None:
    """They have no UTF-8."""
    with pytest.raises(ValueError, match="surrogate"):
        payload_bytes(value)


@pytest.mark.parametrize("value", [{1: "a"}, [{None: 1}], {"a": {True: 1}}, {(1, 2): 3}])
def test_keys_are_strings(value: object) -> None:
    """Python's encoder would turn 1 into "1", and the payload would come back different."""
    with pytest.raises(ValueError, match="keys are strings"):
        payload_bytes(value)


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", {"at": datetime(2026, 1, 2)}, [object()]])
def test_other_objects_are_refused(value: object) -> None:
    """The sentence names the type."""
    with pytest.raises(ValueError, match="JSON values only"):
        payload_bytes(value)


def test_depth_has_a_limit() -> None:
    """100 levels are accepted, 101 are not, and 100,000 overflow no stack."""
    assert payload_bytes(nested(PAYLOAD_MAX_DEPTH)) == b"[" * 100 + b"]" * 100
    assert payload_bytes([nested(PAYLOAD_MAX_DEPTH - 1), 1])
    for levels in (PAYLOAD_MAX_DEPTH + 1, 100_000):
        with pytest.raises(ValueError, match="100 levels deep"):
            payload_bytes(nested(levels))


def test_a_value_that_contains_itself_is_refused_at_once() -> None:
    """Also when it does so twice, and the walk would double at every level."""
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(ValueError, match="100 levels deep"):
        payload_bytes(circle)

    circle.append(circle)
    with pytest.raises(ValueError, match="65,536 bytes"):
        payload_bytes(circle)
