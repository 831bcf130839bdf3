"""Cron by brute force: expressions whose meaning is known without a parser, and their instants, found one by one.

It shares nothing with the product but the zone database.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
NO_NAMES: Mapping[int, str] = {}
DAY = timedelta(days=1)

Item = tuple[str, frozenset[int]]  # how it is written, and what it means


@dataclass(frozen=True)
class Days:
    """What the two fields of days mean."""

    of_month: frozenset[int] | None  # None: not restricted
    has_last: bool
    of_week: frozenset[int] | None
    nth: frozenset[tuple[int, int]]  # (weekday, which one in its month; 0: the last)

    def have(self, day: date) -> bool:
        """Whether a day is meant."""
        weekday = day.isoweekday() % 7
        is_last = (day + DAY).month != day.month
        places = {(weekday, (day.day + 6) // 7)} | ({(weekday, 0)} if (day + 7 * DAY).month != day.month else set())
        in_month = self.of_month is not None and (day.day in self.of_month or (self.has_last and is_last))
        in_week = self.of_week is not None and (weekday in self.of_week or bool(places & self.nth))
        if self.of_month is None or self.of_week is None:
            return (self.of_month is None or in_month) and (self.of_week is None or in_week)
        return in_month or in_week


@dataclass(frozen=True)
class Meant:
    """An expression, and what it means."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    months: frozenset[int]
    days: Days
    seconds: frozenset[int] = frozenset({0})

    @property
    def every_hour(self) -> bool:
        """Whether it is a cadence."""
        return len(self.hours) == 24

    def has(self, naive: datetime) -> bool:
        """Whether a local time is meant."""
        return (
            naive.second in self.seconds
            and naive.minute in self.minutes
            and naive.hour in self.hours
            and self.has_day(naive.date())
        )

    def has_day(self, day: date) -> bool:
        """Whether something is meant to happen on a day."""
        return day.month in self.months and self.days.have(day)


