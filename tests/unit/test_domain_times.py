"""Times in and out."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskflow_domain import MAX_MS, datetime_of_ms, iso_of_ms, ms_of_datetime, ms_of_iso

MOMENT_MS = 1_767_323_045_678
MOMENT = "2026-01-02T03:04:05.678Z"

times = st.integers(0, MAX_MS)


@given(times)
def test_a_time_survives_the_way_out_and_in(ms: int) -> None:
    """One spelling of fixed width, which names the same millisecond."""
    text = iso_of_ms(ms)

    assert len(text) == 24
    assert ms_of_iso(text) == ms
    assert ms_of_datetime(datetime_of_ms(ms)) == ms


@given(times, times)
def test_spellings_sort_as_the_times_do(one: int, other: int) -> None:
    """Text order is time order, so cursors and indexes may compare texts."""
    assert (iso_of_ms(one) < iso_of_ms(other)) == (one < other)


def test_the_ends_of_time() -> None:
    """The first and the last millisecond have the usual spelling."""
    assert iso_of_ms(0) == "1970-01-01T00:00:00.000Z"
    assert iso_of_ms(MAX_MS) == "9999-12-31T23:59:59.999Z"
    assert iso_of_ms(MOMENT_MS) == MOMENT


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2026-01-02T03:04:05.678", MOMENT),
        ("2026-01-02T03:04:05.678z", MOMENT),
        ("2026-01-02t03:04:05.678Z", MOMENT),
        ("2026-01-02 03:04:05.678Z", MOMENT),
        ("2026-01-02T03:04:05,678Z", MOMENT),
        ("20260102T030405.678Z", MOMENT),
        ("2026-01-02T04:34:05.678+01:30", MOMENT),
        ("2026-01-01T22:04:05.678-0500", MOMENT),
        ("2026-01-02T04:04:05.678+01", MOMENT),
        ("2026-01-02T03:04:05.678999Z", MOMENT),
        ("2026-01-02T03:04:05.678999999Z", MOMENT),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"),
        ("2026-01-02T03:04", "2026-01-02T03:04:00.000Z"),
        ("2026-01-02", "2026-01-02T00:00:00.000Z"),
        ("2024-02-29", "2024-02-29T00:00:00.000Z"),
    ],
)
def test_iso_8601_is_understood_in_its_usual_forms(text: str, same: str) -> None:
    """Without offset it is UTC, a date is its midnight, what is finer than a millisecond is cut off."""
    assert iso_of_ms(ms_of_iso(text)) == same


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "1767323045678",
        "2026",
        "2026-13-01",
        "2025-02-29",
        "2026-01-02T25:00",
        "2026-01-02T03:04:60Z",
        "2026-01-02x03:04:05Z",
        "2026-01-02T03:04:05 +01:00",
        "2026-01-02T03:04:05+99:00",
        "2026-01-02T",
        "2026-01-02Z",
        " 2026-01-02",
        "2026-01-02\n",
        "2026-01-0٢",
        "02/01/2026",
    ],
)
def test_what_is_no_time_gets_a_sentence_with_an_example(text: str) -> None:
    """The message shows what was given and what would be right."""
    with pytest.raises(ValueError, match=r"is not an ISO 8601 time such as 2026-01-02T03:04:05\.678Z"):
        ms_of_iso(text)


def test_a_long_text_is_not_repeated_in_full() -> None:
    """The message stays short."""
    with pytest.raises(ValueError, match="…") as caught:
        ms_of_iso("2026-" * 10_000)

    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("text", ["1969-12-31T23:59:59.999Z", "0001-01-01", "1970-01-01T00:00:00+00:01"])
def test_times_before_1970_are_refused(text: str) -> None:
    """The offset counts when the year is judged."""
    with pytest.raises(ValueError, match="between the years 1970 and 9999"):
        ms_of_iso(text)


def test_times_after_9999_are_refused() -> None:
    """The last evening of 9999 in New York is beyond the end, and says so rather than overflow."""
    with pytest.raises(ValueError, match="between the years 1970 and 9999"):
        ms_of_iso("9999-12-31T23:00:00-05:00")


@pytest.mark.parametrize("ms", [-1, MAX_MS + 1])
def test_numbers_beyond_the_years_have_no_spelling(ms: int) -> None:
    """Neither as text nor as datetime."""
    for convert in (iso_of_ms, datetime_of_ms):
        with pytest.raises(ValueError, match="between the years 1970 and 9999"):
            convert(ms)


def test_datetimes_are_read_as_what_they_say() -> None:
    """A naive one is UTC, an aware one is converted; microseconds are cut off."""
    naive = datetime(2026, 1, 2, 3, 4, 5, 678_999)

    assert ms_of_datetime(naive) == ms_of_datetime(naive.replace(tzinfo=UTC)) == MOMENT_MS
    assert ms_of_datetime(naive.replace(tzinfo=timezone(timedelta(hours=1)))) == MOMENT_MS - 3_600_000
    assert datetime_of_ms(MOMENT_MS) == datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


@given(st.text(max_size=30) | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]{0,12}([+-][0-9:]{1,6})?)?"))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Any text is a time that can be written again, or a ValueError of ours."""
    try:
        ms = ms_of_iso(text)
    except ValueError as error:
        message = str(error)
    else:
        message = iso_of_ms(ms)

    assert message.endswith(("Z", "between the years 1970 and 9999 (UTC)"))
