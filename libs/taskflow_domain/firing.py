"""What a moment asks of a schedule: which runs to start, which fires wait, which are passed over and why.  Pure.

Settling takes two steps, for the runs are started in between.  `begin` says what to start, cancel and pass over;
`conclude` gives the progress afterwards, what to tell in the history, and when to look again.  `begin` does not work
out the time after this one: many schedules that fire in one moment are all started first.

One step settles one time of the rhythm, so that only the run of `Progress.next_ms` can have been started by somebody
who died before he could say so; whoever comes next starts it again, under the same id, which does nothing.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from taskflow_domain.rhythm import GRACE_MS, Catchup, Drop, Why
from taskflow_domain.schedules import (
    MAX_WAITING,
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


def first_progress(schedule: Schedule, now_ms: int, *, paused: bool = False, reason: str | None = None) -> Progress:
    """Of a new schedule: nothing before now is its business."""
    progress = _moved(schedule, Progress(now_ms - 1, None, None), now_ms - 1)
    return replace(progress, pause=Pause(now_ms, reason)) if paused else progress


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


def is_missed(progress: Progress, now_ms: int) -> bool:
    """Whether the next fire time is past, and longer than a slow moment explains."""
    return progress.pause is None and progress.due_ms is not None and progress.due_ms < now_ms - GRACE_MS


def begin(
    schedule: Schedule,
    progress: Progress,
    now_ms: int,
    catchup_limit: int,
    live: Collection[str] = (),
    *,
    is_started: bool = False,
) -> Begun:
    """What to do now.

    `live` are the runs of `progress.active` that have not ended, if `wants_states`.  `is_started`: the run of a fire
    time that `is_missed` is there already.
    """
    due, drops, settled_ms = _due(schedule, progress, now_ms, catchup_limit, is_started)
    line = _Line(schedule, progress, tuple(run for run in progress.active if run in live))
    resting: list[Fire] = []
    for fire in progress.waiting:
        if fire.origin is not Origin.SCHEDULE or (progress.pause is None and not line.is_full):
            line.settle(fire)
        elif progress.pause is not None:
            resting.append(fire)
        else:
            line.skips.append((fire, Why.UPDATED))  # it may run less often than it did when this began to wait
    if due is not None and not line.is_full:  # beyond its last run a schedule has no fires
        line.settle(Fire(due))
    backfills = _expand(schedule, progress.backfills, line)
    return Begun(
        starts=tuple(line.starts),
        waiting=(*resting, *line.waiting),
        skips=tuple(line.skips),
        drops=drops,
        cancels=line.live if line.cancels else (),
        backfills=backfills,
        settled_ms=settled_ms,
        is_full=line.is_full,
        live=line.live,
    )


def conclude(
    schedule: Schedule, progress: Progress, begun: Begun, ran_before: Collection[Fire], now_ms: int
) -> Concluded:
    """How things are once the runs are started; `ran_before` had been started when their turn came."""
    told_before = set(progress.waiting)
    started = [fire for fire in begun.starts if not (_is_plain_backfill(fire) and fire in ran_before)]
    runs = [schedule.run_id(fire) for fire in started]
    in_the_way = begun.live[-1] if begun.live else (runs[-1] if runs else None)
    notes = [
        Note(What.SKIPPED, drop.first_ms, Origin.SCHEDULE, drop.why, None, drop.last_ms, drop.count)
        for drop in begun.drops
    ]
    notes += [
        Note(What.FIRED, fire.at_ms, fire.origin, run=schedule.run_id(fire))
        if fire in started
        else Note(What.SKIPPED, fire.at_ms, fire.origin, Why.RAN_BEFORE, schedule.run_id(fire))
        for fire in begun.starts
    ]
    notes += [
        Note(What.BUFFERED, fire.at_ms, fire.origin, run=in_the_way)
        for fire in begun.waiting
        if fire not in told_before
    ]
    notes += [Note(What.SKIPPED, fire.at_ms, fire.origin, why, in_the_way) for fire, why in begun.skips]

    progress = replace(
        progress,
        runs=progress.runs + sum(fire.origin is Origin.SCHEDULE for fire in started),
        active=(*begun.live, *runs)[-MOST_ACTIVE:]
        if _watches(schedule, begun)
        else (tuple(runs) or progress.active)[-1:],
        waiting=begun.waiting,
        backfills=begun.backfills,
        last_ms=started[-1].at_ms if started else progress.last_ms,
        last_run=runs[-1] if runs else progress.last_run,
    )
    before = progress.over
    progress = _moved(schedule, progress, begun.settled_ms, is_full=begun.is_full)
    if progress.over is not None and before is None:
        notes.append(Note(What.ENDED, why=progress.over))
    return Concluded(progress, tuple(notes), look_at(progress, now_ms))


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


def paused(progress: Progress, now_ms: int, reason: str | None) -> tuple[Progress, tuple[Note, ...]]:
    """Rest from now on.  Paused again, it has another reason."""
    since_ms = now_ms if progress.pause is None else progress.pause.since_ms
    return replace(progress, pause=Pause(since_ms, reason)), (Note(What.PAUSED, why=reason),)


def resumed(schedule: Schedule, progress: Progress, now_ms: int) -> tuple[Progress, tuple[Note, ...]]:
    """Go on from now; what would have fired meanwhile is passed over, and told."""
    if progress.pause is None:
        return progress, ()
    notes = _passed(schedule, progress, now_ms, Why.PAUSED)
    progress = _moved(schedule, replace(progress, pause=None), max(progress.after_ms, now_ms))
    return progress, (*notes, Note(What.RESUMED))


def redefined(old: Schedule, new: Schedule, progress: Progress, now_ms: int) -> tuple[Progress, tuple[Note, ...]]:
    """With another definition.  Other times count from now; times of the old ones that nobody fired are told."""
    notes: tuple[Note, ...] = ()
    settled_ms, over = progress.after_ms, progress.over
    if not old.same_times(new):
        notes = _passed(old, progress, now_ms, Why.UPDATED if progress.pause is None else Why.PAUSED)
        settled_ms, over = max(progress.after_ms, now_ms), None
    elif new.max_runs != old.max_runs:
        over = None  # unless it has run so often already
        if progress.over is not None:
            settled_ms = max(progress.after_ms, now_ms)
    progress = _moved(new, replace(progress, over=over), settled_ms, is_full=_has_run_out(new, progress))
    return progress, (*notes, Note(What.UPDATED))


def broken(progress: Progress, begun: Begun | None, now_ms: int, why: str) -> Concluded:
    """Its times cannot be told any more, such as those of a zone that was abolished: it rests until it is changed."""
    if begun is not None:
        progress = replace(progress, after_ms=begun.settled_ms, waiting=begun.waiting, backfills=())
    progress = replace(progress, next_ms=None, due_ms=None, pause=Pause(now_ms, why))
    return Concluded(progress, (Note(What.PAUSED, why=why),), None)


def canceled(progress: Progress) -> tuple[Progress, tuple[Note, ...]]:
    """Fire no more; what waits for its turn is passed over."""
    notes = [Note(What.SKIPPED, fire.at_ms, fire.origin, Why.CANCELED) for fire in progress.waiting]
    over = replace(progress, next_ms=None, due_ms=None, over=Over.CANCELED, waiting=(), backfills=())
    return over, (*notes, Note(What.ENDED, why=Over.CANCELED))


class _Line:
    """Fires, one after the other, and what becomes of them."""

    def __init__(self, schedule: Schedule, progress: Progress, live: tuple[str, ...]) -> None:
        self._schedule = schedule
        self._room = None if schedule.max_runs is None else schedule.max_runs - progress.runs
        self.live = live
        self.starts: list[Fire] = []
        self.waiting: list[Fire] = []
        self.skips: list[tuple[Fire, Why]] = []
        self.cancels = False

    @property
    def is_full(self) -> bool:
        """Whether all runs that the schedule may have are started, or wait for their turn."""
        return self._room is not None and self._room <= 0

    @property
    def is_busy(self) -> bool:
        """Whether a run is active, or about to be."""
        return bool(self.live or self.starts)

    def settle(self, fire: Fire) -> None:
        """Start it, let it wait, or pass it over."""
        policy = fire.overlap or self._schedule.overlap
        if policy is Overlap.CANCEL_PREVIOUS:
            self._supersede(fire)
        elif policy is Overlap.ALLOW or not (self.is_busy or (self.waiting and policy in ONE_AT_A_TIME)):
            self._start(fire)
        elif policy is Overlap.SKIP:
            self.skips.append((fire, Why.OVERLAP))
        elif len(self.waiting) >= (1 if policy is Overlap.BUFFER_ONE else MAX_WAITING):
            self.skips.append((fire, Why.BUFFER_FULL))
        else:
            self.keep(fire)

    def keep(self, fire: Fire) -> None:
        """Let it wait."""
        self.waiting.append(fire)
        self._count(fire, -1)

    def _start(self, fire: Fire) -> None:
        self.starts.append(fire)
        self._count(fire, -1)

    def _supersede(self, fire: Fire) -> None:
        """It takes the place of all that were to come before it."""
        for earlier in self.waiting + self.starts:
            self.skips.append((earlier, Why.SUPERSEDED))
            self._count(earlier, 1)
        self.waiting, self.starts = [], []
        if self.live:
            self.cancels = True
            self.keep(fire)
        else:
            self._start(fire)

    def _count(self, fire: Fire, change: int) -> None:
        if self._room is not None and fire.origin is Origin.SCHEDULE:
            self._room += change


def _due(
    schedule: Schedule, progress: Progress, now_ms: int, catchup_limit: int, is_started: bool
) -> tuple[int | None, tuple[Drop, ...], int]:
    """The fire time whose turn it is, what is dropped of those that were missed, and up to where that settles them."""
    if progress.pause is not None or progress.due_ms is None or progress.next_ms is None or progress.due_ms > now_ms:
        return None, (), progress.after_ms
    if is_missed(progress, now_ms) and not is_started:
        limit = catchup_limit if schedule.catchup_limit is None else schedule.catchup_limit
        plan = schedule.rhythm.plan(progress.after_ms, now_ms, Catchup(limit, schedule.catchup_window_ms))
        if plan.drops:  # first; those that are kept have their turn in the next steps
            return None, plan.drops, plan.dropped_ms
    return progress.next_ms, (), progress.next_ms


def _expand(schedule: Schedule, backfills: Sequence[Backfill], line: _Line) -> tuple[Backfill, ...]:
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
        line.starts.append(Fire(at_ms, Origin.BACKFILL, first.key, first.overlap))
    if len(times) < wanted:
        return tuple(others)
    return (replace(first, after_ms=times[-1]), *others)


def times_of(schedule: Schedule, backfill: Backfill) -> Iterator[int]:
    """The fire times that are left of a backfill."""
    for at_ms in schedule.rhythm.times_after(backfill.after_ms):
        if at_ms > backfill.to_ms:
            return
        yield at_ms


def _moved(schedule: Schedule, progress: Progress, settled_ms: int, *, is_full: bool = False) -> Progress:
    """Settled up to a time, and with the fire time after that."""
    if progress.over is Over.CANCELED:
        return progress
    if is_full:
        return replace(progress, after_ms=settled_ms, next_ms=None, due_ms=None, over=Over.MAX_RUNS)
    rhythm = schedule.rhythm
    next_ms = rhythm.next_after_ms(settled_ms)
    if next_ms is None:
        return replace(progress, after_ms=settled_ms, next_ms=None, due_ms=None, over=Over.END)
    return replace(progress, after_ms=settled_ms, next_ms=next_ms, due_ms=rhythm.due_ms(next_ms))


def _passed(schedule: Schedule, progress: Progress, now_ms: int, why: Why) -> tuple[Note, ...]:
    if progress.over is not None or now_ms <= progress.after_ms:
        return ()
    drop = schedule.rhythm.passed(progress.after_ms, now_ms, why)
    if drop is None:
        return ()
    return (Note(What.SKIPPED, drop.first_ms, Origin.SCHEDULE, why, None, drop.last_ms, drop.count),)


def _has_run_out(schedule: Schedule, progress: Progress) -> bool:
    waiting = sum(fire.origin is Origin.SCHEDULE for fire in progress.waiting)
    return schedule.max_runs is not None and progress.runs + waiting >= schedule.max_runs


def _is_plain_backfill(fire: Fire) -> bool:
    return fire.origin is Origin.BACKFILL and not fire.key


def _watches(schedule: Schedule, begun: Begun) -> bool:
    """Whether it matters which of its runs are active."""
    policies = [schedule.overlap, *(fire.overlap for fire in (*begun.starts, *begun.waiting))]
    policies += [backfill.overlap for backfill in begun.backfills]
    return any(policy not in (None, Overlap.ALLOW) for policy in policies)


def absorbed(
    schedule: Schedule, progress: Progress, started: Sequence[int]
) -> tuple[Progress, tuple[Note, ...]] | None:
    """With runs that were started while somebody paused or ended the schedule; None if it knows of them, or will."""
    unknown = [at_ms for at_ms in started if at_ms > progress.after_ms]
    if not unknown or (progress.pause is None and progress.over is None):
        return None  # an active schedule comes upon them by itself
    runs = tuple(schedule.run_id(Fire(at_ms)) for at_ms in unknown)
    notes = tuple(Note(What.FIRED, at_ms, Origin.SCHEDULE, run=run) for at_ms, run in zip(unknown, runs, strict=True))
    progress = replace(
        progress,
        runs=progress.runs + len(runs),
        active=(*progress.active, *runs)[-MOST_ACTIVE:],
        last_ms=unknown[-1],
        last_run=runs[-1],
    )
    return _moved(schedule, progress, unknown[-1]), notes
