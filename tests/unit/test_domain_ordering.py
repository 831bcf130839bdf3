"""Job order, selection and scores: SRS §2.2 and the engine's sorted sets."""

import random
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskflow_domain import (
    EPOCH_2020_MS,
    MAX_ORDER,
    MIN_ORDER,
    iso_of_ms,
    order_of_priority,
    priority_of_order,
    score,
    select_next_jobs,
    sort_jobs,
)

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Waiting:
    id: str
    priority: int = 5
    created_at: datetime = NOON


waiting = st.builds(
    Waiting,
    st.sampled_from("abcdefghij"),
    st.integers(1, 10),
    st.integers(0, 3).map(lambda seconds: NOON + timedelta(seconds=seconds)),
)
orders = st.integers(MIN_ORDER, MAX_ORDER)
created_ms = st.integers(EPOCH_2020_MS, EPOCH_2020_MS + 2**42 - 1)


def test_priority_comes_before_age_and_age_before_id() -> None:
    """The first difference decides, in the order of SRS §2.2.1."""
    later = NOON + timedelta(milliseconds=1)
    expected = [
        Waiting("z", priority=10, created_at=later),
        Waiting("y", priority=9),
        Waiting("b", priority=5),
        Waiting("c", priority=5),
        Waiting("a", priority=5, created_at=later),
        Waiting("0", priority=1),
    ]

    assert sort_jobs(reversed(expected)) == expected


@given(st.lists(waiting, unique_by=lambda job: job.id), st.randoms())
def test_order_does_not_depend_on_arrival(jobs: list[Waiting], chance: random.Random) -> None:
    """Shuffled input gives the same output: the order is total."""
    shuffled = jobs.copy()
    chance.shuffle(shuffled)

    assert sort_jobs(shuffled) == sort_jobs(jobs)


@given(st.lists(waiting))
def test_sorting_keeps_every_job_and_obeys_the_rules(jobs: list[Waiting]) -> None:
    """Nothing is lost, and of two neighbours the first is never the worse."""
    ordered = sort_jobs(jobs)

    assert Counter(ordered) == Counter(jobs)
    for first, second in pairwise(ordered):
        assert first.priority >= second.priority
        if first.priority == second.priority:
            assert (first.created_at, first.id) <= (second.created_at, second.id)


def test_sorting_leaves_the_given_list_alone() -> None:
    """The input is not sorted in place."""
    jobs = [Waiting("b"), Waiting("a")]

    sort_jobs(jobs)

    assert [job.id for job in jobs] == ["b", "a"]


@pytest.mark.parametrize(
    ("running", "limit", "started"),
    [(0, 2, ["a", "b"]), (1, 2, ["a"]), (0, 9, ["a", "b", "c"]), (2, 2, []), (3, 2, []), (0, 0, [])],
)
def test_free_slots_are_filled_with_the_best(running: int, limit: int, started: list[str]) -> None:
    """As many jobs start as there is room for; none when there is none, or less than none."""
    ready = [Waiting("c", 1), Waiting("a", 9), Waiting("b", 5)]

    assert [job.id for job in select_next_jobs(ready, running, limit)] == started


@given(st.lists(waiting), st.integers(-5, 20), st.integers(-5, 20))
def test_the_selection_is_the_head_of_the_order(jobs: list[Waiting], running: int, limit: int) -> None:
    """Never more than the free slots, and never a job before a better one."""
    chosen = select_next_jobs(jobs, running, limit)

    assert len(chosen) == min(len(jobs), max(limit - running, 0))
    assert chosen == sort_jobs(jobs)[: len(chosen)]


def test_priorities_and_orders_mirror_each_other() -> None:
    """10 is order 0 and 1 is order 9, there and back."""
    assert [order_of_priority(priority) for priority in (10, 5, 1)] == [0, 5, 9]
    assert all(priority_of_order(order_of_priority(priority)) == priority for priority in range(1, 11))


@pytest.mark.parametrize(("order", "shown"), [(-1000, 10), (-1, 10), (0, 10), (9, 1), (10, 1), (1000, 1)])
def test_orders_beyond_the_scale_show_as_its_ends(order: int, shown: int) -> None:
    """A priority shown is always from 1 to 10."""
    assert priority_of_order(order) == shown


@given(st.tuples(orders, created_ms), st.tuples(orders, created_ms))
def test_scores_sort_as_order_and_age(one: tuple[int, int], other: tuple[int, int]) -> None:
    """Comparing scores is comparing (order, created_ms)."""
    assert (score(*one) < score(*other)) == (one < other)
    assert (score(*one) == score(*other)) == (one == other)


@given(orders, created_ms)
def test_a_double_holds_every_score_exactly(order: int, created: int) -> None:
    """A sorted set stores doubles; none of our scores is rounded."""
    assert int(float(score(order, created))) == score(order, created)


def test_a_score_is_the_formula() -> None:
    """order * 2^42 + milliseconds since 2020."""
    assert iso_of_ms(EPOCH_2020_MS) == "2020-01-01T00:00:00.000Z"
    assert score(0, EPOCH_2020_MS) == 0
    assert score(3, EPOCH_2020_MS + 7) == 3 * 2**42 + 7
    assert score(-1000, EPOCH_2020_MS) == -1000 * 2**42


@pytest.mark.parametrize("order", [MIN_ORDER - 1, MAX_ORDER + 1])
def test_an_order_beyond_the_range_has_no_score(order: int) -> None:
    """It could not be stored exactly with every age."""
    with pytest.raises(ValueError, match="from -1000 to 1000"):
        score(order, EPOCH_2020_MS)
