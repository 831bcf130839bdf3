"""How a schedule is once the runs of a moment are started: its progress, what to tell, when to look again.  Pure.

Settling takes two steps, for the runs are started in between: `beginning.begin` says what to start, cancel and pass
over, `conclude` what follows from it.  Only then the time after this one is worked out: many schedules that fire in
one moment are all started first.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from taskflow_domain.beginning import Begun
from taskflow_domain.changing import moved
from taskflow_domain.rhythm import Why
from taskflow_domain.schedules import Fire, Note, Origin, Over, Overlap, Pause, Progress, Schedule, What

LOOK_AGAIN_MS: Final = 5000  # for runs whose end nobody told of
MOST_ACTIVE: Final = 1000  # runs whose end is watched for: those of triggers that allow overlap are not limited


@dataclass(frozen=True, slots=True)
class Concluded:
    """What is true afterwards."""

    progress: Progress
    notes: tuple[Note, ...]
    look_ms: int | None  # when to look again; None: not before somebody changes something


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
            Note(What.BUFFERED, fire.at_ms, fire.origin, _cancels(schedule, fire), in_the_way)
            for fire in begun.waiting
            if fire not in told_before
        ),
        *(
            Note(What.SKIPPED, fire.at_ms, fire.origin, why, None if why is Why.UPDATED else in_the_way)
            for fire, why in begun.skips
        ),
    ]


def _cancels(schedule: Schedule, fire: Fire) -> Overlap | None:
    """The policy, if it cancels what is active."""
    policy = fire.overlap or schedule.overlap
    return policy if policy is Overlap.CANCEL_PREVIOUS else None


def _is_plain_backfill(fire: Fire) -> bool:
    return fire.origin is Origin.BACKFILL and not fire.key


def _watches(schedule: Schedule, begun: Begun) -> bool:
    """Whether it matters which of its runs are active."""
    policies = [schedule.overlap, *(fire.overlap for fire in (*begun.starts, *begun.waiting))]
    policies += [backfill.overlap for backfill in begun.backfills]
    return any(policy not in (None, Overlap.ALLOW) for policy in policies)
