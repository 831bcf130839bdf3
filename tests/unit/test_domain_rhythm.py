"""When a schedule fires, within its bounds and with its jitter, and what becomes of what it missed."""

from itertools import islice, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskflow_domain import MAX_MS, Catchup, Drop, Interval, Rhythm, Why, iso_of_ms, ms_of_iso, parse_cron

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
    assert plan.drops[0].count is None


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
