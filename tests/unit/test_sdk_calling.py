"""How payloads become arguments, and returned values results."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskflow.calling import RESULT_MAX_BYTES, encode_result
from taskflow.tasks import Task

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def two(a: Any, b: Any = "b") -> list[Any]:
    """Two parameters."""
    return [a, b]


def nothing() -> str:
    """None."""
    return "called"


def one(payload: Any) -> Any:
    """One, that may also be named."""
    return payload


def perhaps(payload: Any = "default") -> Any:
    """One, that need not be given."""
    return payload


def whole(payload: Any, /) -> Any:
    """One, positional only."""
    return payload


def named(*, seconds: Any) -> Any:
    """One, by name only."""
    return seconds


def anything(**fields: Any) -> Any:
    """Whatever is sent."""
    return fields


def called(function: Any, payload: Any) -> Any:
    """What the function returns for a payload."""
    args, kwargs = Task("f", function).arguments(json.dumps(payload).encode())
    return function(*args, **kwargs)


@pytest.mark.parametrize(
    ("function", "payload", "result"),
    [
        (two, {"a": 1}, [1, "b"]),
        (two, {"a": 1, "b": 2}, [1, 2]),
        (two, {"args": [1], "kwargs": {"b": 2}}, [1, 2]),
        (two, {"args": [1, 2], "kwargs": {}}, [1, 2]),
        (two, [1, 2], [[1, 2], "b"]),
        (two, None, [None, "b"]),
        (nothing, {}, "called"),
        (nothing, {"args": [], "kwargs": {}}, "called"),
        (one, {"payload": 5}, 5),
        (one, {}, {}),
        (one, {"x": 1}, {"x": 1}),
        (one, {"args": [1], "kwargs": {}}, 1),
        (one, {"args": 1, "kwargs": {}}, {"args": 1, "kwargs": {}}),
        (one, {"args": [1], "kwargs": {}, "more": 1}, {"args": [1], "kwargs": {}, "more": 1}),
        (one, "text", "text"),
        (perhaps, {}, "default"),
        (perhaps, None, None),
        (perhaps, {"x": 1}, {"x": 1}),
        (named, {"seconds": 1.5}, 1.5),
        (anything, {"x": 1}, {"x": 1}),
        (anything, {}, {}),
    ],
)
def test_the_rules(function: Any, payload: Any, result: Any) -> None:
    """Case by case, as the module tells them."""
    assert called(function, payload) == result


@pytest.mark.parametrize(
    ("function", "payload", "reason"),
    [
        (two, {"b": 1}, "missing a required argument: 'a'"),
        (two, {"a": 1, "c": 2}, "unexpected keyword argument 'c'"),
        (two, {"args": [1, 2, 3], "kwargs": {}}, "too many positional"),
        (nothing, {"x": 1}, "unexpected keyword argument 'x'"),
        (nothing, [1], "too many positional"),
        (named, {}, "missing a required"),
        (named, {"secnds": 1}, "missing a required|unexpected keyword"),
        (named, 1.5, "too many positional"),
        (anything, [1], "too many positional"),
    ],
)
def test_what_does_not_fit_is_told(function: Any, payload: Any, reason: str) -> None:
    """A wrong name never slips into another parameter."""
    with pytest.raises(TypeError, match=rf"the payload does not fit f\(.*\): .*({reason})"):
        called(function, payload)


@given(JSON)
def test_a_function_of_one_positional_parameter_gets_any_payload_whole(payload: Any) -> None:
    """Whatever it looks like."""
    assert called(whole, payload) == payload


@given(st.lists(JSON, max_size=3), st.dictionaries(st.text(), JSON, max_size=3))
def test_arguments_arrive_as_they_were_sent(args: list[Any], kwargs: dict[str, Any]) -> None:
    """The envelope of `args` and `kwargs` carries every call."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return list(args), kwargs

    assert called(function, {"args": args, "kwargs": kwargs}) == (args, kwargs)


@given(JSON)
def test_a_result_is_the_same_after_the_way_through_json(value: Any) -> None:
    """None is stored as nothing; everything else comes back equal."""
    encoded = encode_result(value)

    assert (None if encoded is None else json.loads(encoded)) == value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "a task returns JSON"),
        ({1, 2}, "not JSON serializable"),
        (b"bytes", "not JSON serializable"),
        (float("nan"), "a task returns JSON"),
        ("\ud800", "surrogate"),
        ("x" * RESULT_MAX_BYTES, "1,048,576 bytes"),
    ],
)
def test_what_is_no_result_is_told(value: Any, reason: str) -> None:
    """In a sentence that says what a task may return."""
    with pytest.raises((TypeError, ValueError), match=reason):
        encode_result(value)


def test_a_result_that_contains_itself_is_told() -> None:
    """It has no end."""
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(ValueError, match="a task returns JSON"):
        encode_result(circle)


def test_the_largest_result_is_accepted() -> None:
    """The limit counts the bytes of its JSON."""
    assert encode_result("x" * (RESULT_MAX_BYTES - 2)) is not None
