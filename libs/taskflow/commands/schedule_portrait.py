"""One schedule on the screen: facts, why it is as it is, its next runs, and what happened."""

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from taskflow.commands import render
from taskflow.commands.calendar import Item, exact, fields, moment, rhythm, runs, story
from taskflow.commands.template import QUEUE, told

MOST: Final = 2000  # characters of a command
_OVERLAPS: Final = {
    "allow": "runs beside it",
    "skip": "is skipped",
    "buffer_one": "waits for its end, one of them",
    "buffer_all": "waits for its end",
    "cancel_previous": "cancels it, and follows",
}


def portrait(schedule: Item) -> Group:
    """All that a person wants to know of a schedule; with its next runs and its history."""
    return Group(*_parts(schedule))


def _parts(schedule: Item) -> Iterator[RenderableType]:
    yield render.facts(_facts(schedule))
    if schedule["next"]:
        title = "Next runs, once it is resumed" if schedule["paused"] else "Next runs"
        yield from _headed(title, runs(schedule["next"], schedule["timezone"]))
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
        ("name", schedule["name"] and render.in_line(schedule["name"])),
        ("id", schedule["id"]),
        ("status", render.status(schedule["status"])),
        ("why", render.in_line(schedule["message"])),
        ("when", rhythm(schedule) if schedule["cron"] is None else fields(schedule["cron"])),
        ("zone", zone),
        ("starts", moment(schedule["start_at"], zone)),
        ("ends", moment(schedule["end_at"], zone)),
        ("jitter", f"up to {exact(schedule['jitter_s'])} later" if schedule["jitter_s"] else None),
        ("runs", _cut(words)),
        ("queue", job.get("queue") or QUEUE),
        ("rules", rules and _cut(rules)),
        ("overlap", _overlap(schedule["overlap"])),
        ("catch-up", _catchup(schedule)),
        ("owner", schedule["owner"] and render.in_line(schedule["owner"])),
        ("started", _count(schedule)),
        ("waiting", _waiting(schedule["waiting"])),
        ("last", _last(schedule)),
        ("created", moment(schedule["created_at"], zone)),
        ("updated", moment(schedule["updated_at"], zone)),
    ]


def _cut(text: str) -> str:
    return text if len(text) <= MOST else f"{text[:MOST]}… ({len(text) - MOST} more characters; see --json)"


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
    at = moment(schedule["last_at"], schedule["timezone"])
    if at is None:
        return None
    line = Text(f"{at}, job {schedule['last_job_id']}")
    if status := schedule.get("last_status"):
        line.append(" ").append_text(render.status(status))
    return line
