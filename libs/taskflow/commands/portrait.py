"""One job on the screen: facts, why it waits, what happened, and its last output."""

import json
from collections.abc import Iterator
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from taskflow.commands import render

MOST: Final = 2000  # characters of a payload, a result or a traceback


def portrait(job: dict[str, Any]) -> Group:
    """All that a person wants to know of a job."""
    return Group(*_parts(job))


def _parts(job: dict[str, Any]) -> Iterator[RenderableType]:
    yield render.facts(_facts(job))
    if job["error"]:
        yield from _headed("Error", render.plain(_cut(_error(job["error"])), "red"))
    if job["last_output"]:
        yield from _headed("Last output", render.plain("\n".join(job["last_output"])))
    if job["events"]:
        yield from _headed("Events", render.table(
            ["AT", "EVENT", "STATUS", "ATTEMPT", "WORKER"],
            [
                [
                    event["at"],
                    event["type"].removeprefix("job."),
                    render.status(event["to"]) if event.get("to") else "–",
                    str(event.get("attempt") or "–"),
                    render.plain(event.get("worker") or "–"),
                ]
                for event in job["events"]
            ],
            flexible=4,
        ))  # fmt: skip


def _facts(job: dict[str, Any]) -> list[tuple[str, RenderableType | None]]:
    policy = job["retry_policy"]
    created, took = job["created_at"], render.length(job)
    return [
        ("id", job["id"]),
        ("status", render.status(job["status"])),
        ("why", job["explanation"]),
        ("progress", render.bar(job["progress"]) if job["progress"] else None),
        ("name", job["name"]),
        ("queue", job["queue"]),
        ("type", job["type"] if not job["task"] else f"{job['type']} {job['task']}"),
        ("payload", _json(job["payload"])),
        ("priority", _priority(job["priority"])),
        ("attempts", f"{job['attempt_count']} of {policy['max_attempts']}"),
        ("owner", job["owner"]),
        ("after", " ".join(job["dependencies"]) or None),
        ("retry of", job["retry_of"]),
        ("run", job["run_id"]),
        ("schedule", job.get("schedule_id")),
        ("worker", job["worker"]),
        ("created", f"{created} ({render.age(created)})"),
        ("scheduled", _time(job["scheduled_at"])),
        ("started", _time(job["started_at"])),
        ("finished", _time(job["finished_at"])),
        ("took", took),
        ("result", None if job["result"] is None else _json(job["result"])),
    ]


def _priority(priority: int) -> str:
    """In the words of both doors; what `submit -p` takes beyond this scale is shown as its ends."""
    beyond = {10: " or lower", 1: " or higher"}.get(priority, "")
    return f"{priority} of 10, where 10 is the most urgent (submit -p {10 - priority}{beyond})"


def _time(iso: str | None) -> str | None:
    return f"{iso} ({render.age(iso)})" if iso else None


def _json(value: object) -> str:
    return _cut(json.dumps(value, ensure_ascii=False))


def _error(error: Any) -> str:
    if not isinstance(error, dict):
        return str(error)
    first = f"{error['class']}: {error['message']}" if error["message"] else str(error["class"])
    trace = error.get("traceback")
    if not trace:
        return first
    return trace.rstrip() if trace.rstrip().endswith(first) else f"{first}\n{trace.rstrip()}"


def _cut(text: str) -> str:
    return text if len(text) <= MOST else f"{text[:MOST]}… ({len(text) - MOST} more characters; see --json)"


def _headed(title: str, body: RenderableType) -> Iterator[RenderableType]:
    yield Text()
    yield Text(title, "bold")
    yield body
