"""What a moment asks of a schedule: which runs to start, which fires wait, which are passed over and why.  Pure.

One step settles one time of the rhythm, after all that waits.  So what somebody started who died before he could say
so is what whoever comes next starts again, under the same ids, which does nothing: of what waits, those whose turn it
is, and the run of `Progress.next_ms`.  How things are afterwards is told by `firing`.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from taskflow_domain.line import Line
from taskflow_domain.rhythm import GRACE_MS, Catchup, Drop, Why
from taskflow_domain.schedules import ONE_AT_A_TIME, Backfill, Fire, Origin, Overlap, Progress, Schedule

BACKFILL_CHUNK: Final = 100  # fires of a backfill that are started in one step


@dataclass(frozen=True, slots=True)
class Begun:
    """What to do now."""

    starts: tuple[Fire, ...] = ()
    waiting: tuple[Fire, ...] = ()
    skips: tuple[tuple[Fire, Why], ...] = ()
    drops: tuple[Drop, ...] = ()
    cancels: tuple[str, ...] = ()
    backfills: tuple[Backfill, ...] = ()
    settled_ms: int = 0  # all fire times up to here are
    is_full: bool = False  # no run is left of `max_runs`
    live: tuple[str, ...] = ()


def wants_states(schedule: Schedule, progress: Progress) -> bool:
    """Whether `begin` has to know which runs are active."""
    policies = [
        schedule.overlap,
        *(fire.overlap for fire in progress.waiting),
        *(b.overlap for b in progress.backfills),
    ]
    return bool(progress.active) and any(policy not in (None, Overlap.ALLOW) for policy in policies)


def tells_end(schedule: Schedule, fire: Fire) -> bool:
    """Whether somebody waits for the end of this fire's run."""
    return schedule.overlap in ONE_AT_A_TIME or fire.overlap in ONE_AT_A_TIME


def begin(
    schedule: Schedule,
    progress: Progress,
    now_ms: int,
    catchup_limit: int,
    live: Collection[str] = (),
    started: Collection[Fire] = (),
) -> Begun:
    """What to do now; nothing if its times cannot be told, which `conclude` will say.

    `live` are the runs of `progress.active` that have not ended, if `wants_states`.  `started`: fires whose runs are
    there already, so that they are not passed over whatever else has come up: see `untold.passed_over`.
    """
    try:
        due, drops, settled_ms = _due(schedule, progress, now_ms, catchup_limit, started)
        line = Line(schedule, progress.runs, tuple(run for run in progress.active if run in live))
        for fire in (*progress.waiting, *due):
            if fire in started:
                line.start(fire)
        for fire in (*progress.waiting, *due):
            if fire not in started:
                _take_turn(progress, line, fire)
        backfills = _expand(schedule, progress.backfills, line)
    except ValueError:
        return Begun(
            waiting=progress.waiting,
            backfills=progress.backfills,
            settled_ms=progress.after_ms,
            live=progress.active,
        )
    return Begun(
        starts=tuple(line.starts),
        waiting=(*line.resting, *line.waiting),
        skips=tuple(line.skips),
        drops=drops,
        cancels=line.cancels,
        backfills=backfills,
        settled_ms=settled_ms,
        is_full=line.is_full,
        live=line.live,
    )


def times_of(schedule: Schedule, backfill: Backfill) -> Iterator[int]:
    """The fire times that are left of a backfill."""
    for at_ms in schedule.rhythm.times_after(backfill.after_ms):
        if at_ms > backfill.to_ms:
            return
        yield at_ms


def _due(
    schedule: Schedule, progress: Progress, now_ms: int, catchup_limit: int, started: Collection[Fire]
) -> tuple[tuple[Fire, ...], tuple[Drop, ...], int]:
    """The fire whose time has come, what is dropped of those that were missed, and up to where that settles them."""
    if progress.pause is not None or progress.due_ms is None or progress.next_ms is None or progress.due_ms > now_ms:
        return (), (), progress.after_ms
    fire = Fire(progress.next_ms)
    if progress.due_ms < now_ms - GRACE_MS and fire not in started:  # missed: a slow moment would not explain it
        limit = catchup_limit if schedule.catchup_limit is None else schedule.catchup_limit
        plan = schedule.rhythm.plan(progress.after_ms, now_ms, Catchup(limit, schedule.catchup_window_ms))
        if plan.drops:  # first; those that are kept have their turn in the next steps
            return (), plan.drops, plan.dropped_ms
    return (fire,), (), fire.at_ms


def _take_turn(progress: Progress, line: Line, fire: Fire) -> None:
    """During a pause, only what somebody asked for; beyond its last run a schedule has no fires of its own."""
    is_own, waits = fire.origin is Origin.SCHEDULE, fire in progress.waiting
    if is_own and progress.pause is not None:
        line.rest(fire)
    elif not is_own or not line.is_full:
        line.settle(fire)
    elif waits:
        line.skip(fire, Why.UPDATED)  # it may run less often than it did when this began to wait


def _expand(schedule: Schedule, backfills: Sequence[Backfill], line: Line) -> tuple[Backfill, ...]:
    """Start the next fires of the first backfill; what is left of all."""
    if not backfills:
        return ()
    first, *others = backfills
    at_once = first.overlap is Overlap.ALLOW
    if not at_once and (line.is_busy or line.waiting):
        return tuple(backfills)
    wanted = BACKFILL_CHUNK if at_once else 1
    times = list(islice(times_of(schedule, first), wanted))
    for at_ms in times:
        line.start(Fire(at_ms, Origin.BACKFILL, first.key, first.overlap))
    if len(times) < wanted:
        return tuple(others)
    return (replace(first, after_ms=times[-1]), *others)
