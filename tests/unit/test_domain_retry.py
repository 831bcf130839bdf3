"""Retry policy, delays and the decision to retry: SRS §1.2, §2.3 and §3.1."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from taskflow_domain import (
    BackoffStrategy,
    Retries,
    RetryPolicy,
    calculate_retry_delay,
    retry_delay_ms,
    should_retry,
    with_jitter,
)

FIXED, LINEAR, EXPONENTIAL = BackoffStrategy.FIXED, BackoffStrategy.LINEAR, BackoffStrategy.EXPONENTIAL


@st.composite
def policies(draw: st.DrawFn) -> RetryPolicy:
    base = draw(st.integers(1, 300))
    return RetryPolicy(
        max_attempts=draw(st.integers(1, 10)),
        backoff_strategy=draw(st.sampled_from(BackoffStrategy)),
        base_delay_seconds=base,
        max_delay_seconds=draw(st.integers(base, 3600)),
    )


@dataclass
class Tried:
    attempt_count: int
    retry_policy: RetryPolicy


@pytest.mark.parametrize(
    ("strategy", "delays"),
    [(FIXED, [10, 10, 10, 10]), (LINEAR, [10, 20, 30, 40]), (EXPONENTIAL, [10, 20, 40, 80])],
)
def test_delays_are_those_of_the_srs(strategy: BackoffStrategy, delays: list[int]) -> None:
    """The table of SRS §2.3.1: base 10, max 300, attempts 1 to 4."""
    policy = RetryPolicy(backoff_strategy=strategy, base_delay_seconds=10, max_delay_seconds=300)

    assert [calculate_retry_delay(policy, attempt) for attempt in (1, 2, 3, 4)] == delays


@pytest.mark.parametrize(
    ("strategy", "attempt", "delay"),
    [(LINEAR, 30, 300), (LINEAR, 31, 300), (EXPONENTIAL, 5, 160), (EXPONENTIAL, 6, 300), (FIXED, 99, 10)],
)
def test_growth_ends_at_the_cap(strategy: BackoffStrategy, attempt: int, delay: int) -> None:
    """Linear and exponential delays stop at max_delay_seconds."""
    assert calculate_retry_delay(RetryPolicy(backoff_strategy=strategy), attempt) == delay


@given(policies(), st.integers(1, 40))
def test_delays_follow_the_formulas(policy: RetryPolicy, attempt: int) -> None:
    """Each strategy is its formula in SRS §2.3.1, for every policy."""
    base, cap = policy.base_delay_seconds, policy.max_delay_seconds
    formula = {
        FIXED: base,
        LINEAR: min(base * attempt, cap),
        EXPONENTIAL: min(base * 2 ** (attempt - 1), cap),
    }

    assert calculate_retry_delay(policy, attempt) == formula[policy.backoff_strategy]


@given(policies(), st.integers(1, 10**9), st.integers(0, 10**9))
def test_delays_never_shrink_and_stay_in_bounds(policy: RetryPolicy, attempt: int, more: int) -> None:
    """A later attempt waits no less, and none waits less than the base or more than the cap."""
    earlier, later = calculate_retry_delay(policy, attempt), calculate_retry_delay(policy, attempt + more)

    assert policy.base_delay_seconds <= earlier <= later <= policy.max_delay_seconds


def test_an_absurd_attempt_number_costs_nothing() -> None:
    """2 to the power of 10^18 is never computed."""
    assert calculate_retry_delay(RetryPolicy(), 10**18) == 300


@pytest.mark.parametrize("attempt", [0, -1])
def test_attempts_count_from_one(attempt: int) -> None:
    """There is no attempt 0 to wait after."""
    with pytest.raises(ValueError, match="count from 1"):
        calculate_retry_delay(RetryPolicy(), attempt)


@pytest.mark.parametrize(("attempts", "again"), [(0, True), (1, True), (2, True), (3, False), (4, False)])
def test_a_job_is_retried_until_its_attempts_are_used_up(attempts: int, again: bool) -> None:
    """With max_attempts 3, the third failure is the last."""
    assert should_retry(Tried(attempts, RetryPolicy(max_attempts=3))) is again


def test_an_empty_policy_has_the_defaults_of_the_srs() -> None:
    """SRS §1.2, column Default; and no jitter, which the SRS does not know."""
    assert RetryPolicy().model_dump() == {
        "max_attempts": 3,
        "backoff_strategy": "EXPONENTIAL",
        "base_delay_seconds": 10,
        "max_delay_seconds": 300,
        "jitter": 0.0,
    }


@pytest.mark.parametrize(
    ("field", "lowest", "highest"),
    [("max_attempts", 1, 10), ("base_delay_seconds", 1, 300), ("max_delay_seconds", 10, 3600)],
)
def test_limits_are_inclusive(field: str, lowest: int, highest: int) -> None:
    """Both ends of each range are accepted, one step beyond is not."""
    for value in (lowest, highest):
        assert getattr(RetryPolicy.model_validate({field: value}), field) == value
    for value in (lowest - 1, highest + 1):
        assert refused_field({field: value}) == field


@pytest.mark.parametrize("field", ["max_attempts", "base_delay_seconds", "max_delay_seconds"])
@pytest.mark.parametrize("value", [True, "3", 3.0, 3.5, None, [3]])
def test_numbers_are_whole_numbers(field: str, value: object) -> None:
    """What merely resembles a whole number is refused."""
    assert refused_field({field: value}) == field


@pytest.mark.parametrize("value", ["exponential", "RANDOM", "", None, 1])
def test_a_strategy_is_one_of_three(value: object) -> None:
    """Spelling counts."""
    assert refused_field({"backoff_strategy": value}) == "backoff_strategy"


def test_the_cap_must_reach_the_base() -> None:
    """The fault is found at max_delay_seconds, and the sentence names both."""
    with pytest.raises(ValidationError) as caught:
        RetryPolicy(base_delay_seconds=20, max_delay_seconds=19)

    fault = caught.value.errors()[0]
    assert fault["loc"] == ("max_delay_seconds",)
    assert "max_delay_seconds (19) is less than base_delay_seconds (20)" in fault["msg"]
    assert RetryPolicy(base_delay_seconds=20, max_delay_seconds=20).max_delay_seconds == 20


def test_a_refused_base_is_the_only_fault_reported() -> None:
    """The cap is not compared with a base that is itself no good."""
    assert refused_field({"base_delay_seconds": 301, "max_delay_seconds": 5}) == "base_delay_seconds"


def test_a_policy_takes_no_unknown_field_and_no_change() -> None:
    """A typing error is not silently ignored; a policy is a value."""
    assert refused_field({"max_retries": 3}) == "max_retries"
    with pytest.raises(ValidationError, match="frozen"):
        RetryPolicy().max_attempts = 5  # type: ignore[misc]


def test_a_partial_change_keeps_the_rest_and_is_checked_as_a_whole() -> None:
    """Fields that fit alone may not fit together."""
    policy = RetryPolicy(max_attempts=7, max_delay_seconds=30)

    assert policy.merged({"base_delay_seconds": 30}) == RetryPolicy(
        max_attempts=7, base_delay_seconds=30, max_delay_seconds=30
    )
    assert policy.merged({}) == policy
    with pytest.raises(ValidationError, match="max_delay_seconds"):
        policy.merged({"base_delay_seconds": 31})


@given(
    st.integers(0, 3_600_000),
    st.floats(0, 1),
    st.floats(0, 1, exclude_max=True),
)
def test_jitter_only_shortens_and_only_so_far(delay_ms: int, fraction: float, unit_random: float) -> None:
    """The result lies between (1 - fraction) of the delay and the delay."""
    jittered = with_jitter(delay_ms, fraction, unit_random)

    assert delay_ms * (1 - fraction) - 1 <= jittered <= delay_ms


def test_jitter_spreads_evenly() -> None:
    """Half the random range is half the jitter; none asked for is none given."""
    assert with_jitter(10_000, 0.5, 0.5) == 7_500
    assert with_jitter(10_000, 0.0, 0.9) == 10_000
    with pytest.raises(ValueError, match="fraction from 0 to 1"):
        with_jitter(10_000, 1.5, 0.5)


@given(policies(), st.integers(1, 40), st.floats(0, 1, exclude_max=True))
def test_a_policy_without_jitter_rests_exactly(policy: RetryPolicy, attempt: int, unit_random: float) -> None:
    """Chance has no say where none was asked for."""
    assert retry_delay_ms(policy, attempt, unit_random) == calculate_retry_delay(policy, attempt) * 1000


def test_retries_come_soon_and_apart() -> None:
    """S2's policy: from 1 s, twofold, each shortened by up to half; as many as a thousand."""
    policy = Retries(max_attempts=1001)

    assert [retry_delay_ms(policy, attempt, 0.0) for attempt in (1, 2, 3, 1000)] == [1000, 2000, 4000, 300_000]
    assert [retry_delay_ms(policy, attempt, 0.5) for attempt in (1, 2, 3, 1000)] == [750, 1500, 3000, 225_000]
    assert type(policy.merged({"base_delay_seconds": 5})) is Retries
    with pytest.raises(ValidationError, match="max_attempts"):
        Retries(max_attempts=1002)


@pytest.mark.parametrize("value", [0, 1, 0.25])
def test_jitter_is_a_fraction(value: float) -> None:
    """From 0 to 1, both included."""
    assert RetryPolicy(jitter=value).jitter == value


@pytest.mark.parametrize("value", [-0.1, 1.1, True, "0.5", None, float("nan"), float("inf")])
def test_jitter_is_nothing_but_a_fraction(value: object) -> None:
    """What merely resembles one is refused."""
    assert refused_field({"jitter": value}) == "jitter"


def refused_field(fields: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        RetryPolicy.model_validate(fields)
    (fault,) = caught.value.errors()
    return str(fault["loc"][0])
