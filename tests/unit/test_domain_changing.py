"""What people do to a schedule, each by itself: the progress afterwards, and what is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskflow_domain import Backfill, Fire, Note, Origin, Over, Overlap, Pause, Progress, Schedule, What, Why
from taskflow_domain.changing import canceled, first_progress, has_run_out, moved, paused, redefined, resumed
from tests.support.schedule_world import DAY, HOUR, MINUTE, NOON, a_schedule

HALF = MINUTE // 2


def a_progress(schedule: Schedule, **more: Any) -> Progress:
    """Of a schedule that was made right before noon."""
    return replace(first_progress(schedule, NOON - 1), **more)


def missed(first_ms: int, last_ms: int, count: int, why: Why) -> Note:
    """Times that are told as passed over."""
    return Note(What.SKIPPED, first_ms, Origin.SCHEDULE, why, None, last_ms, count)


# A new one ------------------------------------------------------------------------------------------------------------


def test_a_new_schedule_begins_now() -> None:
    """What was before is none of its business; a time that is this very moment is."""
    progress = first_progress(a_schedule(start_ms=NOON - DAY), NOON)

    assert (progress.next_ms, progress.due_ms, progress.runs, progress.over) == (NOON, NOON, 0, None)


def test_a_new_schedule_may_rest_from_the_start() -> None:
    """It knows when it would fire."""
    progress = first_progress(a_schedule(), NOON - 1, paused=True, reason="not yet")

    assert progress.pause == Pause(NOON - 1, "not yet")
    assert progress.next_ms == NOON


def test_a_new_schedule_without_times_is_over() -> None:
    """As one whose end is past."""
    assert first_progress(a_schedule(end_ms=NOON - DAY), NOON).over is Over.END


def test_the_next_time_has_its_jitter() -> None:
    """It is due when the rhythm says so."""
    schedule = a_schedule(jitter_ms=MINUTE)

    assert a_progress(schedule).due_ms == schedule.rhythm.due_ms(NOON) > NOON


# Pause and resume -----------------------------------------------------------------------------------------------------


def test_a_pause_keeps_its_beginning_and_takes_another_reason() -> None:
    """Nothing else about the schedule changes."""
    progress = a_progress(a_schedule())

    first, notes = paused(progress, NOON, "ill")
    second, more = paused(first, NOON + HOUR, None)

    assert first == replace(progress, pause=Pause(NOON, "ill"))
    assert second == replace(progress, pause=Pause(NOON, None))
    assert [*notes, *more] == [Note(What.PAUSED, why="ill"), Note(What.PAUSED)]


def test_what_a_schedule_rested_through_is_told_when_it_goes_on() -> None:
    """Also what it had not fired when it was paused."""
    schedule = a_schedule()
    rests, _ = paused(a_progress(schedule), NOON + HALF, None)

    progress, notes = resumed(schedule, rests, NOON + 10 * MINUTE)

    assert notes == (missed(NOON, NOON + 10 * MINUTE, 11, Why.PAUSED), Note(What.RESUMED))
    assert (progress.pause, progress.next_ms) == (None, NOON + 11 * MINUTE)


def test_a_time_that_is_due_after_the_pause_is_fired_then() -> None:
    """Its jitter makes it late enough."""
    schedule = a_schedule(jitter_ms=HOUR)
    due_ms = schedule.rhythm.due_ms(NOON)
    rests, _ = paused(a_progress(schedule), NOON, None)

    early, _ = resumed(schedule, rests, due_ms - 1)
    late, notes = resumed(schedule, rests, due_ms)

    assert (early.next_ms, early.due_ms) == (NOON, due_ms)
    assert late.next_ms == NOON + MINUTE
    assert notes[0] == missed(NOON, NOON, 1, Why.PAUSED)


def test_what_does_not_rest_is_not_resumed() -> None:
    """And nothing is told."""
    progress = a_progress(a_schedule())

    assert resumed(a_schedule(), progress, NOON + HOUR) == (progress, ())


def test_a_schedule_that_is_over_stays_so_when_it_is_resumed() -> None:
    """It has missed nothing."""
    schedule = a_schedule(max_runs=1)
    over = a_progress(schedule, runs=1, over=Over.MAX_RUNS, next_ms=None, due_ms=None, pause=Pause(NOON))

    progress, notes = resumed(schedule, over, NOON + HOUR)

    assert (progress.over, notes) == (Over.MAX_RUNS, (Note(What.RESUMED),))


# Another definition ---------------------------------------------------------------------------------------------------


def test_other_times_count_from_now_and_the_old_ones_are_told() -> None:
    """Up to this moment: what comes later is none of its times any more."""
    old = a_schedule()

    progress, notes = redefined(old, replace(old, cron="*/5 * * * *"), a_progress(old), NOON + 5 * MINUTE)

    assert notes == (missed(NOON, NOON + 5 * MINUTE, 6, Why.UPDATED), Note(What.UPDATED))
    assert progress.next_ms == NOON + 10 * MINUTE


def test_times_that_a_pause_swallowed_are_told_as_such() -> None:
    """An update does not change why."""
    old = a_schedule()
    rests, _ = paused(a_progress(old), NOON - 1, None)

    progress, notes = redefined(old, replace(old, cron="0 * * * *"), rests, NOON + MINUTE)

    assert notes[0] == missed(NOON, NOON + MINUTE, 2, Why.PAUSED)
    assert (progress.pause, progress.next_ms) == (rests.pause, NOON + HOUR)


def test_a_time_that_jitter_holds_back_is_told_when_times_change() -> None:
    """It would have been due only later, and is no time of the new ones."""
    old = a_schedule(cron="0 * * * *", jitter_ms=HOUR)

    _, notes = redefined(old, replace(old, cron="30 * * * *"), a_progress(old), NOON + 1)

    assert notes[0] == missed(NOON, NOON, 1, Why.UPDATED)


@pytest.mark.parametrize(
    "rules",
    [{"jitter_ms": MINUTE // 2}, {"overlap": Overlap.SKIP}, {"catchup_limit": 0}, {"max_runs": 7}],
    ids=lambda rules: next(iter(rules)),
)
def test_the_same_times_go_on_where_they_were(rules: dict[str, Any]) -> None:
    """What is not fired yet still is; only its jitter may be another."""
    old = a_schedule()
    new = replace(old, **rules)

    progress, notes = redefined(old, new, a_progress(old), NOON + 5 * MINUTE)

    assert notes == (Note(What.UPDATED),)
    assert (progress.next_ms, progress.due_ms) == (NOON, new.rhythm.due_ms(NOON))


@pytest.mark.parametrize(
    ("rules", "is_same"),
    [
        ({"jitter_ms": 5}, True),
        ({"anchor_ms": 5}, True),
        ({"cron": "*  * * * *"}, False),
        ({"zone": "Europe/Berlin"}, False),
        ({"start_ms": NOON}, False),
        ({"end_ms": NOON}, False),
        ({"cron": None, "interval_ms": MINUTE}, False),
    ],
)
def test_times_are_the_same_if_all_that_says_them_is(rules: dict[str, Any], is_same: bool) -> None:
    """The anchor is only an interval's."""
    assert a_schedule().same_times(replace(a_schedule(), **rules)) is is_same


