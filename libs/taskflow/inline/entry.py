"""A job on the bench."""

import json
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from taskflow.context import Context
from taskflow.job import Job, JobError, LogEntry, Progress
from taskflow.tasks import Task
from taskflow_domain import TERMINAL, JobStatus, datetime_of_ms, priority_of_order
from taskflow_streams import NewJob


@dataclass(slots=True)
class Entry:
    """What was asked for, and what became of it."""

    new: NewJob
    task: Task | None = None  # None: a command, a function by its place, or what nobody here can run
    status: JobStatus = JobStatus.PENDING
    due: bool = False  # what was for another time is for now
    attempt: int = 0
    context: Context | None = None  # while it runs
    cancel: bool = False
    value: bytes | None = None
    error: JobError | None = None
    progress: Progress | None = None
    logs: list[LogEntry] = field(default_factory=list)
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    started_at: datetime | None = None
    finished_at: datetime | None = None
    thread: int = 0  # that runs it
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def later(self) -> bool:
        """Whether it is for another time, which is to come."""
        due_at = self.scheduled_at
        return due_at is not None and due_at > self.created_at and not self.due

    @property
    def scheduled_at(self) -> datetime | None:
        """When it is to start, if that was said."""
        if self.new.due_ms is not None:
            return datetime_of_ms(self.new.due_ms)
        return None if self.new.delay_ms is None else self.created_at + timedelta(milliseconds=self.new.delay_ms)

    @property
    def can_run(self) -> bool:
        """Whether anybody here knows how."""
        return self.task is not None or self.new.type in ("shell", "python")

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status in TERMINAL

    def write(self, stream: str, data: bytes) -> None:
        """It printed."""
        number = f"{len(self.logs) + 1}-0"
        self.logs.append(LogEntry(number, stream, self.attempt, datetime.now(UTC), data.decode(errors="replace")))

    def end(self, status: JobStatus) -> None:
        """Nothing more will happen to it."""
        self.status, self.finished_at = status, datetime.now(UTC)
        self.over.set()

    def job(self) -> Job:
        """As a client sees it."""
        new = self.new
        return Job(
            id=new.id,
            name=new.name,
            queue=new.queue,
            status=self.status,
            priority=priority_of_order(new.order),
            payload=json.loads(new.payload),
            dependencies=new.dependencies,
            type=new.type,
            task=new.task,
            attempt=self.attempt,
            worker="inline" if self.started_at else None,
            owner=new.owner,
            timeout_s=None if new.timeout_ms is None else new.timeout_ms / 1000,
            created_at=self.created_at,
            scheduled_at=self.scheduled_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            expires_at=self.created_at + timedelta(milliseconds=new.ttl_ms) if new.ttl_ms else None,
            result=None if self.value is None else json.loads(self.value),
            error=self.error,
            progress=self.progress,
        )
