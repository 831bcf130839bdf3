"""Schedules under random operations, deaths at any step and races: every time is accounted for, once.

Whoever works on a schedule lives through a few seconds at most.  The laws:

- A fire is one run, and a run is started once.
- Each time that is settled was fired, was passed over with a reason, or waits: exactly one of them.  What is not
  settled yet was told as neither.
- What was started is told as fired, once.  It is told as passed over too only if it was when nobody had started it yet:
  who started it had read the schedule before somebody else changed it.
- There are never more runs than there may be, and never two where one is to follow the other.
- What waits has its turn, and cron, which looks only when it is told to, misses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from taskflow_domain import Fire, Note, Origin, Overlap, Schedule, What, Why
from taskflow_domain.schedules import Over
from tests.support.schedule_world import HOUR, MINUTE, NOON, SECOND, Seen, Steps, World, a_schedule

LIFE_MS = 4 * SECOND
ONE_RUN = frozenset(Overlap) - {Overlap.ALLOW}


@dataclass
class Books(World):
    """A world that is watched: what became of each time of the rhythm, and of each run."""

    settled: set[int] = field(default_factory=set)  # times of the rhythm, of whatever rules it had then
    fired: Counter[int] = field(default_factory=Counter)
    skipped: Counter[int] = field(default_factory=Counter)
    told: Counter[tuple[str | None, Origin | None]] = field(default_factory=Counter)
    own: set[int] = field(default_factory=set)  # times of the rhythm that were started
    gone: set[int] = field(default_factory=set)  # moments of triggers that were passed over
    late: set[int] = field(
        default_factory=set
    )  # what was started although it had been passed over, or the schedule cancelled
    faults: list[str] = field(default_factory=list)
    keeps_policy: bool = True
    keeps_backfills: bool = True

    def wrote(self, before: Seen, notes: Sequence[Note]) -> None:
        if before.progress.over is None:
            self.settled |= set(_times(before.schedule, before.progress.after_ms, self.progress.after_ms))
        for note in notes:
            if note.what is What.FIRED:
                self.told[note.run, note.origin] += 1
            if note.what is What.SKIPPED and note.origin is Origin.TRIGGER:
                self.gone.add(note.fire_ms or 0)
            if note.origin is not Origin.SCHEDULE or note.fire_ms is None:
                continue
            if note.what is What.FIRED:
                self.fired[note.fire_ms] += 1
            elif note.what is What.SKIPPED:
                self._skipped(before.schedule, note)

    def _skipped(self, schedule: Schedule, note: Note) -> None:
        assert note.fire_ms is not None
        assert note.why is not None
        times = [note.fire_ms] if note.last_ms is None else _times(schedule, note.fire_ms - 1, note.last_ms)
        if not times or (times[0], times[-1]) != (note.fire_ms, note.last_ms or note.fire_ms):
            self.faults.append(f"{note} has other bounds than {times}")
        if note.count not in (None, len(times)):
            self.faults.append(f"{note} tells of {len(times)}")
        self.skipped.update(times)

    def starts(self, seen: Seen, fire: Fire) -> None:
        run = seen.schedule.run_id(fire)
        if fire.origin is Origin.TRIGGER and fire.at_ms in self.gone and run not in self.runs:
            self.late.add(fire.at_ms)
        if fire.origin is not Origin.SCHEDULE:
            return
        if fire.at_ms not in self.own and (self.skipped[fire.at_ms] or self.progress.over is Over.CANCELED):
            self.late.add(fire.at_ms)
        is_first = run not in self.runs and fire.at_ms not in self.late
        self.own.add(fire.at_ms)
        if not is_first:
            return
        most = seen.schedule.max_runs
        if most is not None and len(self.own - self.late) > most:
            self.faults.append(f"{len(self.own)} runs are more than {most}")
        others = [one for one in self.live if self.runs[one].origin is Origin.SCHEDULE]
        if self.keeps_policy and seen.schedule.overlap in ONE_RUN and others:
            self.faults.append(f"{fire} starts beside {others}")

    def check(self) -> None:
        """The laws that hold at every moment."""
        assert not self.faults, self.faults
        waiting = {fire.at_ms for fire in self.progress.waiting if fire.origin is Origin.SCHEDULE}
        for at_ms in self.settled | set(self.fired) | set(self.skipped) | waiting:
            became = self.fired[at_ms] + self.skipped[at_ms] + (at_ms in waiting)
            assert self.fired[at_ms] <= 1, f"{at_ms} is told as fired more than once: {self.tale}"
            if at_ms not in self.late:
                assert became == (at_ms in self.settled), f"{at_ms} became {became} things: {self.tale}"
            if self.skipped[at_ms] and at_ms not in self.late:
                assert at_ms not in self.own, f"{at_ms} was started, and is told as passed over: {self.tale}"
        assert all(count == 1 for count in self.told.values()), self.told


def _times(schedule: Schedule, after_ms: int, to_ms: int) -> list[int]:
    return list(takewhile(lambda ms: ms <= to_ms, schedule.rhythm.times_after(after_ms)))


OVERLAPS = st.sampled_from(list(Overlap))
RULES = st.fixed_dictionaries(
    {"overlap": OVERLAPS},
    optional={
        "interval_ms": st.sampled_from([10 * SECOND, 37 * SECOND, 7 * MINUTE]),
        "jitter_ms": st.sampled_from([2 * SECOND, 50 * SECOND]),
        "catchup_limit": st.integers(0, 4),
        "catchup_window_ms": st.sampled_from([30 * SECOND, 10 * MINUTE]),
        "max_runs": st.integers(1, 4),
        "end_ms": st.sampled_from([NOON + MINUTE, NOON + HOUR]),
    },
)
CHANGES = st.one_of(
    st.sampled_from([{"interval_ms": 20 * SECOND, "cron": None}, {"interval_ms": None, "cron": "*/2 * * * *"}]),
    st.sampled_from([{"jitter_ms": 0}, {"jitter_ms": 20 * SECOND}, {"catchup_limit": 0}, {"catchup_limit": 3}]),
    st.sampled_from([{"end_ms": None}, {"end_ms": NOON + 2 * HOUR}, {"max_runs": None}, {"max_runs": 3}]),
    st.fixed_dictionaries({"overlap": OVERLAPS}),
)


class Machine(RuleBasedStateMachine):
    """Whatever can happen."""

    @initialize(rules=RULES)
    def begin(self, rules: dict[str, Any]) -> None:
        self.world = Books(a_schedule(**rules), NOON - 5 * SECOND)
        self.tasks: list[Steps] = []
        self.asked = 0

    def _begins(self, steps: Steps, count: int) -> None:
        """Somebody begins something, and comes so far for now."""
        self.world.do(steps, count)
        self.tasks = [*self.tasks, steps][-3:]

    @rule(ms=st.sampled_from([0, 1, SECOND, LIFE_MS]))
    def a_moment_passes(self, ms: int) -> None:
        """Those who are at work live on."""
        self.world.sleep(ms)

    @rule(ms=st.sampled_from([10 * SECOND, 70 * SECOND, 10 * MINUTE, 3 * HOUR]))
    def time_passes_without_cron(self, ms: int) -> None:
        """Whoever was at work is gone."""
        self.tasks = []
        self.world.sleep(ms)

    @rule(ms=st.sampled_from([SECOND, 10 * SECOND, 70 * SECOND, 5 * MINUTE]))
    def time_passes(self, ms: int) -> None:
        """With a cron that does what it is told."""
        if ms > LIFE_MS:
            self.tasks = []
        self.world.forward(ms)

    @rule(count=st.integers(1, 9))
    def somebody_settles(self, count: int) -> None:
        """A cron, or one more."""
        self._begins(self.world.settling(), count)

    @rule(count=st.integers(2, 6), later_ms=st.sampled_from([0, 3 * SECOND, MINUTE]))
    def cron_comes_in_time_and_dies(self, count: int, later_ms: int) -> None:
        """With its work half done; the next one comes later."""
        world = self.world
        if world.look_ms is not None and world.look_ms > world.now_ms:
            self.tasks = []
            world.now_ms = world.look_ms
        world.do(world.settling(), count)
        if later_ms > LIFE_MS:
            self.tasks = []
        world.sleep(later_ms)

    @rule(count=st.integers(1, 3))
    def somebody_pauses(self, count: int) -> None:
        """It rests."""
        self._begins(self.world.pausing(), count)

    @rule(count=st.integers(1, 3))
    def somebody_resumes(self, count: int) -> None:
        """It goes on."""
        self._begins(self.world.resuming(), count)

    @rule(count=st.integers(1, 3), rules=CHANGES)
    def somebody_changes_it(self, count: int, rules: dict[str, Any]) -> None:
        """It gets other rules."""
        if "overlap" in rules:
            self.world.keeps_policy = False
        if "interval_ms" in rules or "end_ms" in rules:
            self.world.keeps_backfills = False
        self._begins(self.world.updating(**rules), count)

    @rule(count=st.integers(1, 9), overlap=st.none() | OVERLAPS)
    def somebody_triggers_it(self, count: int, overlap: Overlap | None) -> None:
        """A run is asked for now."""
        self.asked += 1
        self._begins(self.world.triggering(f"t{self.asked}", overlap), count)

    @rule(
        count=st.integers(1, 3),
        span=st.sampled_from([MINUTE, HOUR]),
        overlap=st.sampled_from([Overlap.ALLOW, Overlap.BUFFER_ALL]),
        again=st.booleans(),
    )
    def somebody_asks_for_the_past(self, count: int, span: int, overlap: Overlap, again: bool) -> None:
        """Runs of past times are asked for."""
        self.asked += 1
        world = self.world
        rest = world.backfilling(world.now_ms - span, world.now_ms, overlap, f"b{self.asked}" if again else "")
        self._begins(rest, count)

    @precondition(lambda self: self.asked > 6)
    @rule()
    def somebody_cancels_it(self) -> None:
        """It fires no more."""
        if self.world.progress.over is not Over.CANCELED:
            self.world.keeps_backfills = False
            self.world.do(self.world.canceling_it())

    @precondition(lambda self: self.tasks)
    @rule(which=st.integers(0, 2), count=st.integers(1, 9))
    def somebody_goes_on(self, which: int, count: int) -> None:
        """One of those at work."""
        self.world.do(self.tasks[which % len(self.tasks)], count)

    @precondition(lambda self: self.tasks)
    @rule(which=st.integers(0, 2))
    def somebody_dies(self, which: int) -> None:
        """One of those at work."""
        del self.tasks[which % len(self.tasks)]

    @precondition(lambda self: self.world.live)
    @rule(which=st.integers(0, 9))
    def a_run_ends(self, which: int) -> None:
        """Any of them."""
        live = sorted(self.world.live)
        self.world.end(live[which % len(live)])

    @rule()
    def what_is_to_stop_stops(self) -> None:
        """As it was asked to."""
        for run in sorted(self.world.canceling & self.world.live):
            self.world.end(run)

    @invariant()
    def all_is_accounted_for(self) -> None:
        """See `Books`."""
        self.world.check()

    def teardown(self) -> None:
        """Nobody changes anything any more; in the end all that can be done is done."""
        world = self.world
        world.sleep(LIFE_MS)
        for _ in range(2000):
            for run in list(world.live):
                world.end(run)
            world.forward(5 * SECOND)
            world.check()
            if not self._waits():
                break
        else:
            raise AssertionError(f"something waits for ever: {world.progress}")
        progress = world.progress
        rests = progress.pause is not None or progress.over is not None
        assert world.look_ms == (None if rests else progress.due_ms)
        assert rests or (world.look_ms or 0) > world.now_ms
        told = {note.run for note in world.history if note.what is What.FIRED or note.why == Why.RAN_BEFORE}
        untold = {fire for run, fire in world.runs.items() if run not in told}
        left = {fire for fire in untold if fire.at_ms not in world.late | set(self._unsettled())}
        if world.keeps_backfills:  # else a backfill may not come again to what somebody started for it who died
            assert not left, f"{left} were started, and are not told: {world.tale}"
        assert all(fire.origin is Origin.BACKFILL for fire in left), f"{left}"

    def _waits(self) -> bool:
        progress = self.world.progress
        rests = progress.pause is not None
        waiting = [fire for fire in progress.waiting if not (rests and fire.origin is Origin.SCHEDULE)]
        return bool(waiting or progress.backfills)

    def _unsettled(self) -> list[int]:
        """Of a schedule that rests: what somebody may have started before, who died; it is told when it is resumed."""
        progress = self.world.progress
        if progress.pause is None:
            return []
        return [fire.at_ms for fire in progress.waiting] + ([] if progress.next_ms is None else [progress.next_ms])


TestLaws = Machine.TestCase
TestLaws.settings = settings(
    max_examples=200 if settings().derandomize else 5 * settings().max_examples, stateful_step_count=50, deadline=None
)
