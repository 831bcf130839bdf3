"""Times as TaskFlow writes them: milliseconds since 1970 inside, `2026-01-02T03:04:05.678Z` outside.

Only the years 1970 to 9999 exist here, so every time has one spelling of 24 characters, and they
sort as the times do.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

MAX_MS: Final = 253_402_300_799_999  # the last millisecond of the year 9999

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

# `fromisoformat` takes any character between date and time; ISO 8601 knows T, and people write a space.
_SHAPE: Final = re.compile(r"[0-9W-]+(?:[T ][0-9:.,]+(?:Z|[+-][0-9:]+)?)?", re.IGNORECASE)


def iso_of_ms(ms: int) -> str:
    """The one spelling of a time, always UTC, always 24 characters."""
    if not 0 <= ms <= MAX_MS:
        raise ValueError(f"{ms} ms is not a time between the years 1970 and 9999")
    seconds, rest = divmod(ms, 1000)
    return f"{_iso_of_second(seconds)}.{rest:03d}Z"


def ms_of_iso(text: str) -> int:
    """The time an ISO 8601 text names.  Without offset it is UTC; a date alone is its midnight.

    What is finer than a millisecond is cut off, not rounded.  Raises ValueError with a sentence for people.
    """
    return ms_of_datetime(_parse(text))


def ms_of_datetime(moment: datetime) -> int:
    """Milliseconds of a datetime, cut off, not rounded; a naive one is taken as UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    ms = (aware - _EPOCH) // _MILLISECOND
    if not 0 <= ms <= MAX_MS:
        raise ValueError("a time must lie between the years 1970 and 9999 (UTC)")
    return ms


def datetime_of_ms(ms: int) -> datetime:
    """The same moment as an aware datetime in UTC."""
    if not 0 <= ms <= MAX_MS:
        raise ValueError(f"{ms} ms is not a time between the years 1970 and 9999")
    return _EPOCH + timedelta(milliseconds=ms)


def _parse(text: str) -> datetime:
    if _SHAPE.fullmatch(text):
        try:
            return datetime.fromisoformat(text.upper())
        except ValueError:
            pass
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    raise ValueError(f"{shown!r} is not an ISO 8601 time such as 2026-01-02T03:04:05.678Z")


@lru_cache(maxsize=4096)  # jobs of one batch or page share their seconds
def _iso_of_second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
