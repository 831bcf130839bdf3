"""When a schedule fires, within its bounds and with its jitter, and what becomes of what it missed."""

from itertools import islice, pairwise, takewhile
from time import process_time
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskflow_domain import MAX_MS, Catchup, Drop, Interval, Rhythm, Timing, Why, iso_of_ms, ms_of_iso, parse_cron
from taskflow_domain import rhythm as rhythms
from taskflow_domain.rhythm import GRACE_MS

NOON = ms_of_iso("2026-01-01T12:00:00Z")
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
FIVE = Catchup(5)


def every_minute(**bounds: int) -> Rhythm:
    """A schedule of every minute."""
    return Rhythm(parse_cron("* * * * *"), "s", **bounds)


def test_an_interval_counts_from_its_anchor() -> None:
    """The anchor is its first time; it never drifts."""
    rhythm = Rhythm(Interval(90 * SECOND, NOON), "s")

    assert list(islice(rhythm.times_after(0), 3)) == [NOON, NOON + 90 * SECOND, NOON + 180 * SECOND]
    assert rhythm.next_after_ms(NOON + 1_000_000 * 90 * SECOND + 1) == NOON + 1_000_001 * 90 * SECOND


def test_nothing_fires_outside_its_bounds() -> None:
    """Both bounds are inside; after the last time there is none."""
    rhythm = every_minute(start_ms=NOON, end_ms=NOON + 2 * MINUTE)

    assert list(rhythm.times_after(0)) == [NOON, NOON + MINUTE, NOON + 2 * MINUTE]
    assert rhythm.plan(NOON + MINUTE, NOON + 2 * MINUTE, FIVE).next_ms is None
    assert rhythm.plan(NOON + MINUTE, NOON + 2 * MINUTE, FIVE).due_ms is None


def test_a_time_is_fired_when_it_is_due_and_not_before() -> None:
    """A millisecond earlier there is nothing to do but wait."""
    early = every_minute().plan(NOON, NOON + MINUTE - 1, FIVE)
    due = every_minute().plan(NOON, NOON + MINUTE, FIVE)

    assert (early.fires, early.next_ms, early.due_ms) == ((), NOON + MINUTE, NOON + MINUTE)
    assert (due.fires, due.next_ms, due.drops) == ((NOON + MINUTE,), NOON + 2 * MINUTE, ())


def test_after_downtime_the_latest_are_made_up_for_oldest_first() -> None:
    """The others are dropped, and counted."""
    plan = every_minute().plan(NOON, NOON + HOUR + 30 * SECOND, FIVE)

    assert [iso_of_ms(ms)[11:16] for ms in plan.fires] == ["12:56", "12:57", "12:58", "12:59", "13:00"]
    assert plan.drops == (Drop(Why.CATCHUP_LIMIT, NOON + MINUTE, NOON + 55 * MINUTE, 55),)
    assert plan.next_ms == NOON + 61 * MINUTE


def test_what_is_just_due_is_not_missed() -> None:
    """With no catch-up at all it is fired, and so is what a slow moment has delayed."""
    rhythm = Rhythm(parse_cron("* * * * * *"), "s")

    assert every_minute().plan(NOON, NOON + MINUTE + 9 * SECOND, Catchup(0)).fires == (NOON + MINUTE,)
    assert rhythm.plan(NOON, NOON + 3 * SECOND, Catchup(1)).fires == tuple(NOON + n * SECOND for n in (1, 2, 3))


def test_what_is_older_than_the_window_is_dropped_for_that() -> None:
    """The window first, then the limit."""
    plan = every_minute().plan(NOON, NOON + HOUR + 30 * SECOND, Catchup(2, 5 * MINUTE))

    assert plan.fires == (NOON + 59 * MINUTE, NOON + 60 * MINUTE)
    assert plan.drops == (
        Drop(Why.CATCHUP_WINDOW, NOON + MINUTE, NOON + 55 * MINUTE, 55),
        Drop(Why.CATCHUP_LIMIT, NOON + 56 * MINUTE, NOON + 58 * MINUTE, 3),
    )


def test_what_is_exactly_as_old_as_the_window_is_made_up_for() -> None:
    """A millisecond later it is too old."""
    made_up = every_minute().plan(NOON, NOON + 5 * MINUTE + 30 * SECOND, Catchup(9, 3 * MINUTE + 30 * SECOND))
    dropped = every_minute().plan(NOON, NOON + 5 * MINUTE + 30 * SECOND + 1, Catchup(9, 3 * MINUTE + 30 * SECOND))

    assert made_up.fires[0] == NOON + 2 * MINUTE
    assert made_up.drops == (Drop(Why.CATCHUP_WINDOW, NOON + MINUTE, NOON + MINUTE, 1),)
    assert dropped.fires[0] == NOON + 3 * MINUTE