def test_a_later_end_brings_a_schedule_back() -> None:
    """From now."""
    old = a_schedule(end_ms=NOON)
    over = moved(old, a_progress(old, runs=1), NOON)

    progress, notes = redefined(old, replace(old, end_ms=None), over, NOON + HOUR)

    assert over.over is Over.END
    assert (progress.over, progress.next_ms, notes) == (None, NOON + HOUR + MINUTE, (Note(What.UPDATED),))


def test_an_end_that_is_past_ends_a_schedule() -> None:
    """Which is told, once."""
    old = a_schedule()
    new = replace(old, end_ms=NOON + MINUTE)

    progress, notes = redefined(old, new, a_progress(old), NOON + HOUR)
    again, more = redefined(new, replace(new, end_ms=NOON), progress, NOON + HOUR)

    assert notes[1:] == (Note(What.UPDATED), Note(What.ENDED, why=Over.END))
    assert (again.over, more) == (Over.END, (Note(What.UPDATED),))


def test_as_many_runs_as_it_has_had_end_a_schedule() -> None:
    """Those that wait for their turn among them."""
    old = a_schedule()
    waiting = a_progress(old, runs=2, waiting=(Fire(NOON - MINUTE), Fire(NOON, Origin.TRIGGER, "t")))

    three, _ = redefined(old, replace(old, max_runs=3), waiting, NOON)
    four, _ = redefined(old, replace(old, max_runs=4), waiting, NOON)

    assert (three.over, three.next_ms) == (Over.MAX_RUNS, None)
    assert (four.over, four.next_ms) == (None, NOON)
    assert has_run_out(replace(old, max_runs=3), waiting)
    assert not has_run_out(old, waiting)


