"""When a schedule fires: its times within its bounds, their jitter, and what becomes of those that were missed.

A *fire time* is what the cron expression or the interval says; it names the run for ever.  *Due* is when it is to be
fired: its jitter later.  `plan` answers, for any moment, what to fire now, what to drop and why, and when to look
again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from itertools import islice, takewhile
from typing import Final, Protocol

from taskflow_domain.times import MAX_MS

GRACE_MS: Final = 10_000  # a time that is late by no more was not missed, it is only being fired
MOST_COUNTED: Final = 1000  # missed times are counted one by one up to here; a year of seconds would take minutes
FIRST_LOOK_MS: Final = 60_000
LARGEST_CATCHUP: Final = 1000


class Timing(Protocol):
    """What has a next time: a `Cron`, or an `Interval`."""

    def next_after_ms(self, after_ms: int) -> int | None:
        """The first time after one; None if there is none."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Every so many milliseconds, counted from an anchor: no drift, whatever happens in between."""

    every_ms: int
    anchor_ms: int

    def next_after_ms(self, after_ms: int) -> int | None:
        """The first time after one; the anchor itself is the first of all.  None if there is none before 10000."""
        ms = self.anchor_ms + max(0, (after_ms - self.anchor_ms) // self.every_ms + 1) * self.every_ms
        return ms if ms <= MAX_MS else None


class Why(StrEnum):
    """Why a fire time was passed over."""

    CATCHUP_LIMIT = "catchup_limit"  # it was missed, and so were too many after it
    CATCHUP_WINDOW = "catchup_window"  # it was missed too long ago
    PAUSED = "paused"
    UPDATED = "updated"  # the schedule got other times before it was fired
    OVERLAP = "overlap"  # a run was active
    BUFFER_FULL = "buffer_full"  # a run was active, and enough others waited for its end
    SUPERSEDED = "superseded"  # a later one took its place
    CANCELED = "canceled"  # the schedule was
    RAN_BEFORE = "ran_before"  # a backfill came upon a run of this time


@dataclass(frozen=True, slots=True)
class Drop:
    """Fire times that were passed over for one reason."""

    why: Why
    first_ms: int
    last_ms: int
    count: int | None  # None: more than MOST_COUNTED


@dataclass(frozen=True, slots=True)
class Catchup:
    """How many missed times are made up for, and how long ago they may have been due."""

    limit: int
    window_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a moment asks for."""

    fires: tuple[int, ...]  # fire times, the oldest first
    drops: tuple[Drop, ...]
    dropped_ms: int  # all fire times up to here are dropped
    next_ms: int | None  # the fire time after these; None: the schedule is over
    due_ms: int | None  # when to look again


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The times of one schedule.  `seed` makes its jitter its own, and the same for everyone who asks."""

    timing: Timing
    seed: str
    start_ms: int | None = None
    end_ms: int | None = None
    jitter_ms: int = 0

    def times_after(self, after_ms: int) -> Iterator[int]:
        """Its fire times after one, within its bounds."""
        at = after_ms if self.start_ms is None else max(after_ms, self.start_ms - 1)
        while (following := self.timing.next_after_ms(at)) is not None:
            if self.end_ms is not None and following > self.end_ms:
                return
            yield following
            at = following

    def next_after_ms(self, after_ms: int) -> int | None:
        """The first fire time after one."""
        return next(self.times_after(after_ms), None)

    def due_ms(self, fire_ms: int) -> int:
        """When a fire time is to be fired: up to `jitter_ms` later, and always before the next."""
        if self.jitter_ms <= 0:
            return fire_ms
        following = self.timing.next_after_ms(fire_ms)
        last_ms = MAX_MS if following is None else following - 1
        room = min(self.jitter_ms, last_ms - fire_ms)
        drawn = int.from_bytes(sha256(f"{self.seed}:{fire_ms}".encode()).digest()[:8])
        return fire_ms + drawn % (room + 1)

    def plan(self, after_ms: int, now_ms: int, catchup: Catchup) -> Plan:
        """What to do at a moment, when all fire times up to `after_ms` are settled."""
        missed_ms = self._last(after_ms, now_ms - GRACE_MS - 1)
        fresh = list(self._due_by(missed_ms, now_ms))
        old_ms = after_ms if catchup.window_ms is None else self._last(after_ms, now_ms - catchup.window_ms - 1)
        kept = self._latest(old_ms, missed_ms, catchup.limit)
        dropped_ms = kept[0] - 1 if kept else missed_ms
        whole = replace(self, jitter_ms=0)  # when they were due does not matter any more
        drops = (
            whole.passed(after_ms, min(old_ms, dropped_ms), Why.CATCHUP_WINDOW),
            whole.passed(old_ms, dropped_ms, Why.CATCHUP_LIMIT),
        )
        fires = (*kept, *fresh)
        following = self.next_after_ms(fires[-1] if fires else missed_ms)
        due_ms = None if following is None else self.due_ms(following)
        return Plan(fires, tuple(drop for drop in drops if drop), dropped_ms, following, due_ms)

    def passed(self, after_ms: int, until_ms: int, why: Why) -> Drop | None:
        """The times of a span in which none was fired; None if there are none."""
        counted = self._counted(after_ms, until_ms)
        if not counted:
            return None
        if len(counted) > MOST_COUNTED:
            return Drop(why, counted[0], self._last(after_ms, until_ms), None)
        return Drop(why, counted[0], counted[-1], len(counted))

    def _last(self, after_ms: int, until_ms: int) -> int:
        """The last time of a span by when it is due; `after_ms` if there is none."""
        if next(self._due_by(after_ms, until_ms), None) is None:
            return after_ms
        low_ms, high_ms = after_ms, until_ms  # there is a time after the one, and none after the other
        while high_ms - low_ms > 1:
            middle_ms = (low_ms + high_ms) // 2
            if next(self._due_by(middle_ms, until_ms), None) is None:
                high_ms = middle_ms
            else:
                low_ms = middle_ms
        return high_ms

    def _latest(self, after_ms: int, last_ms: int, count: int) -> list[int]:
        """The latest times of a span, which may be long ago or many: whoever looks begins at its end."""
        look_ms = FIRST_LOOK_MS
        while True:
            from_ms = max(after_ms, last_ms - look_ms)
            times = list(takewhile(lambda ms: ms <= last_ms, self.times_after(from_ms)))
            if from_ms == after_ms or len(times) >= count:
                return times[len(times) - min(count, len(times)) :]
            look_ms *= 4

    def _counted(self, after_ms: int, until_ms: int) -> list[int]:
        """The first times of a span: all of them, or more than `MOST_COUNTED`."""
        return list(islice(self._due_by(after_ms, until_ms), MOST_COUNTED + 1))

    def _due_by(self, after_ms: int, until_ms: int) -> Iterator[int]:
        for ms in self.times_after(after_ms):
            if ms > until_ms or self.due_ms(ms) > until_ms:
                return
            yield ms
