"""Runs of a schedule that were started, and of which it does not know: who started them died, or lost a race.  Pure.

Whoever passes over a fire, or changes the schedule, looks for its run first, and whoever loses a race tells of what he
has started.  Two corners remain, both of somebody who read the schedule before another changed it, and started runs
after that.  If he lives, the history tells of them twice: they were passed over, and then fired.  If he dies at once,
it tells only the first.  And a backfill that somebody died over does not tell of its last runs if it is cancelled, or
the schedule gets other times, before it is taken up again.  No run is started twice, whatever is told.
"""

from collections.abc import Sequence
from dataclasses import replace

from taskflow_domain.beginning import Begun
from taskflow_domain.changing import has_run_out, moved
from taskflow_domain.firing import MOST_ACTIVE
from taskflow_domain.schedules import Fire, Note, Origin, Progress, Schedule, What


def passed_over(progress: Progress, begun: Begun) -> list[Fire]:
    """Fires that this step is the first not to start, or to give up.

    Somebody may have started them who died before he could say so.
    """
    gone = [fire for fire, _ in begun.skips if fire in progress.waiting]
    next_ms = progress.next_ms
    if next_ms is None or next_ms > begun.settled_ms or Fire(next_ms) in begun.starts:
        return gone
    return [*gone, Fire(next_ms)]


def perhaps_started(progress: Progress, now_ms: int) -> list[Fire]:
    """Fires that somebody may have started who died before he could say so: who changes the schedule asks for them."""
    if progress.next_ms is None or progress.due_ms is None or progress.due_ms > now_ms:
        return list(progress.waiting)
    return [*progress.waiting, Fire(progress.next_ms)]


def comes_upon(schedule: Schedule, progress: Progress, fire: Fire) -> bool:
    """Whether a schedule will still come to a fire."""
    if fire in progress.waiting:
        return True
    if fire.origin is Origin.BACKFILL:
        rest = [each for each in progress.backfills if each.key == fire.key]
        return any(each.after_ms < fire.at_ms <= each.to_ms for each in rest)
    if fire.origin is Origin.TRIGGER or progress.pause is not None or progress.over is not None:
        return False
    return fire.at_ms > progress.after_ms and schedule.rhythm.next_after_ms(fire.at_ms - 1) == fire.at_ms


def recalled(schedule: Schedule, progress: Progress, started: Sequence[Fire]) -> tuple[Progress, tuple[Note, ...]]:
    """With runs that were started, and of which it does not know."""
    runs = tuple(schedule.run_id(fire) for fire in started)
    notes = [Note(What.FIRED, fire.at_ms, fire.origin, run=run) for fire, run in zip(started, runs, strict=True)]
    times = [fire.at_ms for fire in started if fire.origin is Origin.SCHEDULE]
    before = progress.over
    progress = replace(
        progress,
        runs=progress.runs + len(times),
        active=(*progress.active, *runs)[-MOST_ACTIVE:],
        waiting=tuple(fire for fire in progress.waiting if fire not in started),
        last_ms=started[-1].at_ms,
        last_run=runs[-1],
    )
    progress = moved(schedule, progress, max([progress.after_ms, *times]), is_full=has_run_out(schedule, progress))
    if progress.over is not None and before is None:
        notes.append(Note(What.ENDED, why=progress.over))
    return progress, tuple(notes)
