"""When a schedule fires: its times within its bounds, their jitter, and what becomes of those that were missed.

A *fire time* is what the cron expression or the interval says; it names the run for ever.  *Due* is when it is to be
fired: its jitter later.  `plan` answers, for any moment, what to fire now, what to drop and why, and when to look
again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from itertools import islice
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
    """How many missed times are made up for, and how old they may be."""

    limit: int
    window_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a moment asks for."""

    fires: tuple[int, ...]  # fire times, the oldest first
    drops: tuple[Drop, ...]
    dropped_ms: int  # all fire times up to here, and none of `fires`, are dropped
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
        waiting = self._waiting(after_ms, now_ms)
        fresh = [ms for ms in waiting.latest if self.due_ms(ms) >= now_ms - GRACE_MS]
        missed = [ms for ms in waiting.latest if self.due_ms(ms) < now_ms - GRACE_MS]
        oldest_ms = 0 if catchup.window_ms is None else now_ms - catchup.window_ms
        recent = [ms for ms in missed if ms >= oldest_ms]
        kept = recent[len(recent) - min(catchup.limit, len(recent)) :]
        fires = (*kept, *fresh)
        drops = _drops(waiting, missed[: len(missed) - len(kept)], oldest_ms)
        settled_ms = waiting.latest[-1] if waiting.latest else after_ms
        following = self.next_after_ms(settled_ms)
        dropped_ms = fires[0] - 1 if fires else settled_ms
        return Plan(fires, drops, dropped_ms, following, None if following is None else self.due_ms(following))

    def passed(self, after_ms: int, until_ms: int, why: Why) -> Drop | None:
        """The times of a span in which none was fired; None if there are none."""
        waiting = self._waiting(after_ms, until_ms)
        if not waiting.latest:
            return None
        first_ms = waiting.latest[0] if waiting.since_ms is None else waiting.since_ms
        return Drop(why, first_ms, waiting.latest[-1], len(waiting.latest) if waiting.since_ms is None else None)

    def _waiting(self, after_ms: int, now_ms: int) -> "_Waiting":
        """The times that are due by now and not settled: all of them, or the latest and where the others began."""
        counted = list(islice(self._due_by(after_ms, now_ms), MOST_COUNTED + 1))
        if len(counted) <= MOST_COUNTED:
            return _Waiting(counted, None)
        last_ms = self._last(after_ms, now_ms)  # they may have come thick and fast, and ended long ago
        look_ms, latest = FIRST_LOOK_MS, list[int]()
        while len(latest) < LARGEST_CATCHUP:  # which there are: more than that were counted
            latest = list(self._due_by(max(after_ms, last_ms - look_ms), now_ms))
            look_ms *= 4
        return _Waiting(latest[-LARGEST_CATCHUP:], counted[0])

    def _last(self, after_ms: int, now_ms: int) -> int:
        """The last time of a span that has one."""
        low_ms, high_ms = after_ms, now_ms
        while high_ms - low_ms > 1:
            middle_ms = (low_ms + high_ms) // 2
            if next(self._due_by(middle_ms, now_ms), None) is None:
                high_ms = middle_ms
            else:
                low_ms = middle_ms
        return high_ms

    def _due_by(self, after_ms: int, now_ms: int) -> Iterator[int]:
        for ms in self.times_after(after_ms):
            if ms > now_ms or self.due_ms(ms) > now_ms:
                return
            yield ms


@dataclass(frozen=True, slots=True)
class _Waiting:
    latest: list[int]
    since_ms: int | None  # the first of more than could be counted


def _drops(waiting: _Waiting, dropped: list[int], oldest_ms: int) -> tuple[Drop, ...]:
    too_old = [ms for ms in dropped if ms < oldest_ms]
    too_many = [ms for ms in dropped if ms >= oldest_ms]
    rows = [(Why.CATCHUP_WINDOW, too_old), (Why.CATCHUP_LIMIT, too_many)]
    drops = [Drop(why, times[0], times[-1], len(times)) for why, times in rows if times]
    if waiting.since_ms is None:
        return tuple(drops)
    why = drops[0].why if drops else Why.CATCHUP_LIMIT  # the uncounted ones are older than all of these
    why = Why.CATCHUP_WINDOW if waiting.since_ms < oldest_ms else why
    last_ms = drops[0].last_ms if drops and drops[0].why is why else waiting.latest[0] - 1  # or a little earlier
    rest = drops[1:] if drops and drops[0].why is why else drops
    return (Drop(why, waiting.since_ms, last_ms, None), *rest)
