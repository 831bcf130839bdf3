"""Fires in a line: each is started, waits for its turn or is passed over."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskflow_domain import Fire, Origin, Overlap, Why
from taskflow_domain.line import Line
from taskflow_domain.schedules import MAX_WAITING, ONE_AT_A_TIME
from tests.support.schedule_world import MINUTE, NOON, a_schedule

A, B, C, D = (Fire(NOON + n * MINUTE) for n in range(4))
TRIGGER = Fire(NOON, Origin.TRIGGER, "t")


def a_line(*fires: Fire, live: tuple[str, ...] = (), runs: int = 0, **rules: Any) -> Line:
    """These fires, one after the other, while these runs are live."""
    line = Line(a_schedule(**rules), runs, live)
    for fire in fires:
        line.settle(fire)
    return line


def outcome(line: Line) -> tuple[list[Fire], list[Fire], list[tuple[Fire, Why]]]:
    """Who starts, who waits, who is passed over."""
    return line.starts, line.waiting, line.skips


@pytest.mark.parametrize("overlap", list(Overlap))
def test_with_nothing_in_its_way_a_fire_is_started(overlap: Overlap) -> None:
    """Whatever the policy is."""
    line = a_line(A, overlap=overlap)

    assert outcome(line) == ([A], [], [])
    assert line.is_busy
    assert line.cancels == ()


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        (Overlap.ALLOW, ([A, B, C], [], [])),
        (Overlap.SKIP, ([], [], [(A, Why.OVERLAP), (B, Why.OVERLAP), (C, Why.OVERLAP)])),
        (Overlap.BUFFER_ONE, ([], [A], [(B, Why.BUFFER_FULL), (C, Why.BUFFER_FULL)])),
        (Overlap.BUFFER_ALL, ([], [A, B, C], [])),
        (Overlap.CANCEL_PREVIOUS, ([], [C], [(A, Why.SUPERSEDED), (B, Why.SUPERSEDED)])),
    ],
)
def test_while_a_run_is_active_the_policy_decides(
    overlap: Overlap, expected: tuple[list[Fire], list[Fire], list[tuple[Fire, Why]]]
) -> None:
    """Of several that come, buffer_one keeps the first, cancel_previous the last."""
    line = a_line(A, B, C, live=("run",), overlap=overlap)

    assert outcome(line) == expected
    assert line.cancels == (("run",) if overlap is Overlap.CANCEL_PREVIOUS else ())


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        (Overlap.SKIP, ([A], [], [(B, Why.OVERLAP), (C, Why.OVERLAP)])),
        (Overlap.BUFFER_ONE, ([A], [B], [(C, Why.BUFFER_FULL)])),
        (Overlap.BUFFER_ALL, ([A], [B, C], [])),
        (Overlap.CANCEL_PREVIOUS, ([A], [C], [(B, Why.SUPERSEDED)])),
    ],
)
def test_what_is_started_is_in_the_way_of_the_next_and_stays_started(
    overlap: Overlap, expected: tuple[list[Fire], list[Fire], list[tuple[Fire, Why]]]
) -> None:
    """Also if it is to be cancelled: somebody who died may have started it already."""
    line = a_line(A, B, C, overlap=overlap)

    assert outcome(line) == expected
    assert line.cancels == ((a_schedule().run_id(A),) if overlap is Overlap.CANCEL_PREVIOUS else ())


def test_a_fire_may_have_a_policy_of_its_own() -> None:
    """It counts instead of the schedule's."""
    beside = Fire(NOON, Origin.TRIGGER, "a", Overlap.ALLOW)
    instead = Fire(NOON, Origin.TRIGGER, "b", Overlap.CANCEL_PREVIOUS)

    line = a_line(A, beside, instead, live=("run",), overlap=Overlap.BUFFER_ALL)

    assert outcome(line) == ([beside], [instead], [(A, Why.SUPERSEDED)])


def test_who_may_wait_stands_behind_those_who_do() -> None:
    """Although nothing is active."""
    line = a_line(overlap=Overlap.BUFFER_ALL)
    line.waiting.append(A)

    line.settle(B)

    assert outcome(line) == ([], [A, B], [])


def test_no_more_wait_than_can_be_kept() -> None:
    """The next is passed over."""
    fires = [Fire(NOON + n) for n in range(MAX_WAITING + 1)]

    line = a_line(*fires, live=("run",), overlap=Overlap.BUFFER_ALL)

    assert outcome(line) == ([], fires[:-1], [(fires[-1], Why.BUFFER_FULL)])


def test_starts_and_those_who_wait_count_among_the_runs() -> None:
    """Those that are passed over do not; nor do triggers."""
    assert not a_line(A, TRIGGER, runs=1, max_runs=3).is_full
    assert a_line(A, B, runs=1, max_runs=3).is_full
    assert a_line(A, B, live=("run",), runs=1, max_runs=3, overlap=Overlap.BUFFER_ALL).is_full
    assert not a_line(A, B, C, live=("run",), max_runs=2, overlap=Overlap.CANCEL_PREVIOUS).is_full
    assert not a_line(A, B, C, live=("run",), max_runs=1, overlap=Overlap.SKIP).is_full
    assert not a_line(A, B, C, D).is_full


def test_what_rests_counts_among_the_runs_and_is_in_nobodys_way() -> None:
    """It waits for the end of a pause, not for its turn."""
    line = a_line(max_runs=1, overlap=Overlap.BUFFER_ONE)

    line.rest(A)
    line.settle(TRIGGER)

    assert (line.resting, line.starts, line.is_full) == ([A], [TRIGGER], True)


@given(
    fires=st.lists(st.tuples(st.sampled_from([A, B, C, D, TRIGGER]), st.none() | st.sampled_from(list(Overlap)))),
    overlap=st.sampled_from(list(Overlap)),
    live=st.sampled_from([(), ("run",)]),
)
def test_every_fire_has_one_outcome_and_those_of_a_kind_keep_their_order(
    fires: list[tuple[Fire, Overlap | None]], overlap: Overlap, live: tuple[str, ...]
) -> None:
    """Whatever comes in whatever order."""
    given_in = [Fire(NOON + at, fire.origin, str(at), own) for at, (fire, own) in enumerate(fires)]

    line = a_line(*given_in, live=live, overlap=overlap)

    everyone = [*line.starts, *line.waiting, *(fire for fire, _ in line.skips)]
    assert sorted(everyone, key=lambda fire: fire.at_ms) == given_in
    assert line.starts == sorted(line.starts, key=lambda fire: fire.at_ms)
    assert line.waiting == sorted(line.waiting, key=lambda fire: fire.at_ms)
    assert not line.waiting or line.is_busy
    beside = [fire for fire in line.starts if (fire.overlap or overlap) in ONE_AT_A_TIME]
    assert len(beside) <= (not live)
