"""What people do to a schedule: make it, pause and resume it, give it another definition, cancel it.  Pure.

Each change gives the progress afterwards and what to tell in the history.  Fire times that a change passes over are
told, like those that were missed.
"""

from dataclasses import replace

from taskflow_domain.rhythm import Drop, Rhythm, Why
from taskflow_domain.schedules import Note, Origin, Over, Pause, Progress, Schedule, What


def first_progress(schedule: Schedule, now_ms: int, *, paused: bool = False, reason: str | None = None) -> Progress:
    """Of a new schedule: nothing before now is its business."""
    progress = moved(schedule, Progress(now_ms - 1, None, None), now_ms - 1)
    return replace(progress, pause=Pause(now_ms, reason)) if paused else progress


def paused(progress: Progress, now_ms: int, reason: str | None) -> tuple[Progress, tuple[Note, ...]]:
    """Rest from now on.  Paused again, it has another reason."""
    since_ms = now_ms if progress.pause is None else progress.pause.since_ms
    return replace(progress, pause=Pause(since_ms, reason)), (Note(What.PAUSED, why=reason),)


def resumed(schedule: Schedule, progress: Progress, now_ms: int) -> tuple[Progress, tuple[Note, ...]]:
    """Go on from now; what would have fired meanwhile is passed over, and told.

    A time whose jitter makes it due only later is fired then.
    """
    if progress.pause is None:
        return progress, ()
    drop = None if progress.over is not None else schedule.rhythm.passed(progress.after_ms, now_ms, Why.PAUSED)
    settled_ms = progress.after_ms if drop is None else drop.last_ms
    progress = replace(progress, pause=None)
    return moved(schedule, progress, settled_ms, is_full=has_run_out(schedule, progress)), (
        *_told(drop),
        Note(What.RESUMED),
    )


def redefined(old: Schedule, new: Schedule, progress: Progress, now_ms: int) -> tuple[Progress, tuple[Note, ...]]:
    """With another definition.  Other times count from now; times of the old ones that nobody fired are told."""
    before, drop, settled_ms = progress.over, None, progress.after_ms
    if not old.same_times(new):
        drop = _left(old, progress, now_ms)
        settled_ms = max(progress.after_ms, now_ms)
    elif new.max_runs != old.max_runs and before is not None:  # it goes on from now if it may run more often
        settled_ms = max(progress.after_ms, now_ms)
    progress = moved(new, progress, settled_ms, is_full=has_run_out(new, progress))
    ended = (Note(What.ENDED, why=progress.over),) if progress.over is not None and before is None else ()
    return progress, (*_told(drop), Note(What.UPDATED), *ended)


def canceled(progress: Progress) -> tuple[Progress, tuple[Note, ...]]:
    """Fire no more, whatever changes; what waits for its turn is passed over, and so is what is left of backfills."""
    notes = [Note(What.SKIPPED, fire.at_ms, fire.origin, Why.CANCELED) for fire in progress.waiting]
    notes += [
        Note(What.SKIPPED, rest.after_ms + 1, Origin.BACKFILL, Why.CANCELED, last_ms=rest.to_ms, count=None)
        for rest in progress.backfills
    ]
    over = replace(progress, next_ms=None, due_ms=None, over=Over.CANCELED, waiting=(), backfills=())
    return over, (*notes, Note(What.ENDED, why=Over.CANCELED))


def moved(schedule: Schedule, progress: Progress, settled_ms: int, *, is_full: bool = False) -> Progress:
    """Settled up to a time, and with the fire time after that.  Raises ValueError if its times cannot be told."""
    progress = replace(progress, after_ms=settled_ms, next_ms=None, due_ms=None)
    if progress.over is Over.CANCELED:
        return progress
    if is_full:
        return replace(progress, over=Over.MAX_RUNS)
    rhythm = schedule.rhythm
    next_ms = rhythm.next_after_ms(settled_ms)
    if next_ms is None:
        return replace(progress, over=Over.END)
    return replace(progress, next_ms=next_ms, due_ms=rhythm.due_ms(next_ms), over=None)


def has_run_out(schedule: Schedule, progress: Progress) -> bool:
    """Whether all runs that it may have were started, or wait for their turn."""
    waiting = sum(fire.origin is Origin.SCHEDULE for fire in progress.waiting)
    return schedule.max_runs is not None and progress.runs + waiting >= schedule.max_runs


def _left(old: Schedule, progress: Progress, now_ms: int) -> Drop | None:
    """The times up to now that the old definition leaves behind, also those whose jitter makes them due only later."""
    if progress.over is not None:
        return None
    try:
        rhythm: Rhythm = replace(old.rhythm, jitter_ms=0)
    except ValueError:  # such as of a zone that was abolished, which may be why it gets another
        return None
    return rhythm.passed(progress.after_ms, now_ms, Why.UPDATED if progress.pause is None else Why.PAUSED)


def _told(drop: Drop | None) -> tuple[Note, ...]:
    if drop is None:
        return ()
    return (Note(What.SKIPPED, drop.first_ms, Origin.SCHEDULE, drop.why, None, drop.last_ms, drop.count),)
