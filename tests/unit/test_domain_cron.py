"""Cron in a time zone: what an expression means on the days when clocks change, and what is no expression.

`test_domain_cron_laws` holds it against brute force.
"""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from taskflow_domain import BadCron, datetime_of_ms, iso_of_ms, ms_of_datetime, ms_of_iso, parse_cron, parse_zone

ZONES = ["Europe/Berlin", "America/New_York"]
# The day on which clocks change; what is not there is the hour from two, what comes twice from two in Berlin and from
# one in New York.
SPRING = {"Europe/Berlin": "2026-03-29", "America/New_York": "2026-03-08"}
AUTUMN = {"Europe/Berlin": "2026-10-25", "America/New_York": "2026-11-01"}
SUMMER = {"Europe/Berlin": "+02:00", "America/New_York": "-04:00"}
WINTER = {"Europe/Berlin": "+01:00", "America/New_York": "-05:00"}


def fires(expression: str, zone: str, after: str, count: int) -> list[str]:
    """The next instants, as local times with their offset."""
    cron, ms, found = parse_cron(expression, zone), ms_of_iso(after), []
    for _ in range(count):
        following = cron.next_after_ms(ms)
        assert following is not None
        ms = following
        found.append(datetime_of_ms(ms).astimezone(ZoneInfo(zone)).isoformat(timespec="minutes"))
    return found


def on_day(expression: str, zone: str, day: str) -> list[str]:
    """What it does on a local day, from midnight to midnight: `03:00s` is three o'clock in summer time."""
    midnight = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))
    cron, found = parse_cron(expression, zone), []
    at = cron.next_after_ms(ms_of_datetime(midnight.astimezone(UTC)) - 1)
    until = ms_of_datetime((midnight + timedelta(days=1)).astimezone(UTC))
    while at is not None and at < until:
        local = datetime_of_ms(at).astimezone(midnight.tzinfo)
        found.append(f"{local:%H:%M}{'s' if local.isoformat().endswith(SUMMER[zone]) else 'w'}")
        at = cron.next_after_ms(at)
    return found


# The two days on which clocks change --------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ZONES)
def test_what_the_spring_gap_swallows_happens_right_after_it(zone: str) -> None:
    """Once, and the next day at its own time."""
    day = datetime.fromisoformat(SPRING[zone])

    assert on_day("30 2 * * *", zone, SPRING[zone]) == ["03:00s"]
    assert on_day("30 2 * * *", zone, f"{day + timedelta(days=1):%Y-%m-%d}") == ["02:30s"]
    assert on_day("30 2 * * *", zone, f"{day - timedelta(days=1):%Y-%m-%d}") == ["02:30w"]


@pytest.mark.parametrize("zone", ZONES)
def test_several_times_in_the_gap_happen_once_and_none_that_is_after_it_twice(zone: str) -> None:
    """All of them are made up for by one run; three o'clock is itself."""
    assert on_day("*/15 2 * * *", zone, SPRING[zone]) == ["03:00s"]
    assert on_day("0 1,2,3 * * *", zone, SPRING[zone]) == ["01:00w", "03:00s"]
    assert on_day("30 1,2,3 * * *", zone, SPRING[zone]) == ["01:30w", "03:00s", "03:30s"]


@pytest.mark.parametrize(("zone", "before", "twice"), [("Europe/Berlin", "01", "02"), ("America/New_York", "00", "01")])
def test_what_the_autumn_fold_repeats_happens_once(zone: str, before: str, twice: str) -> None:
    """The first time, in summer time; what comes after it, in winter time."""
    after = f"{int(twice) + 1:02}"

    assert on_day(f"30 {twice} * * *", zone, AUTUMN[zone]) == [f"{twice}:30s"]
    assert on_day(f"0 {before},{twice},{after} * * *", zone, AUTUMN[zone]) == [
        f"{before}:00s", f"{twice}:00s", f"{after}:00w",
    ]  # fmt: skip
    assert on_day("30 2 * * *", "America/New_York", AUTUMN["America/New_York"]) == ["02:30w"]


