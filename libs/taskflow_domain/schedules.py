"""What a schedule is: when it fires, what it does about runs that overlap, and how far it has come.  All values.

A *fire* is one time at which a schedule wants a run: by its rhythm, because somebody asked for one now (a trigger), or
for times that are past (a backfill).  The id of its run derives from the schedule and the fire, so that whoever
settles it, and however often, it is one run.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from taskflow_domain.cron import parse_cron
from taskflow_domain.ids import derived_id
from taskflow_domain.rhythm import Interval, Rhythm, Timing

MIN_INTERVAL_MS: Final = 1000
MAX_WAITING: Final = 1000  # fires that may wait for a run to end; all of them are in the schedule's record


class Overlap(StrEnum):
    """What becomes of a fire while a run of the schedule is active."""

    ALLOW = "allow"  # it runs beside it
    SKIP = "skip"  # it is passed over
    BUFFER_ONE = "buffer_one"  # it waits for the end; of several, the first
    BUFFER_ALL = "buffer_all"  # all wait, one after the other
    CANCEL_PREVIOUS = "cancel_previous"  # the active run is cancelled, and this one follows; of several, the last


ONE_AT_A_TIME: Final = frozenset({Overlap.BUFFER_ONE, Overlap.BUFFER_ALL, Overlap.CANCEL_PREVIOUS})


class Origin(StrEnum):
    """Why there is a fire."""

    SCHEDULE = "schedule"
    TRIGGER = "trigger"
    BACKFILL = "backfill"


class Over(StrEnum):
    """Why a schedule fires no more."""

    END = "end"  # its rhythm has no further time
    MAX_RUNS = "max_runs"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True)
class Fire:
    """One time at which a run is wanted."""

    at_ms: int
    origin: Origin = Origin.SCHEDULE
    key: str = ""  # tells fires of one time apart: triggers, and backfills that run again what has run
    overlap: Overlap | None = None  # instead of the schedule's


@dataclass(frozen=True, slots=True)
class Backfill:
    """Times of the past that are to be made up for, as far as they are not settled."""

    after_ms: int
    to_ms: int
    overlap: Overlap  # ALLOW: all at once; else one after the other
    key: str = ""  # "": only what has not run


@dataclass(frozen=True, slots=True)
class Pause:
    """Since when a schedule rests, and why."""

    since_ms: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """The definition: its times, and its rules."""

    id: str
    anchor_ms: int  # what an interval counts from, unless there is a start
    cron: str | None = None
    interval_ms: int | None = None
    zone: str = "UTC"
    start_ms: int | None = None
    end_ms: int | None = None
    jitter_ms: int = 0
    overlap: Overlap = Overlap.ALLOW
    catchup_limit: int | None = None  # None: the default of the deployment
    catchup_window_ms: int | None = None
    max_runs: int | None = None
    partition: int = 0  # where its runs live; fixed, or a fire that is settled again would get another id

    @property
    def rhythm(self) -> Rhythm:
        """Its times.  Raises BadCron or ValueError for what means nothing."""
        return Rhythm(self._timing(), self.id, self.start_ms, self.end_ms, self.jitter_ms)

    def _timing(self) -> Timing:
        if self.cron is not None:
            return parse_cron(self.cron, self.zone)
        if self.interval_ms is None:
            raise ValueError("a schedule has a cron expression or an interval")
        return Interval(self.interval_ms, self.anchor_ms if self.start_ms is None else self.start_ms)

    def run_id(self, fire: Fire) -> str:
        """The id of a fire's run: the same for everyone who asks."""
        return derived_id(
            ":".join([self.id, str(fire.at_ms), *([fire.key] if fire.key else [])]), fire.at_ms, self.partition
        )

    def same_times(self, other: "Schedule") -> bool:
        """Whether both mean the same fire times.  Jitter only says when they are due."""
        return _times(self) == _times(other)


def _times(schedule: Schedule) -> tuple[object, ...]:
    if schedule.cron is not None:
        return schedule.cron, schedule.zone, schedule.start_ms, schedule.end_ms
    anchor_ms = schedule.anchor_ms if schedule.start_ms is None else schedule.start_ms
    return schedule.interval_ms, anchor_ms, schedule.start_ms, schedule.end_ms


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a schedule has come.  Everything else about it is its definition."""

    after_ms: int  # all fire times up to here are settled
    next_ms: int | None  # the fire time after that; None: there is none
    due_ms: int | None  # when that is to be fired
    runs: int = 0  # that its rhythm has started
    over: Over | None = None
    pause: Pause | None = None
    active: tuple[str, ...] = ()  # runs that are not known to have ended; of a schedule that allows overlap, the last
    waiting: tuple[Fire, ...] = ()
    backfills: tuple[Backfill, ...] = ()
    last_ms: int | None = None  # the last fire that was started
    last_run: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether nothing will come of it any more."""
        return self.over is not None and not self.waiting and not self.backfills


class What(StrEnum):
    """What a line of a schedule's history tells."""

    CREATED = "created"
    UPDATED = "updated"
    PAUSED = "paused"
    RESUMED = "resumed"
    FIRED = "fired"
    BUFFERED = "buffered"
    SKIPPED = "skipped"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Note:
    """A line of a schedule's history.  One that tells of several fires has the first, the last and their number."""

    what: What
    fire_ms: int | None = None
    origin: Origin | None = None
    why: str | None = None
    run: str | None = None  # the run it started, or the one that stood in its way
    last_ms: int | None = None
    count: int | None = 1  # None: too many to count