def test_jitter_makes_no_time_older_than_the_window() -> None:
    """What counts is when a time was due, or jitter longer than the window would cost runs."""
    rhythm = Rhythm(parse_cron("0 * * * *"), "s", jitter_ms=HOUR - SECOND)
    [late_ms] = [ms for ms in range(NOON, NOON + DAY, HOUR) if ms + 30 * MINUTE < rhythm.due_ms(ms)][:1]
    now_ms = rhythm.due_ms(late_ms) + 15 * SECOND

    assert rhythm.plan(late_ms - 1, now_ms, Catchup(5, MINUTE)).fires == (late_ms,)
    assert rhythm.plan(late_ms - 1, now_ms + MINUTE, Catchup(5, MINUTE)).fires == ()


@pytest.mark.parametrize("window_ms", [None, 10 * MINUTE])
def test_a_year_of_missed_seconds_is_told_in_a_moment(window_ms: int | None) -> None:
    """Without counting thirty million of them."""
    rhythm = Rhythm(parse_cron("* * * * * *"), "s")
    now_ms = NOON + 365 * DAY

    plan = rhythm.plan(NOON, now_ms, Catchup(3, window_ms))

    assert plan.fires[:3] == tuple(now_ms - n * SECOND for n in (13, 12, 11))
    assert len(plan.fires) == 3 + 11
    assert plan.next_ms == now_ms + SECOND
    assert (plan.drops[0].first_ms, plan.drops[0].count) == (NOON + SECOND, None)
    assert plan.drops[0].why is (Why.CATCHUP_WINDOW if window_ms else Why.CATCHUP_LIMIT)


def test_more_than_can_be_counted_may_be_the_work_of_a_moment() -> None:
    """The latest are found all the same."""
    rhythm = Rhythm(Interval(20, NOON), "s")

    plan = rhythm.plan(NOON, NOON + 30 * SECOND, Catchup(2))

    assert plan.fires[:2] == (NOON + 20 * SECOND - 40, NOON + 20 * SECOND - 20)
    assert plan.next_ms == NOON + 30 * SECOND + 20
    assert plan.drops == (Drop(Why.CATCHUP_LIMIT, NOON + 20, NOON + 20 * SECOND - 60, 997),)
    assert rhythm.plan(NOON, NOON + 31 * SECOND, Catchup(2)).drops[0].count is None


@pytest.mark.parametrize("text", ["* * * * * *", "* * * * *", "*/7 9-17 * * mon-fri", "* * 1 1 *", "0 0 * * *"])
@pytest.mark.parametrize("catchup", [Catchup(5), Catchup(1000), Catchup(1000, 7 * DAY), Catchup(0)])
def test_a_year_of_downtime_is_settled_in_a_moment(text: str, catchup: Catchup) -> None:
    """However dense the times are, and however many are made up for."""
    rhythm = Rhythm(parse_cron(text, "Europe/Berlin"), "s", jitter_ms=30 * SECOND)
    began_s = process_time()

    plan = rhythm.plan(NOON, NOON + 365 * DAY, catchup)

    assert process_time() - began_s < 2
    assert len(plan.fires) <= catchup.limit + 11


@given(jitter_ms=st.integers(0, 10 * MINUTE), fire=st.integers(1, 10_000), seed=st.text(max_size=5))
def test_jitter_is_steady_and_stays_before_the_next_time(jitter_ms: int, fire: int, seed: str) -> None:
    """The same for everyone who asks, whoever asks when."""
    fire_ms = fire * MINUTE
    rhythm = Rhythm(parse_cron("* * * * *"), seed, jitter_ms=jitter_ms)

    due_ms = rhythm.due_ms(fire_ms)

    assert fire_ms <= due_ms <= fire_ms + min(jitter_ms, MINUTE - 1)
    assert Rhythm(parse_cron("* * * * *"), seed, jitter_ms=jitter_ms).due_ms(fire_ms) == due_ms
    assert rhythm.plan(fire_ms - 1, due_ms, FIVE).fires == (fire_ms,)
    if due_ms > fire_ms:
        assert rhythm.plan(fire_ms - 1, due_ms - 1, FIVE).fires == ()


def test_jitter_does_not_lead_beyond_the_end_of_time() -> None:
    """The last time of all has no next one to stay before."""
    [last_ms] = Rhythm(parse_cron("59 23 31 12 *"), "s").times_after(MAX_MS - MINUTE)

    for seed in "abcdefgh":
        assert Rhythm(parse_cron("59 23 31 12 *"), seed, jitter_ms=24 * HOUR).due_ms(last_ms) <= MAX_MS


@given(jitter_ms=st.integers(0, 3 * HOUR), seed=st.text(max_size=5), every=st.integers(1, 20) | st.integers(1000, HOUR))
def test_an_interval_shorter_than_its_jitter_still_fires_in_order(jitter_ms: int, seed: str, every: int) -> None:
    """Each before the next has its time, and so before it is due."""
    rhythm = Rhythm(Interval(every, NOON), seed, jitter_ms=jitter_ms)
    times = list(islice(rhythm.times_after(NOON - 1), 20))

    for fire_ms, following in pairwise(times):
        assert fire_ms <= rhythm.due_ms(fire_ms) < following <= rhythm.due_ms(following)