@pytest.mark.parametrize("zone", ZONES)
def test_a_cadence_goes_on_through_gap_and_fold(zone: str) -> None:
    """A day of 23 hours has 92 quarters of an hour, one of 25 has 100, each a quarter after the last."""
    for day, hours in ((SPRING[zone], 23), (AUTUMN[zone], 25)):
        midnight = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
        assert fires("*/15 * * * *", zone, f"{midnight - timedelta(minutes=1):%Y-%m-%dT%H:%MZ}", hours * 4) == [
            (midnight + i * timedelta(minutes=15)).astimezone(ZoneInfo(zone)).isoformat(timespec="minutes")
            for i in range(hours * 4)
        ]
        assert len(on_day("*/15 * * * *", zone, day)) == hours * 4
        assert len(on_day("7 * * * *", zone, day)) == hours
        assert len(on_day("@hourly", zone, day)) == hours
        assert len(on_day("* * * * *", zone, day)) == hours * 60


@pytest.mark.parametrize("expression", ["0 */2 * * *", "0 0-23/2 * * *", "0 0,2,4,6,8,10,12,14,16,18,20,22 * * *"])
def test_every_second_hour_is_twelve_times_of_day(expression: str) -> None:
    """However it is written: the one in the gap right after it, the one in the fold once."""
    evens = [f"{hour:02}:00" for hour in range(0, 24, 2)]

    assert on_day(expression, "Europe/Berlin", SPRING["Europe/Berlin"]) == [
        "00:00w", "03:00s", *(f"{time}s" for time in evens[2:])
    ]  # fmt: skip
    assert on_day(expression, "Europe/Berlin", AUTUMN["Europe/Berlin"]) == [
        "00:00s", "02:00s", *(f"{time}w" for time in evens[2:])
    ]  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
def test_all_hours_are_a_cadence_however_they_are_written(zone: str) -> None:
    """`0-23` is `*`."""
    for day in (SPRING[zone], AUTUMN[zone]):
        expected = on_day("*/20 * * * *", zone, day)
        for hours in ("0-23", "*/1", "0-11,12-23", "*,5", "12-11"):
            assert on_day(f"*/20 {hours} * * *", zone, day) == expected


def test_who_asks_in_the_second_hour_of_the_fold_is_told_what_comes_after_it() -> None:
    """What happened in the first does not happen again."""
    assert fires("*/10 2,3 * * *", "Europe/Berlin", "2026-10-25T01:15Z", 2) == [
        "2026-10-25T03:00+01:00", "2026-10-25T03:10+01:00",
    ]  # fmt: skip
    assert fires("*/30 * * * *", "Europe/Berlin", "2026-10-25T01:15Z", 2) == [
        "2026-10-25T02:30+01:00", "2026-10-25T03:00+01:00",
    ]  # fmt: skip


def test_a_day_that_never_was_is_made_up_for_at_its_end() -> None:
    """Samoa went from the 29th to the 31st of December 2011."""
    assert fires("0 12 30 12 *", "Pacific/Apia", "2011-06-01T00:00Z", 2) == [
        "2011-12-31T00:00+14:00", "2012-12-30T12:00+14:00",
    ]  # fmt: skip


def test_where_midnight_is_missing_the_day_begins_later() -> None:
    """Havana's clocks go from midnight to one, and back from one to midnight."""
    assert fires("0 0 * * *", "America/Havana", "2026-03-07T12:00Z", 2) == [
        "2026-03-08T01:00-04:00", "2026-03-09T00:00-04:00",
    ]  # fmt: skip
    assert fires("30 * 8 3 *", "America/Havana", "2026-01-01T00:00Z", 1) == ["2026-03-08T01:30-04:00"]
    assert fires("@daily", "America/Havana", "2026-10-31T12:00Z", 2) == [
        "2026-11-01T00:00-04:00", "2026-11-02T00:00-05:00",
    ]  # fmt: skip


