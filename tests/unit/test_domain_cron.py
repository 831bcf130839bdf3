"""Cron in a time zone: what an expression means on the days when clocks change, and what is no expression."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskflow_domain import BadCron, datetime_of_ms, iso_of_ms, ms_of_datetime, ms_of_iso, parse_cron, parse_zone

ZONES = [
    "UTC", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "America/Havana", "Europe/Berlin",
    "Europe/London", "Africa/Casablanca", "Asia/Kathmandu", "Asia/Tehran", "Australia/Lord_Howe", "Australia/Sydney",
    "Pacific/Apia", "Pacific/Chatham",
]  # fmt: skip
MINUTE = timedelta(minutes=1)


def fires(expression: str, zone: str, after: str, count: int) -> list[str]:
    """The next instants, as local times with their offset."""
    cron, ms, found = parse_cron(expression, zone), ms_of_iso(after), []
    for _ in range(count):
        following = cron.next_after_ms(ms)
        assert following is not None
        ms = following
        found.append(datetime_of_ms(ms).astimezone(ZoneInfo(zone)).isoformat(timespec="minutes"))
    return found


@pytest.mark.parametrize(
    ("zone", "after", "expected"),
    [
        ("America/New_York", "2026-03-07T12:00Z", ["2026-03-08T03:00-04:00", "2026-03-09T02:30-04:00"]),
        ("Europe/Berlin", "2026-03-28T12:00Z", ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]),
    ],
)
def test_what_the_spring_gap_swallows_happens_right_after_it(zone: str, after: str, expected: list[str]) -> None:
    """Once, and the next day at its own time."""
    assert fires("30 2 * * *", zone, after, 2) == expected


@pytest.mark.parametrize(
    ("zone", "expression", "after", "expected"),
    [
        ("America/New_York", "30 1 * * *", "2026-10-31T12:00Z", ["2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00"]),
        ("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00Z", ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
    ],
)
def test_what_the_autumn_fold_repeats_happens_once(zone: str, expression: str, after: str, expected: list[str]) -> None:
    """The first time."""
    assert fires(expression, zone, after, 2) == expected


def test_a_cadence_goes_on_through_the_fold_and_the_gap() -> None:
    """Every half hour is every half hour; every hour at five past is just that."""
    assert fires("*/30 * * * *", "America/New_York", "2026-11-01T05:00Z", 4) == [
        "2026-11-01T01:30-04:00", "2026-11-01T01:00-05:00", "2026-11-01T01:30-05:00", "2026-11-01T02:00-05:00",
    ]  # fmt: skip
    assert fires("5 * * * *", "Europe/Berlin", "2026-03-29T00:00Z", 3) == [
        "2026-03-29T01:05+01:00", "2026-03-29T03:05+02:00", "2026-03-29T04:05+02:00",
    ]  # fmt: skip


def test_a_day_that_never_was_is_made_up_for_at_its_end() -> None:
    """Samoa went from the 29th to the 31st of December 2011."""
    assert fires("0 12 30 12 *", "Pacific/Apia", "2011-06-01T00:00Z", 2) == [
        "2011-12-31T00:00+14:00", "2012-12-30T12:00+14:00",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("@daily", "2026-01-02T00:00:00.000Z"),
        ("@Weekly", "2026-01-04T00:00:00.000Z"),
        ("  0  0 29 2   * ", "2028-02-29T00:00:00.000Z"),
        ("0 0 * * 7", "2026-01-04T00:00:00.000Z"),
        ("0 9 * jan-mar mon-fri", "2026-01-01T09:00:00.000Z"),
        ("0 0 13 * fri", "2026-01-02T00:00:00.000Z"),  # either of them, as cron has it
        ("0 0 L * *", "2026-01-31T00:00:00.000Z"),
        ("0 0 * * mon#2", "2026-01-12T00:00:00.000Z"),
        ("* * * * * */20", "2026-01-01T00:00:20.000Z"),
    ],
)
def test_expressions_mean_what_cron_means(expression: str, expected: str) -> None:
    """Names, lists, ranges, the last day, the second Monday, and seconds as a sixth field."""
    ms = parse_cron(expression).next_after_ms(ms_of_iso("2026-01-01T00:00:00Z"))
    assert ms is not None
    assert iso_of_ms(ms) == expected


@pytest.mark.parametrize(
    ("expression", "position", "words"),
    [
        ("", 1, "five fields"),
        ("* * *", 1, "not 3"),
        ("0 0 1 1 * 0 2030", 13, "not 7"),
        ("61 * * * *", 1, "'61' is no minute"),
        ("0 0 * foo *", 7, "'foo' is no month"),
        ("*/5 a$ * * *", 6, "'a$' is no hour"),
        ("*/0 * * * *", 1, "'*/0' is no minute"),
        ("H * * * *", 1, "'H' is no minute"),
        ("R(0-9) * * * *", 2, "is no minute"),
        ("0 0 31 2 *", 5, "no year has such a day"),
        ("0 0 31 4,6 *", 5, "no year has such a day"),
        ("@nightly", 1, "@daily"),
        ("@daily *", 1, "@daily"),
        ("* " * 200, 1, "at most 200"),
        ("٣ * * * *", 1, "is no minute"),
        ("0\0 * * * *", 2, "is no minute"),
    ],
)
def test_what_is_no_expression_is_told_with_its_place(expression: str, position: int, words: str) -> None:
    """And what to write instead."""
    with pytest.raises(BadCron) as caught:
        parse_cron(expression)

    assert caught.value.position == position
    assert words in str(caught.value)


def test_an_unknown_zone_is_told_with_those_it_resembles() -> None:
    """Zones are known by their IANA names."""
    with pytest.raises(ValueError, match="Europe/Berlin"):
        parse_zone("Europe/Berln")
    with pytest.raises(ValueError, match="America/New_York"):
        parse_zone("america/new_york")
    for name in ("", "Mars/Phobos", "../../etc/passwd", "/etc/localtime", "posixrules"):
        with pytest.raises(ValueError, match="is not a time zone"):
            parse_zone(name)


@given(text=st.text(max_size=40))
@settings(max_examples=300)
def test_any_text_is_an_expression_or_is_told_why_not(text: str) -> None:
    """Nothing else is raised."""
    position = 1
    try:
        parse_cron(text)
    except BadCron as error:
        position = error.position
    assert 1 <= position <= len(text) + 1


@dataclass(frozen=True)
class Expression:
    """An expression whose meaning is known without a parser."""

    minutes: frozenset[int]
    hours: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday

    def __str__(self) -> str:
        return f"{_listed(self.minutes, 60)} {_listed(self.hours, 24)} * * {_listed(self.weekdays, 7)}"

    def matches(self, naive: datetime) -> bool:
        """Whether a local time is meant."""
        return naive.minute in self.minutes and naive.hour in self.hours and naive.isoweekday() % 7 in self.weekdays


def _listed(values: frozenset[int], most: int) -> str:
    return "*" if len(values) == most else ",".join(map(str, sorted(values)))


def _some(most: int) -> st.SearchStrategy[frozenset[int]]:
    every = st.just(frozenset(range(most)))
    return st.one_of(every, st.frozensets(st.integers(0, most - 1), min_size=1, max_size=6))


expressions = st.builds(Expression, _some(60), _some(24), _some(7))


@st.composite
def change_days(draw: st.DrawFn) -> tuple[ZoneInfo, datetime]:
    """A zone, and the midnight (UTC) of a day on which its clocks change, or of any day if they never do."""
    zone = ZoneInfo(draw(st.sampled_from(ZONES)))
    year = draw(st.integers(2008, 2037))
    return zone, draw(st.sampled_from(_changes(zone, year)))


@cache
def _changes(zone: ZoneInfo, year: int) -> list[datetime]:
    first = datetime(year, 1, 1, tzinfo=UTC)
    days = [first + timedelta(days=day) for day in range(365)]
    return [day for day in days if _offset(day, zone) != _offset(day + timedelta(days=1), zone)] or days


def _offset(at: datetime, zone: ZoneInfo) -> timedelta | None:
    return at.astimezone(zone).utcoffset()


def by_hand(expression: Expression, zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """Every instant in (start, end], found by looking at every minute."""
    every_hour = len(expression.hours) == 24
    now, before = start, start.astimezone(zone).replace(tzinfo=None)
    while now < end:
        now += MINUTE
        local = now.astimezone(zone)
        naive = local.replace(tzinfo=None, fold=0)
        swallowed = [before + MINUTE * i for i in range(1, max(1, (naive - before) // MINUTE))]
        owed = not every_hour and any(expression.matches(time) for time in swallowed)
        if owed or (expression.matches(naive) and (every_hour or not local.fold)):
            yield now
        before = naive


@given(expression=expressions, day=change_days())
@settings(max_examples=80, deadline=None)
def test_changes_of_clocks_are_as_by_hand(expression: Expression, day: tuple[ZoneInfo, datetime]) -> None:
    """Around any change of clocks, in any zone and year, and a day before and after it."""
    zone, midnight = day
    start, end = midnight - timedelta(days=1), midnight + timedelta(days=2)
    cron = parse_cron(str(expression), zone.key)

    found, at = [], ms_of_datetime(start)
    while (following := cron.next_after_ms(at)) is not None and following <= ms_of_datetime(end):
        assert following > at
        found.append(datetime_of_ms(following))
        at = following

    assert found == list(by_hand(expression, zone, start, end))


@given(expression=expressions, zone=st.sampled_from(ZONES), after=st.integers(0, ms_of_iso("2090-01-01")))
@settings(max_examples=300, deadline=None)
def test_the_next_time_is_later_and_the_same_from_anywhere_before_it(
    expression: Expression, zone: str, after: int
) -> None:
    """Asking again in between changes nothing."""
    cron = parse_cron(str(expression), zone)
    following = cron.next_after_ms(after)

    assert following is not None
    assert following > after
    assert cron.next_after_ms((after + following) // 2) == following
    assert cron.next_after_ms(following - 1) == following