TIMINGS = st.builds(Interval, st.integers(1000, 2 * HOUR), st.integers(NOON - DAY, NOON + DAY)) | st.sampled_from(
    [parse_cron(text, "Europe/Berlin") for text in ("*/7 * * * *", "0 */3 * * *", "* 3 * * *", "*/20 13 * * * */15")]
)


@given(
    timing=TIMINGS,
    bounds=st.tuples(st.none() | st.integers(NOON - DAY, NOON + DAY), st.none() | st.integers(NOON, NOON + 2 * DAY)),
    jitter_ms=st.just(0) | st.integers(0, 3 * HOUR),
    limit=st.integers(0, 30),
    window_ms=st.none() | st.integers(0, 2 * DAY),
    now_ms=st.integers(NOON, NOON + 2 * DAY) | st.integers(NOON, NOON + 20 * SECOND),
    counted=st.sampled_from([3, 20, 1000]),
)
@settings(deadline=None, max_examples=300)
def test_a_plan_is_what_counting_one_by_one_would_give(
    timing: Timing,
    bounds: tuple[int | None, int | None],
    jitter_ms: int,
    limit: int,
    window_ms: int | None,
    now_ms: int,
    counted: int,
) -> None:
    """The latest missed ones within limit and window and those just due, oldest first; each other is told, with why."""
    rhythm = Rhythm(timing, "s", *bounds, jitter_ms)
    times = list(takewhile(lambda ms: ms <= now_ms, rhythm.times_after(NOON)))
    due = [ms for ms in times if rhythm.due_ms(ms) <= now_ms]
    missed = [ms for ms in due if rhythm.due_ms(ms) < now_ms - GRACE_MS]
    old = [ms for ms in missed if window_ms is not None and rhythm.due_ms(ms) < now_ms - window_ms]
    recent = missed[len(old) :]
    too_many = recent[: max(0, len(recent) - limit)]

    with patch.object(rhythms, "MOST_COUNTED", counted):
        plan = rhythm.plan(NOON, now_ms, Catchup(limit, window_ms))

    assert list(plan.fires) == due[len(old) + len(too_many) :]
    assert list(plan.drops) == [
        Drop(why, gone[0], gone[-1], len(gone) if len(gone) <= counted else None)
        for why, gone in ((Why.CATCHUP_WINDOW, old), (Why.CATCHUP_LIMIT, too_many))
        if gone
    ]
    assert [ms for ms in due if ms <= plan.dropped_ms] == [*old, *too_many]
    assert plan.next_ms == rhythm.next_after_ms(due[-1] if due else NOON)
    assert plan.due_ms == (None if plan.next_ms is None else rhythm.due_ms(plan.next_ms))
    assert plan.due_ms is None or plan.due_ms > now_ms


@given(
    timing=TIMINGS,
    start_ms=st.integers(NOON - DAY, NOON + DAY),
    length_ms=st.integers(0, DAY),
    after_ms=st.integers(NOON - 2 * DAY, NOON + DAY),
)
@settings(deadline=None)
def test_both_bounds_are_inside(timing: Timing, start_ms: int, length_ms: int, after_ms: int) -> None:
    """All its times, and only those, that lie in them."""
    rhythm, end_ms = Rhythm(timing, "s", start_ms, start_ms + length_ms), start_ms + length_ms
    free = takewhile(lambda ms: ms <= end_ms, Rhythm(timing, "s").times_after(after_ms))

    assert list(rhythm.times_after(after_ms)) == [ms for ms in free if start_ms <= ms]


@given(looks=st.lists(st.integers(1, 3 * HOUR), min_size=1, max_size=8), limit=st.integers(0, 8))
@settings(deadline=None)
def test_every_time_is_fired_or_dropped_exactly_once(looks: list[int], limit: int) -> None:
    """However seldom somebody looks."""
    rhythm = Rhythm(parse_cron("*/7 * * * *"), "s", jitter_ms=3 * MINUTE)
    after_ms, now_ms, seen = NOON, NOON, list[int]()
    for look in looks:
        now_ms += look
        plan = rhythm.plan(after_ms, now_ms, Catchup(limit, HOUR))
        passed = rhythm_times(rhythm, after_ms, now_ms)
        for drop in plan.drops:
            times = [ms for ms in passed if drop.first_ms <= ms <= drop.last_ms]
            assert len(times) == drop.count
            seen += times
        seen += plan.fires
        assert plan.next_ms is not None
        after_ms = plan.next_ms - 1

    assert sorted(seen) == rhythm_times(rhythm, NOON, after_ms)


def rhythm_times(rhythm: Rhythm, after_ms: int, until_ms: int) -> list[int]:
    """Its times in (after, until]."""
    return list(takewhile(lambda ms: ms <= until_ms, rhythm.times_after(after_ms)))
