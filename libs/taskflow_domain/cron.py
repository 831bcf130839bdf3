"""Cron expressions in a time zone: which instants they mean, also on the days when clocks change.

`cron_text` says what an expression names, and croniter steps through it in local time; what a local time means is
decided here:

- A time that the spring gap swallows happens at the first instant after the gap.
- A time that the autumn fold brings twice happens once, the first time.
- An expression that names no hours (`*`: every hour) is a cadence, not a time of day: it goes on in both hours of the
  fold, and owes nothing to the gap.  One that names some, if only as `*/2`, means times of day.
"""

from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cache, cached_property, lru_cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from croniter import CroniterError, croniter

from taskflow_domain.cron_text import BadCron, Spelled, spelled
from taskflow_domain.times import ms_of_datetime

YEARS: Final = 50  # without a match in so many, there is none
LONGEST_CHANGE: Final = timedelta(hours=25)  # of any clock: an island that moved across the date line skipped a day
NO_NAMES: Final = frozenset({"localtime", "Factory"})  # of whatever zone a machine is in, and of none

_EPOCH: Final = datetime(1970, 1, 1)
_SECOND: Final = timedelta(seconds=1)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Cron:
    """An expression in a zone.  Made by `parse_cron`."""

    spelled: Spelled
    zone: ZoneInfo

    def next_after_ms(self, after_ms: int) -> int | None:
        """The first instant after one; None if there is none before the year 10000."""
        return _next_ms(self, after_ms)

    def _next(self, after: datetime) -> datetime | None:
        local = _naive(after.astimezone(self.zone))
        if not self.spelled.names_hours:
            return self._next_of_cadence(after, local)
        while (match := self._match_after(local)) is not None:
            instant = self._instant(match)  # a later local time never means an earlier one: the first hit is the next
            if instant > after:
                return instant
            local = match
        return None

    def _next_of_cadence(self, after: datetime, local: datetime) -> datetime | None:
        """On the other side of a change of clocks the local times begin anew, earlier or later than on this side."""
        match = self._match_after(local)
        change = self._change_between(after, after + LONGEST_CHANGE)
        if match is not None and change is not None and self._reckoned(match, after) >= change:
            after = change
            match = self._match_after(_naive(change.astimezone(self.zone)) - _SECOND)
        if match is not None and self._reckoned(match, after) <= after + LONGEST_CHANGE:
            return self._reckoned(match, after)
        while match is not None and self._is_swallowed(match):
            match = self._match_after(match)
        return None if match is None else self._instant(match)

    @cached_property
    def _steppers(self) -> list[croniter]:
        """One for each expression that names a day which a year may have."""
        made = [
            croniter(one, _EPOCH, ret_type=datetime, max_years_between_matches=YEARS)
            for one in self.spelled.expressions
        ]
        return [stepper for stepper in made if _step(stepper, _EPOCH) is not None]

    def _match_after(self, naive: datetime) -> datetime | None:
        """The next local time that is named."""
        found = [match for stepper in self._steppers if (match := _step(stepper, naive)) is not None]
        return min(found, default=None)

    def _reckoned(self, naive: datetime, there: datetime) -> datetime:
        """When a local time is by the clocks of an instant near it."""
        return (naive - (there.astimezone(self.zone).utcoffset() or timedelta())).replace(tzinfo=UTC)

    def _instant(self, naive: datetime) -> datetime:
        """When a local time is: the first time, or right after the gap that swallows it."""
        first = naive.replace(tzinfo=self.zone, fold=0)
        if not self._is_swallowed(naive):
            return first.astimezone(UTC)
        second = naive.replace(tzinfo=self.zone, fold=1)  # in a gap, reckoned with the offset after it: too early
        change = self._change_between(second.astimezone(UTC), first.astimezone(UTC))
        return first.astimezone(UTC) if change is None else change

    def _is_swallowed(self, naive: datetime) -> bool:
        there = naive.replace(tzinfo=self.zone, fold=0)
        return _naive(there.astimezone(UTC).astimezone(self.zone)) != naive

    def _change_between(self, start: datetime, end: datetime) -> datetime | None:
        """The instant in (start, end] at which the clocks change, to the second; None if they do not."""
        before = start.astimezone(self.zone).utcoffset()
        if end.astimezone(self.zone).utcoffset() == before:
            return None
        low, high = int(start.timestamp()), int(end.timestamp()) + (end.microsecond > 0)
        while high - low > 1:
            middle = (low + high) // 2
            if datetime.fromtimestamp(middle, self.zone).utcoffset() == before:
                low = middle
            else:
                high = middle
        return datetime.fromtimestamp(high, UTC)


def parse_cron(text: str, zone: str = "UTC") -> Cron:
    """An expression in a zone.  Raises BadCron, or ValueError for the zone, with a sentence for people."""
    return _parse(text, zone)


def parse_zone(name: str) -> ZoneInfo:
    """A time zone by its IANA name.  Raises ValueError with the nearest names."""
    if name in _zones():
        return ZoneInfo(name)
    lowered = {zone.lower(): zone for zone in _zones()}
    near = [name.lower()] if name.lower() in lowered else get_close_matches(name[:64].lower(), lowered, n=3, cutoff=0.6)
    named = sorted(lowered[zone] for zone in near)
    hint = f"; did you mean {' or '.join(named)}?" if named else "; take a name such as Europe/Berlin or UTC"
    raise ValueError(f"{name[:64]!r} is not a time zone{hint}")


@lru_cache(maxsize=4096)
def _parse(text: str, zone: str) -> Cron:
    cron = Cron(spelled(text), parse_zone(zone))
    if not cron._steppers:
        hint = "choose a day of the month that its months have"
        raise BadCron(f"no year has such a day: {text!r}; {hint}", cron.spelled.day_position)
    return cron


@lru_cache(maxsize=4096)  # many schedules have the same expression
def _next_ms(cron: Cron, after_ms: int) -> int | None:
    try:
        found = cron._next(_EPOCH.replace(tzinfo=UTC) + after_ms * _MILLISECOND)
        return None if found is None else ms_of_datetime(found)
    except (OverflowError, ValueError):  # at the end of the calendar
        return None


def _step(stepper: croniter, naive: datetime) -> datetime | None:
    try:
        # Parsing takes three times as long as a step; a copy, for stepping changes it and threads may share this.
        found: datetime = copy(stepper).get_next(start_time=naive)
    except (CroniterError, OverflowError):
        return None
    return found


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones()) - NO_NAMES


def _naive(local: datetime) -> datetime:
    return local.replace(tzinfo=None, fold=0)
