"""What schedules do as time passes: every overlap policy, pauses, downtimes, triggers, backfills, and their end.

`World` is a schedule in memory with a cron that looks exactly when it was told to; runs last until they are ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from taskflow_domain import Fire, Origin, Over, Overlap, What
from taskflow_domain.beginning import BACKFILL_CHUNK
from taskflow_domain.firing import LOOK_AGAIN_MS
from tests.support.schedule_world import DAY, HOUR, MINUTE, NOON, SECOND, Steps, World, a_schedule

HALF = 30 * SECOND


def a_world(**rules: Any) -> World:
    """A schedule of each minute, just before its first time."""
    return World(a_schedule(**rules), NOON - HALF)


def running(world: World) -> list[int]:
    """The minutes past noon whose runs are active."""
    return sorted((world.runs[run].at_ms - NOON) // MINUTE for run in world.live)


# On time --------------------------------------------------------------------------------------------------------------


def test_each_time_is_fired_when_it_comes() -> None:
    """And cron is told to look then, not before."""
    world = a_world()

    world.forward(HALF - 1)
    assert (world.tale, world.look_ms) == ([], NOON)
    world.forward(1)
    assert (world.tale, world.look_ms) == (["fired 12:00"], NOON + MINUTE)
    world.forward(2 * MINUTE)

    assert world.tale == ["fired 12:00", "fired 12:01", "fired 12:02"]
    assert running(world) == [0, 1, 2]
    assert (world.progress.runs, world.progress.last_ms) == (3, NOON + 2 * MINUTE)
    assert world.progress.last_run == list(world.runs)[-1]


def test_jitter_delays_a_fire_and_never_past_the_next() -> None:
    """Also when it is longer than the interval; each is fired, in order, at its own moment."""
    world = World(a_schedule(interval_ms=10 * SECOND, jitter_ms=HOUR), NOON - 1)
    rhythm = world.schedule.rhythm

    world.forward(10 * MINUTE)

    times = list(world.runs.values())
    assert [fire.at_ms for fire in times] == list(range(NOON, NOON + len(times) * 10 * SECOND, 10 * SECOND))
    assert len(times) >= 60
    assert world.look_ms == rhythm.due_ms(NOON + len(times) * 10 * SECOND)
    assert not [line for line in world.tale if not line.startswith("fired")]


def test_a_schedule_ends_with_its_bounds() -> None:
    """The last time is inside; afterwards nothing is looked at any more."""
    world = a_world(end_ms=NOON + MINUTE)

    world.forward(HOUR)

    assert world.tale == ["fired 12:00", "fired 12:01", "ended end"]
    assert (world.progress.over, world.progress.is_done, world.look_ms) == (Over.END, True, None)


# Overlap --------------------------------------------------------------------------------------------------------------


def test_skip_passes_over_what_comes_while_a_run_is_active() -> None:
    """A run is active until it ends, however late it started; the first time after that is fired."""
    world = a_world(overlap=Overlap.SKIP)

    world.forward(HALF + 2 * MINUTE)
    world.end_all()
    world.forward(MINUTE)

    assert world.tale == ["fired 12:00", "skipped 12:01 overlap", "skipped 12:02 overlap", "fired 12:03"]
    assert world.history[1].run == world.history[0].run


def test_skip_counts_a_run_that_was_started_late() -> None:
    """One that was made up for after a downtime, and lasts, is in the way of the next that is on time."""
    world = a_world(overlap=Overlap.SKIP)
    world.sleep(HALF + 55 * SECOND)

    world.forward(10 * SECOND)

    assert world.tale == ["fired 12:00", "skipped 12:01 overlap"]


def test_buffer_one_keeps_the_first_that_comes() -> None:
    """It runs when the run before it ends; the others are passed over."""
    world = a_world(overlap=Overlap.BUFFER_ONE)

    world.forward(HALF + 3 * MINUTE)
    assert running(world) == [0]
    world.end_all()
    assert running(world) == [1]
    world.forward(MINUTE)

    assert world.tale == [
        "fired 12:00", "buffered 12:01", "skipped 12:02 buffer_full", "skipped 12:03 buffer_full", "fired 12:01",
        "buffered 12:04",
    ]  # fmt: skip


def test_buffer_all_keeps_all_in_order() -> None:
    """One after the other; what comes later stands behind them."""
    world = a_world(overlap=Overlap.BUFFER_ALL)

    world.forward(HALF + 3 * MINUTE)
    seen = [running(world)]
    for _ in range(3):
        world.end_all()
        seen.append(running(world))
        world.forward(20 * SECOND)

    assert seen == [[0], [1], [2], [3]]
    assert world.tale[-2:] == ["fired 12:03", "buffered 12:04"]


def test_no_more_than_a_thousand_wait() -> None:
    """The next is passed over, and told."""
    world = World(a_schedule(interval_ms=SECOND, overlap=Overlap.BUFFER_ALL), NOON - 1)

    world.forward(1002 * SECOND + 1)

    assert len(world.progress.waiting) == 1000
    assert world.tale[-2:] == ["skipped 12:16:41 buffer_full", "skipped 12:16:42 buffer_full"]


def test_cancel_previous_keeps_the_last_of_several_in_a_row() -> None:
    """Each asks the active run to stop and takes the place of the one that waits; the last runs when it has."""
    world = a_world(overlap=Overlap.CANCEL_PREVIOUS)

    world.forward(HALF + 3 * MINUTE)
    assert world.canceling == world.live
    assert running(world) == [0]
    world.end_all()

    assert running(world) == [3]
    assert world.tale == [
        "fired 12:00", "buffered 12:01 cancel_previous",
        "buffered 12:02 cancel_previous", "skipped 12:01 superseded",
        "buffered 12:03 cancel_previous", "skipped 12:02 superseded",
        "fired 12:03",
    ]  # fmt: skip


def test_an_end_that_nobody_told_of_is_noticed() -> None:
    """Whoever waits looks again by himself after a while."""
    world = a_world(overlap=Overlap.BUFFER_ONE)
    world.forward(HALF + MINUTE)
    world.live.clear()

    world.forward(LOOK_AGAIN_MS)

    assert world.tale[-1] == "fired 12:01"


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        (Overlap.ALLOW, ["fired 12:01", "fired 12:02"]),
        (Overlap.SKIP, ["skipped 12:01 overlap", "skipped 12:02 overlap"]),
        (Overlap.BUFFER_ONE, ["skipped 12:02 buffer_full"]),
        (Overlap.BUFFER_ALL, []),
        (Overlap.CANCEL_PREVIOUS, ["skipped 12:01 superseded"]),
    ],
)
def test_another_policy_counts_from_now_also_for_what_waits(overlap: Overlap, expected: list[str]) -> None:
    """What waits is started, passed over or kept as the new policy says; one that waited longest comes first."""
    world = a_world(overlap=Overlap.BUFFER_ALL)
    world.forward(HALF + 2 * MINUTE)

    world.do(world.updating(overlap=overlap))
    world.forward(LOOK_AGAIN_MS)

    assert world.tale == ["fired 12:00", "buffered 12:01", "buffered 12:02", "updated", *expected]


# Downtime -------------------------------------------------------------------------------------------------------------


def test_after_a_downtime_the_latest_are_made_up_for_oldest_first() -> None:
    """The others are told, with why."""
    world = a_world(catchup_limit=3)
    world.sleep(HOUR)

    world.settle()

    assert world.tale == ["skipped 12:00-12:56 (57) catchup_limit", "fired 12:57", "fired 12:58", "fired 12:59"]
    assert world.look_ms == NOON + HOUR


def test_a_schedule_may_make_up_for_nothing() -> None:
    """What is late by no more than a slow moment was not missed."""
    world = a_world(catchup_limit=0)

    world.sleep(10 * MINUTE)
    world.settle()
    world.sleep(HALF + 10 * SECOND)
    world.settle()
    world.sleep(MINUTE + 1)
    world.settle()

    assert world.tale == ["skipped 12:00-12:09 (10) catchup_limit", "fired 12:10", "skipped 12:11 (1) catchup_limit"]


def test_what_was_missed_too_long_ago_is_dropped_for_that() -> None:
    """Within the window, the limit counts."""
    world = a_world(catchup_limit=2, catchup_window_ms=5 * MINUTE)
    world.sleep(HOUR)

    world.settle()

    assert world.tale == [
        "skipped 12:00-12:54 (55) catchup_window",
        "skipped 12:55-12:57 (3) catchup_limit",
        "fired 12:58",
        "fired 12:59",
    ]


@pytest.mark.parametrize(
    ("overlap", "told", "active"),
    [
        (Overlap.ALLOW, ["fired 12:02", "fired 12:03", "fired 12:04"], [2, 3, 4]),
        (Overlap.SKIP, ["fired 12:02", "skipped 12:03 overlap", "skipped 12:04 overlap"], [2]),
        (Overlap.BUFFER_ONE, ["fired 12:02", "buffered 12:03", "skipped 12:04 buffer_full"], [2]),
        (Overlap.BUFFER_ALL, ["fired 12:02", "buffered 12:03", "buffered 12:04"], [2]),
        (
            Overlap.CANCEL_PREVIOUS,
            [
                "fired 12:02",
                "buffered 12:03 cancel_previous",
                "buffered 12:04 cancel_previous",
                "skipped 12:03 superseded",
            ],
            [2],
        ),
    ],
)
def test_what_is_made_up_for_obeys_the_policy(overlap: Overlap, told: list[str], active: list[int]) -> None:
    """As if the times came now, one after the other."""
    world = a_world(overlap=overlap, catchup_limit=3)
    world.sleep(5 * MINUTE)

    world.settle()

    assert world.tale == ["skipped 12:00-12:01 (2) catchup_limit", *told]
    assert running(world) == active


def test_a_downtime_of_a_year_is_settled_in_a_few_steps() -> None:
    """However dense the times are."""
    world = World(a_schedule(interval_ms=SECOND, catchup_limit=2), NOON - 1)
    world.sleep(365 * DAY + 1)
    rev = world.rev

    world.settle()

    assert world.rev - rev == 1 + 2 + 11
    assert world.tale[0].startswith("skipped 12:00-11:59:47 (many)")


def test_the_end_comes_in_the_middle_of_what_is_made_up_for() -> None:
    """Only times up to it were missed; then it ends."""
    world = a_world(end_ms=NOON + 8 * MINUTE, catchup_limit=3)
    world.sleep(HOUR)

    world.settle()

    assert world.tale == [
        "skipped 12:00-12:05 (6) catchup_limit", "fired 12:06", "fired 12:07", "fired 12:08", "ended end",
    ]  # fmt: skip


def test_other_times_put_an_end_to_what_is_made_up_for() -> None:
    """In the middle of it: what is left is told as passed over."""
    world = a_world(catchup_limit=4)
    world.sleep(10 * MINUTE)
    world.do(world.settling())
    world.do(world.settling())

    world.do(world.updating(cron="*/5 * * * *"))
    world.forward(MINUTE)

    assert world.tale == [
        "skipped 12:00-12:05 (6) catchup_limit", "fired 12:06",
        "skipped 12:07-12:09 (3) updated", "updated",
        "fired 12:10",
    ]  # fmt: skip


# Pauses ---------------------------------------------------------------------------------------------------------------


def test_a_paused_schedule_rests_and_what_it_rested_through_is_told() -> None:
    """Nobody looks at it meanwhile; it goes on with its next time."""
    world = a_world()
    world.forward(HALF)

    world.do(world.pausing("ill"))
    assert world.look_ms is None
    world.forward(10 * MINUTE)
    world.do(world.resuming())
    world.forward(MINUTE)

    assert world.tale == [
        "fired 12:00", "paused ill", "skipped 12:01-12:10 (10) paused", "resumed", "fired 12:11",
    ]  # fmt: skip


def test_what_waits_rests_through_a_pause_and_has_its_turn_afterwards() -> None:
    """The run that it waited for ends meanwhile; what comes during the pause is passed over."""
    world = a_world(overlap=Overlap.BUFFER_ALL)
    world.forward(HALF + 2 * MINUTE)

    world.do(world.pausing())
    world.end_all()
    world.forward(3 * MINUTE)
    assert (running(world), world.look_ms) == ([], None)
    world.do(world.resuming())
    world.settle()

    assert running(world) == [1]
    assert world.tale[3:] == ["paused", "skipped 12:03-12:05 (3) paused", "resumed", "fired 12:01"]


def test_a_trigger_runs_also_while_the_schedule_rests() -> None:
    """What rests keeps it from nothing, and stays where it is."""
    world = a_world(overlap=Overlap.BUFFER_ONE)
    world.forward(HALF + MINUTE)
    world.do(world.pausing())
    world.end_all()

    world.do(world.triggering("t"))

    assert world.tale[2:] == ["paused", "fired 12:01 trigger"]
    assert [fire.at_ms for fire in world.progress.waiting] == [NOON + MINUTE]
    world.end_all()
    assert world.look_ms is None


# Asked for ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overlap", "told"),
    [
        (Overlap.ALLOW, ["fired 12:00:20 trigger"]),
        (Overlap.SKIP, ["skipped 12:00:20 trigger overlap"]),
        (Overlap.BUFFER_ONE, []),
        (Overlap.BUFFER_ALL, []),
        (Overlap.CANCEL_PREVIOUS, []),
    ],
)
@pytest.mark.parametrize("is_said", [True, False])
def test_a_trigger_obeys_the_policy_or_its_own(overlap: Overlap, told: list[str], is_said: bool) -> None:
    """Like any fire; if it waits, it is told when it runs."""
    world = a_world(overlap=Overlap.SKIP if is_said else overlap)
    world.forward(HALF + 20 * SECOND)

    world.do(world.triggering("t", overlap if is_said else None))
    assert world.tale == ["fired 12:00", *told]
    assert bool(world.canceling) is (overlap is Overlap.CANCEL_PREVIOUS)
    world.end_all()
    world.forward(LOOK_AGAIN_MS)  # nobody tells of the end of a run that skips others

    assert world.tale == ["fired 12:00", *(told or ["fired 12:00:20 trigger"])]


def test_triggers_of_one_moment_are_several_runs() -> None:
    """Their keys tell them apart."""
    world = a_world()

    world.do(world.triggering("a"))
    world.do(world.triggering("b"))
    world.do(world.triggering("a"))

    assert len(world.runs) == 2


def test_a_trigger_after_the_end_still_runs() -> None:
    """The schedule stays over."""
    world = a_world(end_ms=NOON)
    world.forward(MINUTE)

    world.do(world.triggering("t"))

    assert world.tale == ["fired 12:00", "ended end", "fired 12:00:30 trigger"]
    assert world.progress.over is Over.END


def test_a_backfill_of_all_at_once_goes_in_chunks() -> None:
    """Each time once, and none that is outside; nobody has to wake cron for the next chunk."""
    world = a_world()

    world.do(world.backfilling(NOON - 5 * HOUR, NOON - HOUR))
    world.forward(1)

    times = [fire.at_ms for fire in world.runs.values()]
    assert times == list(range(NOON - 5 * HOUR, NOON - HOUR + 1, MINUTE))
    assert len(times) > 2 * BACKFILL_CHUNK
    assert world.progress.backfills == ()


def test_a_backfill_of_one_after_the_other_waits_for_each_end() -> None:
    """Also if the schedule itself allows overlap: its own times go on beside it."""
    world = a_world()

    world.do(world.backfilling(NOON - 3 * MINUTE, NOON - MINUTE, Overlap.BUFFER_ALL))
    world.forward(1)
    assert running(world) == [-3]
    world.end_all()
    assert running(world) == [-2]
    world.forward(MINUTE)
    assert running(world) == [-2, 0]
    world.end_all()
    world.end_all()

    assert world.tale == [
        "fired 11:57 backfill", "fired 11:58 backfill", "fired 12:00", "fired 11:59 backfill",
    ]  # fmt: skip
    assert world.progress.backfills == ()


def test_a_backfill_leaves_out_what_has_run_unless_it_is_to_run_again() -> None:
    """Which is told."""
    world = a_world()
    world.forward(HALF + MINUTE)

    world.do(world.backfilling(NOON - MINUTE, NOON + MINUTE))
    world.settle()
    world.do(world.backfilling(NOON, NOON, key="again"))
    world.settle()

    assert world.tale[2:] == [
        "fired 11:59 backfill", "skipped 12:00 backfill ran_before", "skipped 12:01 backfill ran_before",
        "fired 12:00 backfill",
    ]  # fmt: skip
    assert len(world.runs) == 4


def test_a_backfill_of_one_after_the_other_waits_also_for_a_run_of_before() -> None:
    """One that it comes upon and that has not ended is in the way of the next."""
    world = a_world(end_ms=NOON + MINUTE)
    world.forward(HALF + MINUTE)
    early, late = world.runs

    world.do(world.backfilling(NOON, NOON + MINUTE, Overlap.BUFFER_ALL))
    world.end(late)
    world.forward(2 * LOOK_AGAIN_MS)
    assert world.tale[3:] == ["skipped 12:00 backfill ran_before"]
    world.end(early)
    world.forward(LOOK_AGAIN_MS)

    assert world.tale[3:] == ["skipped 12:00 backfill ran_before", "skipped 12:01 backfill ran_before"]


# The number of runs ---------------------------------------------------------------------------------------------------


def test_a_schedule_ends_after_so_many_runs() -> None:
    """Skipped fires do not count; beyond the last run it has no times."""
    world = a_world(max_runs=2, overlap=Overlap.SKIP)
    world.forward(HALF + MINUTE)
    world.end_all()

    world.forward(HOUR)

    assert world.tale == ["fired 12:00", "skipped 12:01 overlap", "fired 12:02", "ended max_runs"]
    assert (world.progress.over, world.look_ms) == (Over.MAX_RUNS, None)


def test_what_waits_counts_among_the_runs() -> None:
    """It is one of them, and runs although the schedule has no further times."""
    world = a_world(max_runs=2, overlap=Overlap.BUFFER_ALL)

    world.forward(HALF + 5 * MINUTE)
    assert world.tale == ["fired 12:00", "buffered 12:01", "ended max_runs"]
    assert not world.progress.is_done
    world.end_all()
    world.forward(HOUR)

    assert world.tale[3:] == ["fired 12:01"]
    assert world.progress.is_done


def test_triggers_and_backfills_do_not_count_among_the_runs() -> None:
    """They are asked for beside them."""
    world = a_world(max_runs=1)

    world.do(world.triggering("t"))
    world.do(world.backfilling(NOON - MINUTE, NOON - MINUTE))
    world.forward(HOUR)

    assert world.tale == ["fired 11:59:30 trigger", "fired 11:59 backfill", "fired 12:00", "ended max_runs"]


def test_of_what_was_missed_no_more_is_made_up_for_than_runs_are_left() -> None:
    """The oldest of those within the limit."""
    world = a_world(max_runs=2, catchup_limit=4)
    world.sleep(10 * MINUTE)

    world.settle()

    assert world.tale == ["skipped 12:00-12:05 (6) catchup_limit", "fired 12:06", "fired 12:07", "ended max_runs"]


def test_more_runs_let_a_schedule_go_on_from_now() -> None:
    """What would have come meanwhile was none of its times."""
    world = a_world(max_runs=1)
    world.forward(10 * MINUTE)

    world.do(world.updating(max_runs=2))
    world.forward(MINUTE)

    assert world.tale == ["fired 12:00", "ended max_runs", "updated", "fired 12:10", "ended max_runs"]


def test_fewer_runs_pass_over_what_waits() -> None:
    """And end it at once if as many have run."""
    world = a_world(max_runs=5, overlap=Overlap.BUFFER_ALL)
    world.forward(HALF + 3 * MINUTE)

    world.do(world.updating(max_runs=2))
    world.end_all()
    world.forward(HOUR)

    assert world.tale[4:] == [
        "updated",
        "ended max_runs",
        "fired 12:01",
        "skipped 12:02 updated",
        "skipped 12:03 updated",
    ]


def test_a_last_run_that_is_superseded_leaves_room_for_another() -> None:
    """Skipped fires do not count: the schedule goes on, from now."""
    world = a_world(max_runs=2, overlap=Overlap.BUFFER_ONE)
    world.forward(HALF + MINUTE)
    assert world.progress.over is Over.MAX_RUNS
    world.forward(10 * MINUTE)

    world.do(world.triggering("t", Overlap.CANCEL_PREVIOUS))
    world.end_all()
    world.end_all()
    world.forward(MINUTE)

    assert world.tale[3:] == [
        "skipped 12:01 superseded", "fired 12:11 trigger", "fired 12:12", "ended max_runs",
    ]  # fmt: skip


# Times that cannot be told --------------------------------------------------------------------------------------------


def test_a_schedule_whose_zone_vanishes_rests_until_it_gets_another() -> None:
    """It says why; nothing that waits is lost."""
    world = a_world(overlap=Overlap.BUFFER_ONE, zone="Europe/Berlin")
    world.forward(HALF + MINUTE)
    world.schedule = replace(world.schedule, zone="Mars/Phobos")

    world.forward(10 * MINUTE)
    world.end_all()
    assert world.progress.pause is not None
    assert world.progress.pause.reason is not None
    assert "'Mars/Phobos' is not a time zone" in world.progress.pause.reason
    assert (world.look_ms, running(world), len(world.tale)) == (None, [], 3)

    world.do(world.updating(zone="Asia/Tokyo"))
    world.do(world.resuming())
    world.settle()
    world.end_all()
    world.forward(MINUTE)

    assert world.tale[3:] == ["updated", "resumed", "fired 12:01", "fired 12:12"]


# Who dies -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", list(Overlap))
@pytest.mark.parametrize("lived", range(1, 8))
def test_wherever_a_settler_dies_the_next_one_comes_to_the_same_runs(overlap: Overlap, lived: int) -> None:
    """And tells of each fire what became of it, as if nobody had died."""

    def story(*, with_deaths: bool) -> World:
        world = a_world(overlap=overlap, catchup_limit=3)
        for minute in range(6):
            world.sleep(HALF if minute == 0 else MINUTE)
            if with_deaths:
                world.do(world.settling(), lived)
            world.sleep(3 * SECOND)
            world.settle()
            if minute % 2:
                world.end_all()
        return world

    died, lasting = story(with_deaths=True), story(with_deaths=False)

    assert list(died.runs) == list(lasting.runs)
    assert died.tale == lasting.tale


@pytest.mark.parametrize("lived", range(1, 8))
def test_a_run_that_nobody_told_is_not_missed(lived: int) -> None:
    """Who starts it dies, and the next cron comes a day later: it is told as fired if it was, and as missed if not."""
    world = a_world(catchup_limit=0)
    world.sleep(HALF)
    world.do(world.settling(), lived)
    was_started = bool(world.runs)
    world.sleep(DAY + HALF)

    world.settle()

    assert (world.tale[0] == "fired 12:00") is was_started
    assert world.tale[was_started].startswith(f"skipped {'12:01' if was_started else '12:00'}-12:00 (many)")


CHANGES: dict[str, Callable[[World], object]] = {
    "pause": lambda world: world.do(world.pausing()),
    "update": lambda world: world.do(world.updating(cron="*/7 * * * *")),
    "cancel": lambda world: world.do(world.canceling_it()),
    "other policy": lambda world: world.do(world.updating(overlap=Overlap.SKIP)),
    "trigger": lambda world: world.do(world.triggering("t")),
    "end of runs": lambda world: world.end_all(),
}


@pytest.mark.parametrize("overlap", list(Overlap))
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("lived", range(1, 8))
def test_a_run_is_told_once_whatever_is_changed_while_it_is_started(change: str, overlap: Overlap, lived: int) -> None:
    """As fired, by him who started it, and not as skipped too, unless it was when it had not been started yet."""
    world = a_world(overlap=overlap)
    world.forward(HALF)
    world.sleep(MINUTE)
    settling = world.settling()

    world.do(settling, lived)
    was_run = world.schedule.run_id(Fire(NOON + MINUTE)) in world.runs
    CHANGES[change](world)
    world.do(settling)
    world.do(world.resuming())
    world.forward(HALF)

    about = [note for note in world.history if (note.fire_ms, note.origin) == (NOON + MINUTE, Origin.SCHEDULE)]
    told = [note.what for note in about if note.what is not What.BUFFERED]
    is_run = world.schedule.run_id(Fire(NOON + MINUTE)) in world.runs
    assert told.count(What.FIRED) == is_run
    assert told.count(What.SKIPPED) <= (not was_run)


def test_a_trigger_that_was_started_and_not_told_is_not_skipped_for_the_run_beside_it() -> None:
    """Whoever started both died, and the next cron comes too late for the schedule's own time."""
    world = a_world()
    world.sleep(HALF - SECOND)
    world.do(world.triggering("t", Overlap.SKIP), 2)  # it is asked for
    world.sleep(SECOND)
    world.do(world.settling(), 5)
    assert len(world.runs) == 2
    world.sleep(10 * MINUTE)

    world.settle()

    assert world.tale[:2] == ["fired 11:59:59 trigger", "fired 12:00"]
    assert not [line for line in world.tale if line.startswith("skipped") and "trigger" in line]


