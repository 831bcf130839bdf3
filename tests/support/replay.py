"""The life of jobs as their events tell it, to be held against the records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from taskflow_domain import BIRTHS, TERMINAL, TRANSITIONS, JobStatus
from taskflow_streams import Event, JobRecord

TARGETS: dict[str, set[str]] = {
    "job.submitted": set(BIRTHS),
    "job.ready": {"READY"},
    "job.started": {"RUNNING"},
    "job.retrying": {"READY"},
    "job.released": {"READY"},
    "job.lost": {"READY"},
    "job.completed": {"COMPLETED"},
    "job.failed": {"FAILED"},
    "job.blocked": {"BLOCKED"},
    "job.canceled": {"CANCELED"},
    "job.expired": {"EXPIRED"},
    "job.updated": {"PENDING", "READY", "RUNNING", "BLOCKED"},
    "job.deleted": {""},
}


@dataclass(frozen=True, slots=True)
class Life:
    """The lifecycle fields of a record."""

    state: str
    attempt: int
    fence: int
    worker: str
    created_ms: int
    updated_ms: int
    started_ms: int | None = None
    finished_ms: int | None = None
    events: int = field(default=0, compare=False)

    @classmethod
    def of(cls, record: JobRecord) -> Life:
        """Those that a record has."""
        return cls(
            record.status.value,
            record.attempt,
            record.fence,
            record.worker or "",
            record.created_ms,
            record.updated_ms,
            record.started_ms,
            record.finished_ms,
        )

    def after(self, event: Event) -> Life:
        """What the event makes of it."""
        return replace(
            self,
            state=event.to,
            attempt=event.attempt,
            fence=event.fence,
            worker="" if event.to == "READY" else event.worker,
            updated_ms=event.at_ms,
            started_ms=event.at_ms if event.type == "job.started" else self.started_ms,
            finished_ms=event.at_ms if event.to in TERMINAL else self.finished_ms,
            events=self.events + 1,
        )


def replay(events: Iterable[Event]) -> dict[str, Life]:
    """The lives of all jobs whose submission is among the events and that were not deleted."""
    lives: dict[str, Life] = {}
    for event in events:
        if event.type == "job.submitted":
            born = Life("", 0, 0, "", event.at_ms, event.at_ms)
            lives[event.job_id] = born.after(event)
        elif event.type == "job.deleted":
            lives.pop(event.job_id, None)
        elif event.job_id in lives:
            lives[event.job_id] = lives[event.job_id].after(event)
    return lives


def illegal(events: Iterable[Event]) -> Iterator[str]:
    """Events that no job may have: a move that is not allowed, or one from where the job was not."""
    stood: dict[str, Event] = {}
    for event in events:
        before = stood.get(event.job_id)
        told = f"{event.type} of {event.job_id} ({event.from_ or 'nothing'} -> {event.to or 'nothing'})"
        if before is not None and before.to != event.from_:
            yield f"{told} although it was {before.to}"
        if event.to not in TARGETS[event.type]:
            yield f"{told} does not lead there"
        if not _allowed(event):
            yield f"{told} is not allowed"
        if before is not None and not 0 <= event.fence - before.fence <= 1:
            yield f"{told} leaps from fence {before.fence} to {event.fence}"
        if event.type == "job.started" and before is not None and event.fence != before.fence + 1:
            yield f"{told} has no fence of its own"
        stood[event.job_id] = event
        if event.type == "job.deleted":
            del stood[event.job_id]  # the same id may be submitted anew


def _allowed(event: Event) -> bool:
    match event.type:
        case "job.submitted":
            return event.from_ == ""
        case "job.deleted":
            return event.from_ != ""
        case "job.updated" if event.from_ == event.to:
            return event.to not in TERMINAL
    return (JobStatus(event.from_), JobStatus(event.to)) in TRANSITIONS