def test_an_abolished_zone_can_be_replaced() -> None:
    """Its times cannot be told any more, and so are not."""
    old = a_schedule(zone="Mars/Phobos")
    rests = Progress(NOON - 1, None, None, pause=Pause(NOON, "its zone is gone"))

    progress, notes = redefined(old, replace(old, zone="UTC"), rests, NOON + HOUR)

    assert (notes, progress.next_ms) == ((Note(What.UPDATED),), NOON + HOUR + MINUTE)
    with pytest.raises(ValueError, match="'Mars/Phobos' is not a time zone"):
        resumed(old, rests, NOON + HOUR)


# The end --------------------------------------------------------------------------------------------------------------


def test_what_waits_is_told_when_a_schedule_is_cancelled() -> None:
    """And what is left of its backfills; nothing will come of it any more."""
    waits = (Fire(NOON - MINUTE), Fire(NOON, Origin.TRIGGER, "t"))
    rest = Backfill(NOON - DAY, NOON - HOUR, Overlap.ALLOW)

    progress, notes = canceled(a_progress(a_schedule(), waiting=waits, backfills=(rest,)))

    assert [(note.what, note.fire_ms, note.origin, note.why) for note in notes] == [
        (What.SKIPPED, NOON - MINUTE, Origin.SCHEDULE, Why.CANCELED),
        (What.SKIPPED, NOON, Origin.TRIGGER, Why.CANCELED),
        (What.SKIPPED, rest.after_ms + 1, Origin.BACKFILL, Why.CANCELED),
        (What.ENDED, None, None, Over.CANCELED),
    ]
    assert progress.is_done
    assert (progress.next_ms, progress.due_ms) == (None, None)


def test_what_is_cancelled_stays_so() -> None:
    """Whatever it is given."""
    over, _ = canceled(a_progress(a_schedule()))
    more = replace(a_schedule(), cron="*/5 * * * *", max_runs=99)

    changed, _ = redefined(a_schedule(), more, over, NOON)
    rested, _ = resumed(more, paused(changed, NOON, None)[0], NOON + HOUR)

    assert (rested.over, rested.next_ms, rested.pause) == (Over.CANCELED, None, None)


# Laws -----------------------------------------------------------------------------------------------------------------


@given(
    after=st.integers(0, 3 * HOUR),
    length=st.integers(0, 3 * HOUR),
    crons=st.tuples(*[st.sampled_from(["* * * * *", "*/7 * * * *", "0 * * * *"])] * 2),
    jitter_ms=st.sampled_from([0, 50_000]),
    rests=st.booleans(),
)
def test_a_change_leaves_no_time_untold_and_tells_none_that_is_to_come(
    after: int, length: int, crons: tuple[str, str], jitter_ms: int, rests: bool
) -> None:
    """Whether the schedule goes on from a pause, or with other times: what is told ends where what comes begins."""
    old, new = (a_schedule(cron=cron, jitter_ms=jitter_ms) for cron in crons)
    now_ms = NOON + after + length
    progress = moved(old, replace(a_progress(old), pause=Pause(NOON) if rests else None), NOON + after)

    changed, notes = (resumed(old, progress, now_ms)) if rests else redefined(old, new, progress, now_ms)

    told = [note for note in notes if note.what is What.SKIPPED]
    passed = sum(note.count or 0 for note in told)
    assert passed == len([ms for ms in _times(old, NOON + after, now_ms) if ms <= changed.after_ms])
    assert changed.next_ms == (old if rests else new).rhythm.next_after_ms(changed.after_ms)
    if not rests and not old.same_times(new):
        assert changed.after_ms >= now_ms


def _times(schedule: Schedule, after_ms: int, until_ms: int) -> list[int]:
    found = []
    for ms in schedule.rhythm.times_after(after_ms):
        if ms > until_ms:
            break
        found.append(ms)
    return found
