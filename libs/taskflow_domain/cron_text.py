"""The text of a cron expression: what it names, or where it goes wrong.

Five fields, or six with seconds last, or one of the names (`@daily`, …).  A field is a list of

- `*`, a value, or a range, which may go past the end (`22-2`, `fri-mon`); each of them also with a step: `*/5`,
  `10-40/5`, `10/5` (from 10 to the end);
- as days of the month also `L`, the last one; as days of the week, `mon#2`, the second Monday, and `L5`, the last
  Friday.  `?` is `*`.

If both days are restricted (by anything but `*`, `*/1` and `?`), either is enough.

croniter gets all this spelled out, as values, and two expressions for two days.  It has its own ideas of the rest:
`5-5` is every hour to it, of `22-2/3` it takes the wrong ones, and `0 0 13 * mon#2` loses the 13th.
"""

import re
from dataclasses import dataclass
from typing import Final

TEXT_MAX_CHARS: Final = 200
EVERY: Final = "*"
NAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class BadCron(ValueError):
    """An expression that means nothing; the message says where and what to do, `position` counts characters from 1."""

    def __init__(self, message: str, position: int = 1) -> None:
        super().__init__(f"{message} (at character {position})")
        self.position = position


@dataclass(frozen=True, slots=True)
class Spelled:
    """An expression as croniter takes it: several, if a time of either counts."""

    expressions: tuple[str, ...]
    names_hours: bool
    day_position: int  # the character at which the days of the month begin


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    least: int
    most: int
    takes: str
    names: tuple[str, ...] = ()

    @property
    def span(self) -> int:
        return self.most - self.least + 1

    def value(self, word: str) -> int | None:
        """What a word means; None if that is not in the field."""
        if word in self.names:
            return self.names.index(word) + self.least
        value = int(word) if word.isdigit() else -1
        return value if self.least <= value <= self.most + (self is _WEEKDAY) else None  # Sunday is 0 and 7

    def range(self, first: int, last: int, step: int) -> list[int]:
        """The values of a range, round the end if it goes past it."""
        if first != last:
            first = self._turned(first)
        past = last + self.span if last < first else last
        return [self._turned(value) for value in range(first, past + 1, step)]

    def _turned(self, value: int) -> int:
        return (value - self.least) % self.span + self.least


_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

_MINUTE: Final = _Field("minute", 0, 59, "0-59")
_HOUR: Final = _Field("hour", 0, 23, "0-23")
_DAY: Final = _Field("day of month", 1, 31, "1-31, L for the last")
_MONTH: Final = _Field("month", 1, 12, "1-12 or jan-dec", _MONTHS)
_WEEKDAY: Final = _Field(
    "day of week", 0, 6, "0-7 or sun-sat, mon#2 for the second Monday, L5 for the last Friday", _WEEKDAYS
)
_SECOND: Final = _Field("second", 0, 59, "0-59")
_FIELDS: Final = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY, _SECOND)

_ITEM: Final = re.compile(r"(?:\*|([0-9]+|[a-z]+)(?:-([0-9]+|[a-z]+))?)(?:/([0-9]+))?")
_NTH: Final = re.compile(r"([0-7]|[a-z]+)#([1-5])|l([0-7])")


def spelled(text: str) -> Spelled:
    """What an expression names.  Raises BadCron."""
    if len(text) > TEXT_MAX_CHARS:
        raise BadCron(f"an expression has at most {TEXT_MAX_CHARS} characters")
    words = [(match.group(), match.start() + 1) for match in re.finditer(r"\S+", text)]
    if not words:
        raise BadCron("an expression has five fields, such as 0 3 * * 1-5, or is a name such as @daily")
    first, position = words[0]
    if first.startswith("@"):
        if len(words) > 1 or first.lower() not in NAMES:
            raise BadCron(f"{first!r} is not a name for a schedule; there are {', '.join(NAMES)}", position)
        return spelled(NAMES[first.lower()])
    if len(words) not in (5, 6):
        names = ", ".join(field.name for field in _FIELDS[:5])
        raise BadCron(
            f"an expression has five fields ({names}), or six with seconds last, not {len(words)}"
            + ("; there is none for years" if len(words) == 7 else ""),
            words[6][1] if len(words) > 6 else position,
        )
    hint = "; of six fields the last has the seconds, not the first" if len(words) == 6 else ""
    fields = [_field(field, *word, hint) for field, word in zip(_FIELDS, words, strict=False)]
    return Spelled(_expressions(*fields), fields[1] != EVERY, words[2][1])


def _expressions(minute: str, hour: str, day: str, month: str, weekday: str, *second: str) -> tuple[str, ...]:
    days = [(day, weekday)] if EVERY in (day, weekday) else [(day, EVERY), (EVERY, weekday)]
    return tuple(" ".join([minute, hour, one, month, other, *second]) for one, other in days)


def _field(field: _Field, text: str, position: int, hint: str) -> str:
    """A field as croniter takes it."""
    values, days = set[int](), set[str]()
    is_every = False
    for item in text.split(","):
        word = item.lower()
        if word in ("*", "*/1") or (text == "?" and field in (_DAY, _WEEKDAY)):
            is_every = True
        elif special := _special(field, word):
            days.add(special)
        elif found := _range(field, word):
            values.update(found)
        else:
            takes = f"it takes {field.takes}, and *, lists, ranges and steps"
            raise BadCron(f"{item!r} is no {field.name}; {takes}{hint}", position)
        position += len(item) + 1
    if field is _WEEKDAY and values and days:
        raise BadCron(
            f"{text!r} has plain days and such as mon#2 or L5; make two schedules of it", position - len(text) - 1
        )
    if is_every or (len(values) == field.span and field not in (_DAY, _WEEKDAY)):
        return EVERY
    return ",".join([*map(str, sorted(values)), *sorted(days)])


def _special(field: _Field, word: str) -> str | None:
    """Days that a month has elsewhere than another."""
    if field is _DAY and word == "l":
        return word
    match = _NTH.fullmatch(word) if field is _WEEKDAY else None
    if match is None:
        return None
    if match[3]:
        return word
    day = field.value(match[1])
    return None if day is None else f"{day}#{match[2]}"


def _range(field: _Field, word: str) -> list[int]:
    """The values of `*/5`, `7`, `7-20`, `7-20/5` or `7/5`; none if it is nothing of the kind."""
    match = _ITEM.fullmatch(word)
    if match is None:
        return []
    first, last, step = match.groups()
    low = field.least if first is None else field.value(first)
    high = field.most if first is None or (step and not last) else field.value(last or first)
    if low is None or high is None or (step and int(step) == 0):
        return []
    return field.range(low, high, int(step or 1))
