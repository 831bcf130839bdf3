"""What a moment asks of a schedule: which runs to start, which fires wait, which are passed over and why.  Pure.

Settling takes two steps, for the runs are started in between.  `begin` says what to start, cancel and pass over;
`conclude` gives the progress afterwards, what to tell in the history, and when to look again.  `begin` does not work
out the time after this one: many schedules that fire in one moment are all started first.

One step settles one time of the rhythm, after all that waits.  So what somebody started who died before he could say
so is what whoever comes next starts again, under the same ids, which does nothing: of what waits, those whose turn it
is, and the run of `Progress.next_ms`.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from taskflow_domain.changing import moved
from taskflow_domain.line import Line
from taskflow_domain.rhythm import GRACE_MS, Catchup, Drop, Why
from taskflow_domain.schedules import (
    ONE_AT_A_TIME,
    Backfill,
    Fire,
    Note,
    Origin,
    Over,
    Overlap,
    Pause,
    Progress,
    Schedule,
    What,
)

BACKFILL_CHUNK: Final = 100  # fires of a backfill that are started in one step
LOOK_AGAIN_MS: Final = 5000  # for runs whose end nobody told of
MOST_ACTIVE: Final = 1000  # runs whose end is watched for: those of triggers that allow overlap are not limited


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


@dataclass(frozen=True, slots=True)
class Concluded:
    """What is true afterwards."""

    progress: Progress
    notes: tuple[Note, ...]
    look_ms: int | None  # when to look again; None: not before somebody changes something


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


def conclude(
    schedule: Schedule, progress: Progress, begun: Begun, ran_before: Collection[Fire], now_ms: int
) -> Concluded:
    """How things are once the runs are started; `ran_before` had been started when their turn came.

    A schedule whose times cannot be told any more rests: see `broken`.
    """
    started = [fire for fire in begun.starts if not (_is_plain_backfill(fire) and fire in ran_before)]
    runs = [schedule.run_id(fire) for fire in begun.starts]  # also those that ran before: they may not have ended
    notes = _notes(schedule, progress, begun, started)
    before, settled_ms = progress.over, begun.settled_ms
    if before is Over.MAX_RUNS and not begun.is_full:  # its last run was passed over: it goes on, but from now
        settled_ms = max(settled_ms, now_ms)
    progress = replace(
        progress,
        runs=progress.runs + sum(fire.origin is Origin.SCHEDULE for fire in started),
        active=(*begun.live, *runs)[-MOST_ACTIVE:]
        if _watches(schedule, begun)
        else (tuple(runs) or progress.active)[-1:],
        waiting=begun.waiting,
        backfills=begun.backfills,
        last_ms=started[-1].at_ms if started else progress.last_ms,
        last_run=schedule.run_id(started[-1]) if started else progress.last_run,
    )
    try:
        progress = moved(schedule, progress, settled_ms, is_full=begun.is_full)
    except ValueError as error:
        rests = broken(progress, begun, now_ms, f"its times cannot be told: {error}")
        return replace(rests, notes=(*notes, *rests.notes))
    if progress.over is not None and before is None:
        notes.append(Note(What.ENDED, why=progress.over))
    return Concluded(progress, tuple(notes), look_at(progress, now_ms))


def broken(progress: Progress, begun: Begun | None, now_ms: int, why: str) -> Concluded:
    """Its times cannot be told, such as those of a zone that was abolished: it rests until it is changed and resumed.

    What waits for its turn, and what is left of its backfills, waits until then.
    """
    if begun is not None:
        progress = replace(progress, after_ms=begun.settled_ms, waiting=begun.waiting, backfills=begun.backfills)
    is_known = progress.pause is not None and progress.pause.reason == why
    pause = progress.pause if is_known else Pause(now_ms, why)
    progress = replace(progress, next_ms=None, due_ms=None, pause=pause)
    return Concluded(progress, () if is_known else (Note(What.PAUSED, why=why),), None)


def look_at(progress: Progress, now_ms: int) -> int | None:
    """When a schedule has to be looked at; None: not before somebody changes something."""
    asked = any(fire.origin is not Origin.SCHEDULE for fire in progress.waiting) or progress.backfills
    if progress.pause is not None and not asked:
        return None
    looks = [] if progress.pause is not None or progress.due_ms is None else [progress.due_ms]
    if progress.backfills and (progress.backfills[0].overlap is Overlap.ALLOW or not progress.active):
        looks.append(now_ms)
    elif progress.waiting or progress.backfills:
        looks.append(now_ms + LOOK_AGAIN_MS if progress.active else now_ms)
    return min(looks, default=None)


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


def _notes(schedule: Schedule, progress: Progress, begun: Begun, started: Sequence[Fire]) -> list[Note]:
    """What to tell of a step."""
    told_before, fired = set(progress.waiting), set(started)
    runs = [schedule.run_id(fire) for fire in started]
    in_the_way = begun.live[-1] if begun.live else (runs[-1] if runs else None)
    return [
        *(
            Note(What.SKIPPED, drop.first_ms, Origin.SCHEDULE, drop.why, None, drop.last_ms, drop.count)
            for drop in begun.drops
        ),
        *(
            Note(What.FIRED, fire.at_ms, fire.origin, run=schedule.run_id(fire))
            if fire in fired
            else Note(What.SKIPPED, fire.at_ms, fire.origin, Why.RAN_BEFORE, schedule.run_id(fire))
            for fire in begun.starts
        ),
        *(
            Note(What.BUFFERED, fire.at_ms, fire.origin, run=in_the_way)
            for fire in begun.waiting
            if fire not in told_before
        ),
        *(
            Note(What.SKIPPED, fire.at_ms, fire.origin, why, None if why is Why.UPDATED else in_the_way)
            for fire, why in begun.skips
        ),
    ]


def _is_plain_backfill(fire: Fire) -> bool:
    return fire.origin is Origin.BACKFILL and not fire.key


def _watches(schedule: Schedule, begun: Begun) -> bool:
    """Whether it matters which of its runs are active."""
    policies = [schedule.overlap, *(fire.overlap for fire in (*begun.starts, *begun.waiting))]
    policies += [backfill.overlap for backfill in begun.backfills]
    return any(policy not in (None, Overlap.ALLOW) for policy in policies)
