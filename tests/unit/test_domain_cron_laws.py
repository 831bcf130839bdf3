"""Cron against brute force: any expression, in any zone, on any day, and on the oddest ones by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import process_time
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from taskflow_domain import BadCron, datetime_of_ms, ms_of_datetime, ms_of_iso, parse_cron
from tests.support.cron_by_hand import Days, Meant, changes, expressions, first_after, instants

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
FAR = ms_of_iso("2400-01-01")

# Zones whose clocks change otherwise than by an hour in the small hours, and a year in which they did.
ODD = [
    ("Australia/Lord_Howe", 2026),  # by half an hour
    ("Antarctica/Troll", 2026),  # by two hours
    ("Antarctica/Casey", 2018),  # by three
    ("Antarctica/Vostok", 1994),  # by seven
    ("Pacific/Apia", 2011),  # a day that never was
    ("Pacific/Kwajalein", 1993),
    ("Pacific/Kiritimati", 1994),
    ("Europe/Dublin", 2026),  # winter is the exception
    ("Africa/Casablanca", 2026),  # the month of Ramadan is
    ("Africa/El_Aaiun", 2030),
    ("America/Havana", 2026),  # at midnight
    ("America/Santiago", 2026),
    ("America/Asuncion", 2023),
    ("America/Sao_Paulo", 2018),
    ("Asia/Beirut", 2026),
    ("Africa/Cairo", 2026),
    ("Asia/Tehran", 2021),
    ("Asia/Gaza", 2026),
    ("America/Scoresbysund", 2024),  # the zone moved on the day of the change
    ("America/St_Johns", 2006),  # at one minute past midnight
    ("Pacific/Chatham", 2026),
    ("Asia/Kathmandu", 1985),  # by a quarter of an hour, once
    ("Asia/Pyongyang", 2018),
    ("America/Caracas", 2016),
    ("Africa/Monrovia", 1972),  # by 44 minutes and a half
    ("Europe/Berlin", 2050),
]
ALL_ZONES = sorted(available_timezones() - {"localtime", "Factory"})
EVERY = frozenset(range(60))
ALL_MONTHS = frozenset(range(1, 13))
ANY_DAY = Days(None, has_last=False, of_week=None, nth=frozenset())


def of_hours(minute: str, hour: str, minutes: set[int], hours: set[int]) -> Meant:
    """An expression for every day."""
    return Meant(f"{minute} {hour} * * *", frozenset(minutes), frozenset(hours), ALL_MONTHS, ANY_DAY)


USUAL = [
    of_hours("30", "2", {30}, {2}),
    of_hours("0", "0", {0}, {0}),
    of_hours("45", "23,0,1,2", {45}, {23, 0, 1, 2}),
    of_hours("*/15", "*", {0, 15, 30, 45}, set(range(24))),
    of_hours("7", "*", {7}, set(range(24))),
    of_hours("0", "*/2", {0}, set(range(0, 24, 2))),
    of_hours("*", "0-3", set(EVERY), {0, 1, 2, 3}),
    of_hours("0", "12", {0}, {12}),
]


def found(meant: Meant, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """What the product says of (start, end]."""
    cron, times, at_ms = parse_cron(meant.text, zone.key), [], ms_of_datetime(start)
    while (following := cron.next_after_ms(at_ms)) is not None and following <= ms_of_datetime(end):
        assert following > at_ms
        times.append(datetime_of_ms(following))
        at_ms = following
    return times


@pytest.mark.parametrize(("name", "year"), ODD)
def test_the_oddest_changes_of_clocks_are_as_by_hand(name: str, year: int) -> None:
    """Each of them, with usual expressions; there is one in each of these years."""
    zone = ZoneInfo(name)
    unit = SECOND if name == "Africa/Monrovia" else MINUTE
    assert changes(zone, year)

    for change in changes(zone, year):
        start, end = (change.replace(second=0) + side * (3 if unit is SECOND else 26) * HOUR for side in (-1, 1))
        for meant in USUAL:
            assert found(meant, zone, start, end) == list(instants(meant, zone, start, end, unit)), meant.text


@given(
    meant=expressions(),
    name=st.sampled_from([name for name, _ in ODD]) | st.sampled_from(ALL_ZONES),
    year=st.integers(1973, 2060),
    which=st.integers(0, 9),
    asked=st.lists(st.integers(0, 2 * 26 * 3600 * 1000), max_size=5),
)
@settings(max_examples=150, deadline=None)
def test_any_change_of_clocks_is_as_by_hand(meant: Meant, name: str, year: int, which: int, asked: list[int]) -> None:
    """In all zones, with all expressions, also for who asks at any time around it."""
    zone = ZoneInfo(name)
    days = changes(zone, year) or [datetime(year, 12, 31, 23, tzinfo=UTC)]
    start, end = days[which % len(days)] - 26 * HOUR, days[which % len(days)] + 26 * HOUR
    expected = list(instants(meant, zone, start, end, MINUTE))
    assume(_can_come(meant))

    assert found(meant, zone, start, end) == expected

    for after in (start + timedelta(milliseconds=ms) for ms in asked):
        following = parse_cron(meant.text, name).next_after_ms(ms_of_datetime(after))
        later = [at for at in expected if at > after]
        assert following is not None
        assert datetime_of_ms(following) == later[0] if later else datetime_of_ms(following) > end


@given(
    meant=expressions(with_seconds=True),
    place=st.sampled_from([("Africa/Monrovia", 1972), *ODD]),
    minutes=st.integers(-100, 40),
    which=st.integers(0, 9),
)
@settings(max_examples=60, deadline=None)
def test_seconds_are_as_by_hand(meant: Meant, place: tuple[str, int], minutes: int, which: int) -> None:
    """An hour near a change of clocks, also where they differ from others by odd seconds."""
    zone = ZoneInfo(place[0])
    days = changes(zone, place[1])
    start = days[which % len(days)] + minutes * MINUTE
    assume(_can_come(meant))

    assert found(meant, zone, start, start + HOUR) == list(instants(meant, zone, start, start + HOUR, SECOND))


@given(meant=expressions() | expressions(with_seconds=True), after_ms=st.integers(0, FAR))
@settings(max_examples=300, deadline=None)
def test_where_no_clock_changes_the_next_time_is_the_next_in_the_calendar(meant: Meant, after_ms: int) -> None:
    """Through leap years and turns of years, in any century, however rare it is."""
    assume(_can_come(meant))

    following = parse_cron(meant.text).next_after_ms(after_ms)

    assert following is not None
    assert datetime_of_ms(following) == first_after(meant, datetime_of_ms(after_ms))


@given(meant=expressions(), zone=st.sampled_from(ALL_ZONES), after_ms=st.integers(0, FAR))
@settings(max_examples=200, deadline=None)
def test_the_next_time_is_later_and_the_same_from_anywhere_before_it(meant: Meant, zone: str, after_ms: int) -> None:
    """Asking again in between changes nothing."""
    assume(_can_come(meant))
    cron = parse_cron(meant.text, zone)

    following = cron.next_after_ms(after_ms)

    assert following is not None
    assert following > after_ms
    assert cron.next_after_ms((after_ms + following) // 2) == following
    assert cron.next_after_ms(following - 1) == following


@given(meant=expressions())
@settings(max_examples=200, deadline=None)
def test_what_can_come_is_accepted_and_what_cannot_is_refused(meant: Meant) -> None:
    """A day that no year has is told as such."""
    if _can_come(meant):
        parse_cron(meant.text)
        return
    with pytest.raises(BadCron, match="no year has such a day"):
        parse_cron(meant.text)


TEXTS = st.text(max_size=40) | st.lists(
    st.text("0123456789*/,-#?LlWRH@ ", max_size=6)
    | st.sampled_from(["*", "mon", "JAN", "*/0", "9" * 30, "1-1" + "0" * 9]),
    min_size=4,
    max_size=7,
).map(" ".join)


@given(text=TEXTS, after_ms=st.integers(0, FAR))
@settings(max_examples=600, deadline=None)
def test_any_text_is_an_expression_or_is_told_why_not(text: str, after_ms: int) -> None:
    """Nothing else is raised; the place is in the text, and what is an expression has a next time."""
    try:
        cron = parse_cron(text)
    except BadCron as error:
        refusal = error
    else:
        assert (cron.next_after_ms(after_ms) or 0) > after_ms
        return

    assert 1 <= refusal.position <= len(text) + 1
    assert str(refusal).endswith(f"(at character {refusal.position})")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize(
    "text",
    [
        "0 0 29 2 1",
        "0 0 29 2 *",
        "59 59 23 31 12 * 59"[3:],
        "* * 31 2,4,6,9,11 *",
        "0 0 30 2 *",
        "0 0 * 2 mon#5",
        "59 23 29 2 * 59",
        "* 1-22 * * * *",
        "0 0 L 2 sun#5",
        "0 0 30,31 2 L7",
        ",".join(["*"] * 90) + " * * * *",
        ",".join(["0-59"] * 38) + " * * * *",
        "99999999999999999999 * * * *",
        "*/99999999999999999999 * * * *",
    ],
)
def test_no_expression_takes_long(text: str, zone: str) -> None:
    """Neither to read nor to step, also in the hour that comes twice and at the end of the calendar."""
    began_s = process_time()
    try:
        cron = parse_cron(text, zone)
    except BadCron:
        assert process_time() - began_s < 0.5
        return

    for after in ("2026-10-25T01:00:00.001Z", "2096-03-01T00:00Z", "9999-12-31T22:00Z"):
        cron.next_after_ms(ms_of_iso(after))

    assert process_time() - began_s < 0.5


def _can_come(meant: Meant) -> bool:
    """Whether a year may have such a day: all kinds of years come within 28 of them."""
    first = datetime(2000, 1, 1, tzinfo=UTC).date()
    return any(meant.has_day(first + i * DAY) for i in range(28 * 366))
