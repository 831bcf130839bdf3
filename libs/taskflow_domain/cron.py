"""Cron expressions in a time zone: which instants they mean, also on the days when clocks change.

croniter parses and steps through local times; what a local time means is decided here:

- A time that the spring gap swallows happens at the first instant after the gap.
- A time that the autumn fold brings twice happens once, the first time.
- An expression that names no hours (`*`: every hour) is a cadence, not a time of day: it goes on in both hours of the
  fold, and owes nothing to the gap.

Expressions have five fields, or six with seconds last, or one of the names (`@daily`, …).
"""

import re
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cache, cached_property, lru_cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from croniter import CroniterError, croniter

from taskflow_domain.times import datetime_of_ms, ms_of_datetime

FIELDS: Final = ("minute", "hour", "day of month", "month", "day of week", "second")
RANGES: Final = ("0-59", "0-23", "1-31", "1-12 or jan-dec", "0-7 or sun-sat", "0-59")
NAMES: Final = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
TEXT_MAX_CHARS: Final = 200
YEARS: Final = 50  # without a match in so many, there is none
HOUR_FIELD: Final = 1
LONGEST_CHANGE: Final = timedelta(hours=25)  # of any clock: an island that moved across the date line skipped a day

_EPOCH: Final = datetime(1970, 1, 1)
_UNKNOWN: Final = re.compile(r"[^0-9a-z*/,#?-]", re.IGNORECASE)
_RANDOM: Final = re.compile(r"\b[hr]\b", re.IGNORECASE)  # croniter would draw lots; a schedule's jitter is steady


class BadCron(ValueError):
    """An expression that means nothing; the message says where and what to do, `position` counts characters from 1."""

    def __init__(self, message: str, position: int = 1) -> None:
        super().__init__(f"{message} (at character {position})")
        self.position = position


@dataclass(frozen=True)
class Cron:
    """An expression in a zone.  Made by `parse_cron`."""

    text: str
    zone: ZoneInfo

    def next_after_ms(self, after_ms: int) -> int | None:
        """The first instant after one; None if there is none before the year 10000."""
        return _next_ms(self, after_ms)

    @cached_property
    def is_cadence(self) -> bool:
        """Whether it goes on hour by hour, whatever the clocks say."""
        hours = croniter.expand(self.text)[0][HOUR_FIELD]
        return hours == ["*"] or len(hours) == 24

    def _next(self, after: datetime) -> datetime:
        naive = _naive(after.astimezone(self.zone))
        if self.is_cadence:
            return self._next_of_cadence(after, naive)
        while True:  # what a local time means never lies before what an earlier one means: the first hit is the next
            naive = self._match_after(naive)
            instant = self._instant(naive)
            if instant > after:
                return instant

    def _next_of_cadence(self, after: datetime, naive: datetime) -> datetime:
        """On the other side of a change of clocks the local times begin anew, earlier or later than on this side."""
        change = self._change_between(after, after + LONGEST_CHANGE)
        match = self._match_after(naive)
        if change is not None and self._reckoned(match, after) >= change:
            after = change
            match = self._match_after(_naive(change.astimezone(self.zone)) - timedelta(seconds=1))
        near = self._reckoned(match, after)
        if near <= after + LONGEST_CHANGE:
            return near
        while self._is_swallowed(match):
            match = self._match_after(match)
        return self._instant(match)

    @cached_property
    def _stepper(self) -> croniter:
        return croniter(self.text, _EPOCH, ret_type=datetime, max_years_between_matches=YEARS)

    def _match_after(self, naive: datetime) -> datetime:
        # Parsing takes three times as long as a step; a copy, for stepping changes it and threads may share this.
        found: datetime = copy(self._stepper).get_next(start_time=naive)
        return found

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


@lru_cache(maxsize=4096)  # many schedules have the same expression
def _next_ms(cron: Cron, after_ms: int) -> int | None:
    try:
        return ms_of_datetime(cron._next(datetime_of_ms(after_ms)))
    except (CroniterError, OverflowError, ValueError):
        return None


@lru_cache(maxsize=4096)
def _parse(text: str, zone: str) -> Cron:
    cron = Cron(_checked(text), parse_zone(zone))
    if cron.next_after_ms(0) is None:
        position = _fields(text)[2][1]
        raise BadCron(f"no year has such a day: {text!r}; choose a day of the month that its months have", position)
    return cron


def parse_zone(name: str) -> ZoneInfo:
    """A time zone by its IANA name.  Raises ValueError with the nearest names."""
    if name in _zones():
        return ZoneInfo(name)
    lowered = {zone.lower(): zone for zone in _zones()}
    near = [name.lower()] if name.lower() in lowered else get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)
    spelled = sorted(lowered[zone] for zone in near)
    hint = f"; did you mean {' or '.join(spelled)}?" if spelled else "; take a name such as Europe/Berlin or UTC"
    raise ValueError(f"{name[:64]!r} is not a time zone{hint}")


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def _checked(text: str) -> str:
    """The expression as croniter takes it."""
    if len(text) > TEXT_MAX_CHARS:
        raise BadCron(f"an expression has at most {TEXT_MAX_CHARS} characters")
    fields = _fields(text)
    if not fields:
        raise BadCron("an expression has five fields, such as 0 3 * * 1-5, or is a name such as @daily")
    first, position = fields[0]
    if first.startswith("@"):
        if len(fields) > 1 or first.lower() not in NAMES:
            raise BadCron(f"{first!r} is not a name for a schedule; there are {', '.join(NAMES)}", position)
        return first.lower()
    if len(fields) not in (5, 6):
        place = fields[6][1] if len(fields) > 6 else position
        hint = "; there is none for years" if len(fields) == 7 else ""
        raise BadCron(
            f"an expression has five fields ({', '.join(FIELDS[:5])}), or six with seconds last, "
            f"not {len(fields)}{hint}",
            place,
        )
    hint = "; of six fields the last has the seconds, not the first" if len(fields) == 6 else ""
    for index, (field, place) in enumerate(fields):
        _check_field(index, field, place, hint)
    return " ".join(field for field, _ in fields)


def _check_field(index: int, field: str, position: int, hint: str) -> None:
    alone = ["*"] * 5 + (["0"] if index == 5 else [])
    alone[index] = field
    wrong = _UNKNOWN.search(field)
    try:
        if wrong is None and not _RANDOM.search(field):
            croniter.expand(" ".join(alone))
            return
    except (CroniterError, ValueError, KeyError, IndexError):
        pass
    place = position + (wrong.start() if wrong else 0)
    takes = f"it takes {RANGES[index]}, and *, lists, ranges and steps"
    raise BadCron(f"{field!r} is no {FIELDS[index]}; {takes}{hint}", place)


def _fields(text: str) -> list[tuple[str, int]]:
    """The fields, each with the character it begins at, counted from 1."""
    return [(match.group(), match.start() + 1) for match in re.finditer(r"\S+", text)]


def _naive(local: datetime) -> datetime:
    return local.replace(tzinfo=None, fold=0)
