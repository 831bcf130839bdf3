"""Schedules on the screen: when they run, what they run, what happened.  Times are by the schedule's own clocks."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from taskflow.commands import render
from taskflow.commands.template import DEFAULT_QUEUE, told

Item = dict[str, Any]

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
_OVERLAPS: Final = {
    "allow": "runs beside it",
    "skip": "is skipped",
    "buffer_one": "waits for its end, one of them",
    "buffer_all": "waits for its end",
    "cancel_previous": "cancels it, and follows",
}


def label(schedule: Item) -> str:
    """What people call it."""
    return str(schedule.get("name") or schedule["id"])


def rhythm(schedule: Item) -> str:
    """When it runs: `0 3 * * * Europe/Berlin`, `every 15 min`."""
    if schedule.get("cron") is None:
        return f"every {exact(schedule['interval_s'])}"
    zone = schedule["timezone"]
    return f"{schedule['cron']}{'' if zone == 'UTC' else f' {zone}'}"


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
    """One line for each."""
    wide = render.console().width >= WIDE
    rows = [
        [
            render.one_line(label(schedule), 60),
            render.status(schedule["status"]),
            render.one_line(rhythm(schedule), 60),
            _next(schedule, now or datetime.now(UTC), wide),
            render.age(schedule["last_at"], now),
            str(schedule["runs"]),
        ]
        for schedule in schedules
    ]
    return render.table(["NAME", "STATUS", "WHEN", "NEXT", "LAST", "RUNS"], rows, flexible=2)


def _next(schedule: Item, now: datetime, wide: bool) -> str:
    if not schedule["next_at"]:
        return "–"
    local = datetime.fromisoformat(schedule["next_local"])
    near = local - now < WEEK
    clock = f"{local:%a %H:%M}" if near else f"{local:%Y-%m-%d %H:%M}"
    return f"{render.age(schedule['next_at'], now)}{f', {clock}' if wide else ''}"


def portrait(schedule: Item) -> Group:
    """All that a person wants to know of a schedule; with its next runs and its history."""
    return Group(*_parts(schedule))


def _parts(schedule: Item) -> Iterator[RenderableType]:
    yield render.facts(_facts(schedule))
    if schedule["next"]:
        yield from _headed("Next runs", runs(schedule["next"], schedule["timezone"]))
    if schedule["history"]:
        yield from _headed("History", story(schedule["history"], schedule["timezone"]))


def _headed(title: str, body: RenderableType) -> Iterator[RenderableType]:
    yield Text()
    yield Text(title, "bold")
    yield body


def _facts(schedule: Item) -> list[tuple[str, RenderableType | None]]:
    zone, job = schedule["timezone"], schedule["job"]
    words, rules = told(job)
    return [
        ("name", schedule["name"]),
        ("id", schedule["id"]),
        ("status", render.status(schedule["status"])),
        ("why", schedule["message"]),
        ("when", rhythm(schedule) if schedule["cron"] is None else str(schedule["cron"])),
        ("zone", zone),
        ("starts", _moment(schedule["start_at"], zone)),
        ("ends", _moment(schedule["end_at"], zone)),
        ("jitter", f"up to {exact(schedule['jitter_s'])} later" if schedule["jitter_s"] else None),
        ("runs", words),
        ("queue", job.get("queue") or DEFAULT_QUEUE),
        ("rules", rules),
        ("overlap", _overlap(schedule["overlap"])),
        ("catch-up", _catchup(schedule)),
        ("owner", schedule["owner"]),
        ("started", _count(schedule)),
        ("waiting", _waiting(schedule["waiting"])),
        ("last", _last(schedule)),
        ("created", _moment(schedule["created_at"], zone)),
        ("updated", _moment(schedule["updated_at"], zone)),
    ]


def _overlap(policy: str) -> str:
    return f"{policy} (a run that is due while another is active {_OVERLAPS.get(policy, 'is treated so')})"


def _catchup(schedule: Item) -> str | None:
    limit, window_s = schedule["catchup_limit"], schedule["catchup_window_s"]
    parts = []
    if limit is not None:
        parts.append(f"the latest {limit} of those missed" if limit else "none of those missed")
    if window_s is not None:
        parts.append(f"none older than {exact(window_s)}")
    return ", ".join(parts) or None


def _count(schedule: Item) -> str:
    most = schedule["max_runs"]
    return f"{schedule['runs']} of {most} times" if most else _times(schedule["runs"])


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _waiting(count: int) -> str | None:
    return f"{count} for a run to end" if count else None


def _last(schedule: Item) -> RenderableType | None:
    at = _moment(schedule["last_at"], schedule["timezone"])
    if at is None:
        return None
    line = Text(f"{at}, job {schedule['last_job_id']}")
    if status := schedule.get("last_status"):
        line.append(" ").append_text(render.status(status))
    return line


def runs(items: Sequence[Item], zone: str, now: datetime | None = None) -> Table:
    """The next runs: on the schedule's clocks, in UTC, and how far away.  A change of clocks is marked."""
    rows, offset = [], ""
    jittered = any(item["due_at"] != item["at"] for item in items)
    for item in items:
        local = datetime.fromisoformat(item["local"])
        before, offset = offset, _offset(local)
        changed = bool(before) and before != offset
        shown = Text(f"{local:%a %Y-%m-%d %H:%M:%S} ").append(offset, "yellow" if changed else "")
        utc = f"{datetime.fromisoformat(item['at']).astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
        due = datetime.fromisoformat(item["due_at"]).astimezone(local.tzinfo)
        rows.append(
            [shown, utc, render.age(item["due_at"], now), f"{due:%H:%M:%S}", "clocks change" if changed else ""]
        )
    columns = [f"LOCAL ({zone})", "UTC", "IN", "WITH JITTER", ""]
    keep = [True, zone != "UTC", True, jittered, any(row[-1] for row in rows)]
    rows = [[cell for cell, kept in zip(row, keep, strict=True) if kept] for row in rows]
    heads = [name for name, kept in zip(columns, keep, strict=True) if kept]
    return render.table(["UTC", *heads[1:]] if zone == "UTC" else heads, rows, flexible=0)


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
            _day_and_time(at), _fires(item, at, clocks), render.plain(item["message"], _STYLES.get(item["what"], ""))
        )
    return made


def _fires(item: Item, at: datetime, clocks: tzinfo) -> str:
    if not item["fire_at"]:
        return "–"
    first = _local(item["fire_at"], clocks)
    shown = _beside(first, at)
    if not item["until"] or item["until"] == item["fire_at"]:
        return shown
    return f"{shown} – {_beside(_local(item['until'], clocks), first)}"


def _beside(moment: datetime, other: datetime) -> str:
    """A time, without a day that is known already."""
    return f"{moment:%H:%M:%S}" if moment.date() == other.date() else _day_and_time(moment)


def _moment(iso: str | None, zone: str) -> str | None:
    if not iso:
        return None
    local = _local(iso, _clocks(zone))
    return f"{local:%a} {_day_and_time(local)} {_offset(local)} ({render.age(iso)})"


def _day_and_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def _local(iso: str, clocks: tzinfo) -> datetime:
    return datetime.fromisoformat(iso).astimezone(clocks)


def _clocks(zone: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(zone)
    except (ValueError, OSError, LookupError):  # this machine has no such zone
        return UTC
