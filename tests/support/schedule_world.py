"""A world with one schedule, in memory: its record under compare-and-set, the runs that were started, and the clock.

Who settles or changes the schedule does it step by step, as a generator, so that others can come in between, and so
that he can die at each step: then he is not resumed.  The steps are those of cron and of the api.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from taskflow_domain import (
    Backfill,
    Fire,
    Note,
    Origin,
    Over,
    Overlap,
    Progress,
    Schedule,
    What,
    derived_id,
    iso_of_ms,
    ms_of_iso,
)
from taskflow_domain.beginning import Begun, begin, tells_end, wants_states
from taskflow_domain.changing import canceled, first_progress, paused, redefined, resumed
from taskflow_domain.firing import broken, conclude, look_at
from taskflow_domain.untold import comes_upon, passed_over, perhaps_started, recalled

NOON = ms_of_iso("2026-01-01T12:00:00Z")
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
HOLD_MS = 3 * SECOND
CATCHUP_LIMIT = 5
SCHEDULE_ID = derived_id("schedule", NOON)

Changed = tuple[Schedule, Progress, Sequence[Note]]
Steps = Iterator[None]


def a_schedule(**rules: Any) -> Schedule:
    """One that fires each minute, unless other rules are given."""
    timing = {} if "interval_ms" in rules else {"cron": "* * * * *"}
    return Schedule(SCHEDULE_ID, NOON, **{**timing, **rules})


@dataclass(frozen=True)
class Seen:
    """What somebody has read."""

    schedule: Schedule
    progress: Progress
    rev: int


@dataclass
class World:
    """Everything there is."""

    schedule: Schedule
    now_ms: int = NOON
    rev: int = 1
    progress: Progress = field(init=False)
    look_ms: int | None = field(init=False)
    history: list[Note] = field(default_factory=list)
    runs: dict[str, Fire] = field(default_factory=dict)  # all that were ever started, the oldest first
    live: set[str] = field(default_factory=set)
    watched: set[str] = field(default_factory=set)  # their end is told
    canceling: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.progress = first_progress(self.schedule, self.now_ms)
        self.look_ms = look_at(self.progress, self.now_ms)

    # What others see of it --------------------------------------------------------------------------------------------

    def wrote(self, before: Seen, notes: Sequence[Note]) -> None:
        """The record was changed."""

    def starts(self, seen: Seen, fire: Fire) -> None:
        """Somebody starts a fire's run, perhaps again."""

    # The record and the runs ------------------------------------------------------------------------------------------

    def read(self) -> Seen:
        """The schedule as it is now."""
        return Seen(self.schedule, self.progress, self.rev)

    def write(self, seen: Seen, change: Changed, look_ms: int | None) -> bool:
        """Change it from what was seen; False if that is not what it is."""
        if seen.rev != self.rev:
            return False
        before = self.read()
        self.schedule, self.progress, notes = change
        self.history += notes
        self.look_ms = look_ms
        self.rev += 1
        self.wrote(before, notes)
        return True

    def end(self, run: str) -> None:
        """A run ends; if somebody waits for that, the schedule is looked at."""
        self.live.discard(run)
        self.canceling.discard(run)
        if run in self.watched:
            self.rev += 1
            self.look_ms = self.now_ms

    def _start(self, seen: Seen, fire: Fire) -> bool:
        """Start a run; False if it was started before."""
        self.starts(seen, fire)
        run = seen.schedule.run_id(fire)
        if run in self.runs:
            return False
        self.runs[run] = fire
        self.live.add(run)
        if tells_end(seen.schedule, fire):
            self.watched.add(run)
        return True

    # Who settles it ---------------------------------------------------------------------------------------------------

    def settling(self) -> Steps:
        """Start what is to be started, then write that down."""
        seen, now_ms = self.read(), self.now_ms
        self.look_ms = now_ms + HOLD_MS
        yield
        live = frozenset(self.live) if wants_states(seen.schedule, seen.progress) else frozenset[str]()
        step = begin(seen.schedule, seen.progress, now_ms, CATCHUP_LIMIT, live)
        yield
        started = set[Fire]()
        while found := self._untold(seen, passed_over(seen.progress, step)):
            started |= set(found)
            step = begin(seen.schedule, seen.progress, now_ms, CATCHUP_LIMIT, live, started)
        yield
        old = set[Fire]()
        for fire in step.starts:
            if not self._start(seen, fire):
                old.add(fire)
            yield
        self.canceling |= self.live.intersection(step.cancels)
        yield
        yield from self._concluding(seen, step, old, now_ms)

    def _concluding(self, seen: Seen, step: Begun, old: set[Fire], now_ms: int) -> Steps:
        told = self._told_runs()
        ran_before = {
            fire
            for fire in old
            if fire.origin is Origin.BACKFILL
            and (seen.schedule.run_id(fire) in told or fire.at_ms > seen.progress.after_ms)
        }
        try:
            done = conclude(seen.schedule, seen.progress, step, ran_before, now_ms)
        except ValueError as error:
            done = broken(seen.progress, step, now_ms, str(error))
        if not self.write(seen, (seen.schedule, done.progress, done.notes), done.look_ms):
            yield from self._absorbing([fire for fire in step.starts if fire not in ran_before])

    def _absorbing(self, started: list[Fire]) -> Steps:
        """The schedule was changed after they were started: they are told all the same."""
        while True:
            seen, told = self.read(), self._told_runs()
            yield
            untold = [
                fire
                for fire in started
                if not comes_upon(seen.schedule, seen.progress, fire) and seen.schedule.run_id(fire) not in told
            ]
            if not untold:
                return
            progress, notes = recalled(seen.schedule, seen.progress, untold)
            if self.write(seen, (seen.schedule, progress, notes), look_at(progress, self.now_ms)):
                return

    def _untold(self, seen: Seen, fires: Sequence[Fire]) -> list[Fire]:
        """What somebody started who could not say so."""
        left = self.runs.keys() - self._told_runs()
        return [fire for fire in fires if seen.schedule.run_id(fire) in left]

    def _told_runs(self) -> set[str | None]:
        return {note.run for note in self.history if note.what is What.FIRED}

    # Who changes it ---------------------------------------------------------------------------------------------------

    def changing(self, change: Callable[[Seen], Changed]) -> Steps:
        """Change what is there now, also if it changes meanwhile.  What was started and not told is told first."""
        while True:
            seen = self.read()
            if seen.progress.over is Over.CANCELED:
                return
            fresh, told = self._up_to_date(seen)
            changed = change(fresh)
            yield
            schedule, progress, notes = changed
            if self.write(seen, (schedule, progress, [*told, *notes]), look_at(progress, self.now_ms)):
                return

    def _up_to_date(self, seen: Seen) -> tuple[Seen, Sequence[Note]]:
        started = self._untold(seen, perhaps_started(seen.progress, self.now_ms))
        if not started:
            return seen, ()
        progress, notes = recalled(seen.schedule, seen.progress, started)
        return replace(seen, progress=progress), notes

    def pausing(self, reason: str | None = None) -> Steps:
        """Let it rest."""
        return self.changing(lambda seen: (seen.schedule, *paused(seen.progress, self.now_ms, reason)))

    def resuming(self) -> Steps:
        """Let it go on."""
        return self.changing(lambda seen: (seen.schedule, *resumed(seen.schedule, seen.progress, self.now_ms)))

    def updating(self, **rules: Any) -> Steps:
        """Give it other rules."""

        def change(seen: Seen) -> Changed:
            schedule = replace(seen.schedule, **rules)
            return schedule, *redefined(seen.schedule, schedule, seen.progress, self.now_ms)

        return self.changing(change)

    def canceling_it(self) -> Steps:
        """Let it fire no more."""
        return self.changing(lambda seen: (seen.schedule, *canceled(seen.progress)))

    def triggering(self, key: str, overlap: Overlap | None = None) -> Steps:
        """Ask for a run now, and settle the schedule."""
        fire = Fire(self.now_ms, Origin.TRIGGER, key, overlap)
        yield from self.changing(
            lambda seen: (seen.schedule, replace(seen.progress, waiting=(*seen.progress.waiting, fire)), ())
        )
        self.look_ms = self.now_ms
        yield
        yield from self.settling()

    def backfilling(self, from_ms: int, to_ms: int, overlap: Overlap = Overlap.ALLOW, key: str = "") -> Steps:
        """Ask for the runs of past times."""
        rest = Backfill(from_ms - 1, to_ms, overlap, key)
        return self.changing(
            lambda seen: (seen.schedule, replace(seen.progress, backfills=(*seen.progress.backfills, rest)), ())
        )

    # What tests say ---------------------------------------------------------------------------------------------------

    @property
    def tale(self) -> list[str]:
        """Its history in short: `fired 12:01`, `skipped 12:01-12:55 (55) catchup_limit`, `fired 12:00:30 trigger`."""
        return [_short(note) for note in self.history]

    def end_all(self) -> None:
        """All runs end, and what that calls for is done."""
        for run in list(self.live):
            self.end(run)
        self.settle()

    def do(self, steps: Steps, count: int | None = None) -> None:
        """All that somebody does, or its first steps: then he dies."""
        for done, _ in enumerate(steps, 1):
            if done == count:
                return

    def settle(self) -> None:
        """All that is to be done at this moment."""
        for _ in range(10_000):
            if self.look_ms is None or self.look_ms > self.now_ms:
                return
            self.do(self.settling())
        raise AssertionError("the schedule does not come to rest")

    def forward(self, ms: int) -> None:
        """Time passes, and cron works: it looks when it is told to, and at no other time."""
        until_ms = self.now_ms + ms
        self.settle()
        while self.look_ms is not None and self.look_ms <= until_ms:
            self.now_ms = max(self.now_ms, self.look_ms)
            self.settle()
        self.now_ms = until_ms

    def sleep(self, ms: int) -> None:
        """Time passes, and no cron is there."""
        self.now_ms += ms


def _short(note: Note) -> str:
    words: list[str] = [note.what]
    if note.fire_ms is not None:
        last = "" if note.last_ms in (None, note.fire_ms) else f"-{_clock(note.last_ms or 0)}"
        words.append(_clock(note.fire_ms) + last)
    if note.last_ms is not None:
        words.append("(many)" if note.count is None else f"({note.count})")
    if note.origin not in (None, Origin.SCHEDULE):
        words.append(str(note.origin))
    return " ".join([*words, *([note.why] if note.why else [])])


def _clock(ms: int) -> str:
    text = iso_of_ms(ms)[11:23]
    return text.removesuffix(".000").removesuffix(":00")