def instants(meant: Meant, zone: ZoneInfo, start: datetime, end: datetime, unit: timedelta) -> Iterator[datetime]:
    """All of (start, end], found by looking at the clock after each unit of time."""
    now, before = start, _clock(start, zone)
    while now < end:
        now += unit
        local = now.astimezone(zone)
        clock = _clock(now, zone)
        swallowed = [before + unit * i for i in range(1, max(1, (clock - before) // unit))]
        owed = not meant.every_hour and any(meant.has(time) for time in swallowed)
        if owed or (meant.has(clock) and (meant.every_hour or not local.fold)):
            yield now
        before = clock


def first_after(meant: Meant, after: datetime) -> datetime:
    """The next time, where no clock changes: the first day that is meant, and its first time."""
    day = after.date()
    while True:
        if meant.has_day(day):
            for hour in sorted(meant.hours):
                for minute in sorted(meant.minutes):
                    for second in sorted(meant.seconds):
                        time = datetime(day.year, day.month, day.day, hour, minute, second, tzinfo=UTC)
                        if time > after:
                            return time
        day += DAY


@cache
def changes(zone: ZoneInfo, year: int) -> list[datetime]:
    """The instants of a year at which the clocks of a zone change, to the second."""
    found, hours = [], [datetime(year, 1, 1, tzinfo=UTC) + timedelta(hours=6 * i) for i in range(4 * 366)]
    for low, high in pairwise(hours):
        if _offset(low, zone) != _offset(high, zone):
            while high - low > timedelta(seconds=1):
                middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
                low, high = (middle, high) if _offset(middle, zone) == _offset(low, zone) else (low, middle)
            found.append(high)
    return found


# How such expressions are made ----------------------------------------------------------------------------------------


def expressions(*, with_seconds: bool = False) -> st.SearchStrategy[Meant]:
    """Of five or six fields, with lists, ranges, steps, names and odd days."""
    seconds = _field(0, 59) if with_seconds else st.just(("", frozenset({0})))
    return st.builds(_meant, _field(0, 59), _hours(), _days(), _months(), _weekdays(), seconds)


DayField = tuple[str, frozenset[int] | None, bool]
WeekdayField = tuple[str, frozenset[int] | None, frozenset[tuple[int, int]]]


def _meant(minute: Item, hour: Item, day: DayField, month: Item, weekday: WeekdayField, second: Item) -> Meant:
    text = " ".join(part[0] for part in (minute, hour, day, month, weekday, second)).strip()
    return Meant(text, minute[1], hour[1], month[1], Days(day[1], day[2], weekday[1], weekday[2]), second[1])


def _hours() -> st.SearchStrategy[Item]:
    return st.just(("*", frozenset(range(24)))) | _field(0, 23)


def _months() -> st.SearchStrategy[Item]:
    every = st.just(("*", frozenset(range(1, 13))))
    return every | every | _field(1, 12, dict(enumerate(MONTHS, 1)))


@st.composite
def _days(draw: st.DrawFn) -> DayField:
    if draw(st.booleans()):
        return draw(st.sampled_from(["*", "?", "*/1"])), None, False
    text, values = draw(_field(1, 31, stars=False))
    if draw(st.integers(0, 3)):
        return text, values, False
    return (f"{text},L", values, True) if draw(st.booleans()) else (draw(st.sampled_from("Ll")), frozenset(), True)


@st.composite
def _weekdays(draw: st.DrawFn) -> WeekdayField:
    kind = draw(st.integers(0, 3))
    if kind < 2:
        return draw(st.sampled_from(["*", "?", "*/1"])), None, frozenset()
    if kind == 2:
        text, values = draw(_field(0, 6, dict(enumerate(WEEKDAYS)), stars=False))
        return text, values, frozenset()
    nth = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5)), min_size=1, max_size=3))
    named = draw(st.booleans())
    texts = [f"{WEEKDAYS[day] if named else day or 7}#{which}" if which else f"L{day}" for day, which in nth]
    return ",".join(texts), frozenset(), frozenset(nth)


@st.composite
def _field(draw: st.DrawFn, least: int, most: int, names: Mapping[int, str] = NO_NAMES, *, stars: bool = True) -> Item:
    items = draw(st.lists(_item(least, most, names, stars=stars), min_size=1, max_size=3))
    return ",".join(text for text, _ in items), frozenset().union(*(values for _, values in items))


@st.composite
def _item(draw: st.DrawFn, least: int, most: int, names: Mapping[int, str], *, stars: bool) -> Item:
    """One of a list; its values by walking through the field."""
    every = list(range(least, most + 1))
    step = draw(st.sampled_from([1, 1, 2, 3, 5, 7, 15, 30, 99]))
    suffix = f"/{step}" if step > 1 or draw(st.integers(0, 9)) == 0 else ""
    kind = draw(st.sampled_from(["value", "value", "range", "from", "star"]))
    first, last = draw(st.sampled_from(every)), draw(st.sampled_from(every))
    spell = draw(st.sampled_from([str.lower, str.upper, str.title]))
    written = [spell(names[value]) if bool(names) and draw(st.booleans()) else str(value) for value in (first, last)]
    if kind == "star" and (stars or step > 1):
        return f"*/{step}" if suffix else "*", frozenset(every[::step])
    if kind == "from":
        return f"{written[0]}/{step}", frozenset(range(first, most + 1, step))
    if kind == "range":
        walk = (every + every)[every.index(first) :]
        walk = walk[: walk.index(last) + 1]
        return f"{written[0]}-{written[1]}{suffix}", frozenset(walk[::step])
    return written[0], frozenset({first})


def _offset(at: datetime, zone: ZoneInfo) -> timedelta | None:
    return at.astimezone(zone).utcoffset()


def _clock(at: datetime, zone: ZoneInfo) -> datetime:
    return at.astimezone(zone).replace(tzinfo=None, fold=0)
