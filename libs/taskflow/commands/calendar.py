"""Schedules on the screen: when they run, what they run, what happened.  Times are by the schedule's own clocks."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from taskflow.commands import render

Item = dict[str, Any]
Row = list[str | Text]

WIDE: Final = 100  # columns of a screen on which a list also says the time of the next run
WEEK: Final = timedelta(days=6)  # in which the name of a day says which one
_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"))
_STYLES: Final = {
    "fired": "green",
    "buffered": "blue",
    "skipped": "yellow",
    "paused": "yellow",
    "ended": "bright_black",
}


def label(schedule: Item) -> str:
    """What people call it."""
    return str(schedule.get("name") or schedule["id"])


def rhythm(schedule: Item) -> str:
    """When it runs: `0 3 * * * Europe/Berlin`, `every 15 min`."""
    if schedule.get("cron") is None:
        return f"every {exact(schedule['interval_s'])}"
    zone = schedule["timezone"]
    return f"{fields(schedule['cron'])}{'' if zone == 'UTC' else f' {zone}'}"


def fields(cron: str) -> str:
    """An expression in one line."""
    return " ".join(cron.split())


def exact(seconds: float) -> str:
    """A length of time, all of it: `1 h 30 min`."""
    parts = []
    rest = seconds
    for unit_s, unit in _UNITS:
        count, rest = divmod(rest, unit_s)
        if count:
            parts.append(f"{count:.0f} {unit}")
    if rest or not parts:
        parts.append(f"{round(rest, 3):g} s")
    return " ".join(parts)


def listing(schedules: Sequence[Item], now: datetime | None = None) -> Table:
    """One line for each; a wide screen tells more."""
    wide = render.console().width >= WIDE
    now = now or datetime.now(UTC)
    rows: list[Row] = []
    for schedule in schedules:
        row: Row = [
            render.one_line(label(schedule), 60),
            render.status(schedule["status"]),
            render.one_line(rhythm(schedule), 60),
            _next(schedule, now, wide),
            str(schedule["runs"]),
        ]
        rows.append([*row, render.age(schedule["last_at"], now)] if wide else row)
    columns = ["NAME", "STATUS", "WHEN", "NEXT", "RUNS", "LAST"]
    return render.table(columns if wide else columns[:-1], rows, flexible=2)


def _next(schedule: Item, now: datetime, wide: bool) -> str:
    if not schedule["next_at"]:
        return "–"
    local = datetime.fromisoformat(schedule["next_local"])
    clock = f"{local:%a %H:%M}" if local - now < WEEK else f"{local:%Y-%m-%d %H:%M}"
    return f"{_away(schedule['next_at'], now)}{f', {clock}' if wide else ''}"


def next_run(schedule: Item, now: datetime | None = None) -> str:
    """When it runs next, as a sentence; or why it does not."""
    if not schedule["next_at"]:
        return render.in_line(schedule["message"])
    local = datetime.fromisoformat(schedule["next_local"])
    clock = f"{local:%a} {_day_and_time(local)} {_offset(local)}"
    return f"It runs next on {clock}, {_away(schedule['next_at'], now)}."


def _away(iso: str, now: datetime | None) -> str:
    """How far a time is; a moment is nothing to speak of."""
    seconds = (datetime.fromisoformat(iso) - (now or datetime.now(UTC))).total_seconds()
    return "now" if abs(seconds) < 1 else render.age(iso, now)


def runs(items: Sequence[Item], zone: str, now: datetime | None = None) -> Table:
    """The next runs: on the schedule's clocks, in UTC, and how far away.  A change of clocks is marked."""
    locals_ = [datetime.fromisoformat(item["local"]) for item in items]
    clock = "%Y-%m-%d %H:%M:%S" if any(local.second for local in locals_) else "%Y-%m-%d %H:%M"
    rows: list[Row] = []
    before: timedelta | None = None
    for item, local in zip(items, locals_, strict=True):
        offset = local.utcoffset() or timedelta()
        mark = "" if before in (None, offset) else _change(offset - (before or offset))
        before = offset
        late = datetime.fromisoformat(item["due_at"]) - datetime.fromisoformat(item["at"])
        rows.append([
            Text(f"{local:%a {clock}} ").append(_offset(local), "yellow" if mark else ""),
            f"{local.astimezone(UTC):{clock}}Z",
            f"+{late.total_seconds():.0f} s",
            _away(item["due_at"], now),
            Text(mark, "yellow"),
        ])  # fmt: skip
    jittered = any(item["due_at"] != item["at"] for item in items)
    keep = [True, zone != "UTC", jittered, True, any(row[-1] for row in rows)]
    heads = ["UTC" if zone == "UTC" else f"LOCAL ({zone})", "UTC", "JITTER", "DUE", ""]
    rows = [[cell for cell, kept in zip(row, keep, strict=True) if kept] for row in rows]
    heads = [name for name, kept in zip(heads, keep, strict=True) if kept]
    return render.table(heads, rows, flexible=len(heads) - 1)


def _change(by: timedelta) -> str:
    return f"clocks {'+' if by > timedelta() else '-'}{exact(abs(by.total_seconds()))}"


def _offset(local: datetime) -> str:
    text = local.isoformat(timespec="seconds")[19:]
    return "Z" if text == "+00:00" else text


def story(items: Sequence[Item], zone: str) -> Table:
    """What happened, the newest first: when, for which of its times, and what."""
    made = Table(box=None, pad_edge=False, padding=(0, render.GAP, 0, 0), header_style="bold")
    for name in (f"AT ({zone})", "FOR"):
        made.add_column(name, no_wrap=True)
    made.add_column("WHAT", overflow="fold")
    clocks = _clocks(zone)
    for item in items:
        at = _local(item["at"], clocks)
        made.add_row(
            _day_and_time(at),
            _fires(item, at, clocks),
            Text(render.in_line(item["message"]), _STYLES.get(item["what"], "")),
        )
    return made


def _fires(item: Item, at: datetime, clocks: tzinfo) -> str:
    if not item["fire_at"]:
        return "–"
    first = _local(item["fire_at"], clocks)
    if not item["until"] or item["until"] == item["fire_at"]:
        return _beside(first, at)
    return f"{_beside(first, at)}\n– {_beside(_local(item['until'], clocks), at)}"


def _beside(moment: datetime, other: datetime) -> str:
    """A time, without the parts of its day that are known already."""
    if moment.date() == other.date():
        return f"{moment:%H:%M:%S}"
    return f"{moment:%m-%d %H:%M:%S}" if moment.year == other.year else _day_and_time(moment)


def moment(iso: str | None, zone: str) -> str | None:
    """A time on the clocks of a zone, and how far away it is."""
    if not iso:
        return None
    local = _local(iso, _clocks(zone))
    return f"{local:%a} {_day_and_time(local)} {_offset(local)} ({render.age(iso)})"


def _day_and_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def _local(iso: str, clocks: tzinfo) -> datetime:
    at = datetime.fromisoformat(iso)
    try:
        return at.astimezone(clocks)
    except OverflowError:  # there it is the year 10000 already
        return at


def _clocks(zone: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(zone)
    except (ValueError, OSError, LookupError):  # this machine has no such zone
        return UTC