# What expressions mean ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("@daily", "2026-01-02T00:00:00.000Z"),
        ("@midnight", "2026-01-02T00:00:00.000Z"),
        ("@Weekly", "2026-01-04T00:00:00.000Z"),
        (" @monthly ", "2026-02-01T00:00:00.000Z"),
        ("@yearly", "2027-01-01T00:00:00.000Z"),
        ("@annually", "2027-01-01T00:00:00.000Z"),
        ("@hourly", "2026-01-01T01:00:00.000Z"),
        ("  0  0 29 2   * ", "2028-02-29T00:00:00.000Z"),
        ("59 23 31 12 *", "2026-12-31T23:59:00.000Z"),
        ("0 0 * * 7", "2026-01-04T00:00:00.000Z"),
        ("0 9 * jan-mar mon-fri", "2026-01-01T09:00:00.000Z"),
        ("0 0 * * sat-sun", "2026-01-03T00:00:00.000Z"),
        ("0 22-2 * * *", "2026-01-01T01:00:00.000Z"),
        ("0 22-2/3 * * *", "2026-01-01T01:00:00.000Z"),  # 22, and 25 which is 1
        ("0 5-5 * * *", "2026-01-01T05:00:00.000Z"),
        ("40/15 * * * *", "2026-01-01T00:40:00.000Z"),
        ("0 0 L * *", "2026-01-31T00:00:00.000Z"),
        ("0 0 l,15 2 ?", "2026-02-15T00:00:00.000Z"),
        ("0 0 * * mon#2", "2026-01-12T00:00:00.000Z"),
        ("0 0 ? * 7#1,L5", "2026-01-04T00:00:00.000Z"),
        ("0 0 * * L5", "2026-01-30T00:00:00.000Z"),
        ("* * * * * */20", "2026-01-01T00:00:20.000Z"),
        ("0 0 1 1 * 30", "2026-01-01T00:00:30.000Z"),
    ],
)
def test_expressions_mean_what_cron_means(expression: str, expected: str) -> None:
    """Names, lists, ranges, steps, the last day, the second Monday, and seconds as a sixth field."""
    ms = parse_cron(expression).next_after_ms(ms_of_iso("2026-01-01T00:00:00Z"))
    assert ms is not None
    assert iso_of_ms(ms) == expected


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ("13 * fri", [2, 9, 13]),  # either of them, as cron has it
        ("13 * fri#2", [9, 13]),
        ("13 * L5", [13, 30]),
        ("L * fri#2", [9, 31]),
        ("*/15 * fri", [1, 2, 9, 16]),  # a step restricts
        ("*/1 * fri", [2, 9, 16]),  # but not one of one
        ("? * fri", [2, 9, 16]),
        ("13 * ?", [13]),
        ("1-31 * fri", [1, 2, 3]),
        ("31 2 fri", [37, 44, 51]),  # February, which has Fridays all the same
    ],
)
def test_of_two_restricted_days_either_is_enough(days: str, expected: list[int]) -> None:
    """Whatever kind of days they are; `*` and `?` restrict nothing."""
    cron, at, found = parse_cron(f"0 0 {days}"), ms_of_iso("2025-12-31T12:00:00Z"), []
    for _ in expected:
        following = cron.next_after_ms(at)
        assert following is not None
        at = following
        found.append((datetime_of_ms(at) - datetime(2025, 12, 31, tzinfo=UTC)).days)

    assert found == expected


def test_leap_days_are_found_across_a_century_without_one() -> None:
    """2100 has none; a fifth Monday of February may be forty years away."""
    cron = parse_cron("0 0 29 2 *", "Europe/Berlin")

    assert cron.next_after_ms(ms_of_iso("2096-03-01")) == ms_of_iso("2104-02-28T23:00:00Z")
    assert parse_cron("0 0 * 2 mon#5").next_after_ms(ms_of_iso("2072-03-01")) == ms_of_iso("2112-02-29")