@pytest.mark.parametrize("ask", [World.pausing, lambda world: world.triggering("t"), lambda world: world.updating()])
def test_a_run_that_is_told_by_who_changes_the_schedule_counts(ask: Callable[[World], Steps]) -> None:
    """Whoever started it died; it is one of the runs that there may be, and is in the way of others."""
    world = a_world(max_runs=2, overlap=Overlap.SKIP)
    world.sleep(HALF)
    world.do(world.settling(), 4)
    assert len(world.runs) == 1

    world.do(ask(world))
    world.do(world.resuming())
    world.sleep(MINUTE)
    world.settle()
    world.end_all()
    world.forward(HOUR)

    own = [line for line in world.tale if "trigger" not in line]
    assert [line for line in own if line.split()[0] not in ("paused", "resumed", "updated")] == [
        "fired 12:00", "skipped 12:01 overlap", "fired 12:02", "ended max_runs",
    ]  # fmt: skip
    assert world.progress.runs == 2


def test_runs_of_a_backfill_are_not_taken_for_those_of_the_schedule() -> None:
    """It comes to times that the schedule has not come to, while that rests; they do not use up its runs."""
    world = a_world(max_runs=2)
    world.do(world.pausing())
    world.sleep(10 * MINUTE)
    world.do(world.backfilling(NOON, NOON + 5 * MINUTE))
    world.settle()

    world.do(world.updating(jitter_ms=0))
    world.do(world.resuming())
    world.forward(HOUR)

    assert world.tale[7:] == [
        "updated", "skipped 12:00-12:09 (10) paused", "resumed", "fired 12:10", "fired 12:11", "ended max_runs",
    ]  # fmt: skip


def test_a_backfill_that_is_overtaken_tells_of_its_runs_once() -> None:
    """It comes upon them again, and knows them for its own."""
    world = a_world()
    world.do(world.backfilling(NOON - 2 * MINUTE, NOON - MINUTE))
    settling = world.settling()
    world.do(settling, 5)
    assert len(world.runs) == 2

    world.do(world.updating(jitter_ms=0))
    world.do(settling)
    world.settle()

    assert world.tale == ["updated", "fired 11:58 backfill", "fired 11:59 backfill"]