def test_time_ends_with_the_year_9999() -> None:
    """The last time of all is found; after it there is none."""
    cron = parse_cron("0 0 * * *")
    last = ms_of_iso("9999-12-31T00:00:00Z")

    assert cron.next_after_ms(last - 1) == last
    assert cron.next_after_ms(last) is None
    assert parse_cron("0 0 * * *", "Pacific/Auckland").next_after_ms(last) is None
    assert parse_cron("* * * * *").next_after_ms(-1) == 0


# What is none ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "position", "words"),
    [
        ("", 1, "five fields"),
        ("* * *", 1, "not 3"),
        ("0 0 1 1 * 0 2030", 13, "not 7"),
        ("61 * * * *", 1, "'61' is no minute; it takes 0-59"),
        ("0 24 * * *", 3, "'24' is no hour; it takes 0-23"),
        ("0 0 0 * *", 5, "'0' is no day of month; it takes 1-31"),
        ("0 0 * 13 *", 7, "'13' is no month; it takes 1-12 or jan-dec"),
        ("0 0 * foo *", 7, "'foo' is no month"),
        ("0 0 * * 8", 9, "'8' is no day of week; it takes 0-7 or sun-sat"),
        ("0 30 9 * * 1-5", 3, "of six fields the last has the seconds"),
        ("0,15,61 * * * *", 6, "'61' is no minute"),
        ("0  1,2, * * *", 8, "'' is no hour"),
        ("*/5 a$ * * *", 5, "'a$' is no hour"),
        ("*/0 * * * *", 1, "'*/0' is no minute"),
        ("1-5/0 * * * *", 1, "'1-5/0' is no minute"),
        ("*/5/5 * * * *", 1, "is no minute"),
        ("99999999999 * * * *", 1, "is no minute"),
        ("1-1000000000 * * * *", 1, "is no minute"),
        ("-5 * * * *", 1, "is no minute"),
        ("H * * * *", 1, "'H' is no minute"),
        ("R(0-9) * * * *", 1, "is no minute"),
        ("0 0 15W * *", 5, "'15W' is no day of month"),
        ("0 0 L-3 * *", 5, "'L-3' is no day of month"),
        ("0 ? * * *", 3, "'?' is no hour"),
        ("0 0 1,? * *", 7, "'?' is no day of month"),
        ("0 0 * * mon#6", 9, "'mon#6' is no day of week"),
        ("0 0 * * fri,mon#2", 9, "make two schedules of it"),
        ("0 0 31 2 *", 5, "no year has such a day"),
        ("0 0 31 4,6 *", 5, "no year has such a day"),
        ("0  0  30 2 *", 7, "no year has such a day"),
        ("@nightly", 1, "@daily"),
        ("@daily *", 1, "@daily"),
        ("@every 5m", 1, "@daily"),
        ("* " * 200, 1, "at most 200"),
        ("٣ * * * *", 1, "is no minute"),
        ("² * * * *", 1, "is no minute"),
        ("0 0 * * ſun", 9, "is no day of week"),
        ("0\0 * * * *", 1, "is no minute"),
    ],
)
def test_what_is_no_expression_is_told_with_its_place(expression: str, position: int, words: str) -> None:
    """And what to write instead."""
    with pytest.raises(BadCron) as caught:
        parse_cron(expression)

    assert caught.value.position == position
    assert words in str(caught.value)
    assert str(caught.value).endswith(f"(at character {position})")


def test_an_unknown_zone_is_told_with_those_it_resembles() -> None:
    """Zones are known by their IANA names; that of the machine has none, for others are elsewhere."""
    with pytest.raises(ValueError, match="Europe/Berlin"):
        parse_zone("Europe/Berln")
    with pytest.raises(ValueError, match="America/New_York"):
        parse_zone("america/new_york")
    for name in ("", "Mars/Phobos", "../../etc/passwd", "/etc/localtime", "posixrules", "localtime", "Factory"):
        with pytest.raises(ValueError, match="is not a time zone"):
            parse_zone(name)
