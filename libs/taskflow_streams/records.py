"""What goes into the server and what comes out, typed: new jobs, records, leases, endings.

A job's record is a hash of short fields; what can be long (name, payload, dependencies) is its spec, and how it
ended its result, both msgpack.  Payload and result value are JSON text, kept as it came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from enum import StrEnum
from typing import Any

import msgpack

from taskflow_domain import BackoffStrategy, JobStatus, Retries, RetryPolicy

DEFAULT_RETRY = RetryPolicy()
MOST_ATTEMPTS = 10  # of a RetryPolicy; Retries has more
_LETTER = {strategy: strategy.value[0] for strategy in BackoffStrategy}
_STRATEGY = {letter: strategy for strategy, letter in _LETTER.items()}


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where a job stands in a run: what a handler can know of that, and where to find its input."""

    run_id: str
    workflow: str
    task: str
    index: int | None = None  # of a fan-out, and how many there are
    count: int | None = None
    input: bytes = b"{}"  # the task's own, a JSON object; in a fan-out over items with `item`
    upstream: tuple[tuple[str, str], ...] = ()  # a task that it needs -> where the output of that is found


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to submit.  The caller makes the id, so that a submission can be repeated."""

    id: str
    name: str
    queue: str
    handler: str  # what a worker must have to run it: a task's name, or '@shell' for an executor
    payload: bytes = b"{}"  # compact JSON
    order: int = 5  # lower runs first; S1's priority p is 10 - p
    type: str = "task"
    task: str | None = None
    dependencies: tuple[str, ...] = ()
    retry: RetryPolicy = DEFAULT_RETRY
    timeout_ms: int | None = None
    due_ms: int | None = None
    delay_ms: int | None = None
    expires_ms: int | None = None
    ttl_ms: int | None = None
    owner: str | None = None
    run_id: str | None = None
    retry_of: str | None = None
    schedule_id: str | None = None
    tells_schedule: bool = False  # its schedule waits for its end
    has_key: bool = False  # it was submitted under an idempotency key: its removal leaves a mark
    is_run: bool = False  # of one of its schedule's own times: its removal leaves a mark there
    place: RunPlace | None = None  # it belongs to a run

    def spec(self) -> bytes:
        """The long part of it."""
        return pack_spec(self.name, self.payload, self.task, self.type, self.dependencies, self.place)


@dataclass(frozen=True, slots=True)
class Spec:
    """What a job is to do."""

    name: str
    payload: bytes
    task: str | None
    type: str
    dependencies: tuple[str, ...]
    place: RunPlace | None = None


def pack_spec(
    name: str,
    payload: bytes,
    task: str | None,
    type_: str,
    dependencies: tuple[str, ...],
    place: RunPlace | None = None,
) -> bytes:
    """The spec as stored: a list, for its keys would be repeated a million times."""
    fields = (name, payload, task, type_, dependencies)
    packed: bytes = msgpack.packb(fields if place is None else (*fields, astuple(place)))
    return packed


def unpack_spec(packed: bytes) -> Spec:
    """The inverse of `pack_spec`."""
    name, payload, task, type_, dependencies, *more = msgpack.unpackb(packed)
    return Spec(name, payload, task, type_, tuple(dependencies), _place(*more[0]) if more else None)


def _place(
    run_id: str, workflow: str, task: str, index: int | None, count: int | None, own: bytes, upstream: list[list[str]]
) -> RunPlace:
    return RunPlace(run_id, workflow, task, index, count, own, tuple((name, source) for name, source in upstream))


def pack_retry(policy: RetryPolicy) -> str:
    """A retry policy as one short field."""
    letter = _LETTER[policy.backoff_strategy]
    plain = f"{policy.max_attempts}:{letter}:{policy.base_delay_seconds}:{policy.max_delay_seconds}"
    return f"{plain}:{round(policy.jitter * 1000)}" if policy.jitter else plain


def unpack_retry(text: str) -> RetryPolicy:
    """The inverse of `pack_retry`."""
    attempts, letter, base, cap, *jitter = text.split(":")
    kind = RetryPolicy if int(attempts) <= MOST_ATTEMPTS else Retries
    return kind(
        max_attempts=int(attempts),
        backoff_strategy=_STRATEGY[letter],
        base_delay_seconds=int(base),
        max_delay_seconds=int(cap),
        jitter=int(jitter[0]) / 1000 if jitter else 0.0,
    )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed."""

    kind: str  # the exception's class, or a word such as TimedOut, LeaseLost
    message: str
    traceback: str | None = None

    def pack(self, value: bytes | None = None) -> bytes:
        """As stored under `result`, with what the attempt gave although it failed."""
        error = {"class": self.kind, "message": self.message, "traceback": self.traceback}
        packed: bytes = msgpack.packb({"error": error} if value is None else {"error": error, "value": value})
        return packed


def pack_value(value: bytes) -> bytes:
    """A result, which is JSON text, as stored under `result`."""
    packed: bytes = msgpack.packb({"value": value})
    return packed


@dataclass(frozen=True, slots=True)
class JobRecord:
    """Everything the engine knows of one job."""

    id: str
    status: JobStatus
    queue: str
    order: int
    handler: str
    spec: Spec
    retry: RetryPolicy
    attempt: int
    fence: int
    created_ms: int
    updated_ms: int
    version: int = 0
    worker: str | None = None
    started_ms: int | None = None
    finished_ms: int | None = None
    due_ms: int | None = None
    asked_ms: int | None = None  # when it was to start at first; `due_ms` may be that of a retry
    expires_ms: int | None = None
    timeout_ms: int | None = None
    owner: str | None = None
    run_id: str | None = None
    retry_of: str | None = None
    schedule_id: str | None = None
    canceling: bool = False
    progress: float | None = None
    progress_note: str | None = None
    value: bytes | None = None  # JSON text
    failure: Failure | None = None
    event_ids: tuple[str, ...] = field(default=(), repr=False)


def as_born(job: NewJob, status: JobStatus, now_ms: int) -> JobRecord:
    """The record of a job at the moment of its submission, without reading it back: it may be running by now."""
    due_ms, expires_ms = job.due_ms, job.expires_ms
    if due_ms is None and job.delay_ms is not None:
        due_ms = now_ms + job.delay_ms
    if expires_ms is None and job.ttl_ms is not None:
        expires_ms = now_ms + job.ttl_ms
    return JobRecord(
        id=job.id,
        status=status,
        queue=job.queue,
        order=job.order,
        handler=job.handler,
        spec=Spec(job.name, job.payload, job.task, job.type, job.dependencies),
        retry=job.retry,
        attempt=0,
        fence=0,
        created_ms=now_ms,
        updated_ms=now_ms,
        finished_ms=now_ms if status is JobStatus.BLOCKED else None,
        due_ms=due_ms,
        asked_ms=due_ms,
        expires_ms=expires_ms,
        timeout_ms=job.timeout_ms,
        owner=job.owner,
        run_id=job.run_id,
        retry_of=job.retry_of,
        schedule_id=job.schedule_id,
    )


def read_record(job_id: str, raw: Mapping[bytes, bytes], spec: bytes, result: bytes | None) -> JobRecord:
    """A record from its hash, spec and result."""
    fields = {name.decode(): value.decode() for name, value in raw.items()}

    def number(name: str) -> int | None:
        return int(fields[name]) if fields.get(name) else None

    value, failure = read_result(result)
    count = int(fields["n"])
    trail = [fields.get(f"e{(index % 100) + 1}") for index in range(max(0, count - 100), count)]
    return JobRecord(
        id=job_id,
        status=JobStatus(fields["state"]),
        queue=fields["queue"],
        order=int(fields["order"]),
        handler=fields["handler"],
        spec=unpack_spec(spec),
        retry=unpack_retry(fields["retry"]),
        attempt=int(fields["attempt"]),
        fence=int(fields["fence"]),
        created_ms=int(fields["created"]),
        updated_ms=int(fields["updated"]),
        version=number("ver") or 0,
        worker=fields.get("worker") or None,
        started_ms=number("started"),
        finished_ms=number("finished"),
        due_ms=number("due"),
        asked_ms=number("asked" if "asked" in fields else "due"),
        expires_ms=number("expires"),
        timeout_ms=number("timeout"),
        owner=fields.get("owner"),
        run_id=fields.get("run"),
        retry_of=fields.get("retry_of"),
        schedule_id=fields.get("schedule"),
        canceling="cancel" in fields,
        progress=float(fields["progress"]) if fields.get("progress") else None,
        progress_note=fields.get("progress_note") or None,
        value=value,
        failure=failure,
        event_ids=tuple(event for event in trail if event),
    )


def read_result(result: bytes | None) -> tuple[bytes | None, Failure | None]:
    """What is stored under `result`: a value's JSON text, the last failure, or both."""
    if not result:
        return None, None
    stored: dict[str, Any] = msgpack.unpackb(result)
    error = stored.get("error")
    if error is not None:
        return stored.get("value"), Failure(error["class"], error["message"], error.get("traceback"))
    return stored["value"], None


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's hold on one attempt."""

    job_id: str
    fence: int
    attempt: int
    queue: str
    handler: str
    packed_spec: bytes = field(repr=False)
    timeout_ms: int
    created_ms: int
    due_ms: int

    @property
    def spec(self) -> Spec:
        """What to run."""
        return unpack_spec(self.packed_spec)


def read_leases(rows: list[list[Any]]) -> list[Lease]:
    """Leases from a script's reply."""
    return [
        Lease(job_id.decode(), fence, attempt, queue.decode(), handler.decode(), spec, timeout, created, due)
        for job_id, fence, attempt, queue, handler, spec, timeout, created, due in rows
    ]


# Output: stream and data; the third is how many bytes of that stream of the attempt came before: it is not doubled.
Chunk = tuple[str, bytes] | tuple[str, bytes, int]


class How(StrEnum):
    """How an attempt ended, as its worker tells it."""

    COMPLETED = "completed"
    FAILED = "failed"  # retried while the policy allows
    FATAL = "fatal"  # failed, and no retry would help
    CANCELED = "canceled"
    RELEASED = "released"  # given back; costs no attempt


NOTE_CHARS = 200  # of what an attempt says about its progress: the record holds short fields only


@dataclass(frozen=True, slots=True)
class Ending:
    """A worker's last word on one attempt."""

    job_id: str
    fence: int
    how: How
    value: bytes | None = None  # JSON text
    failure: Failure | None = None
    delay_ms: int | None = None  # until the retry, instead of the policy's delay
    logs: tuple[Chunk, ...] = ()  # the last of its output
    progress: tuple[float, str] | None = None  # how far it came

    def pack(self) -> tuple[object, ...]:
        """As report.lua takes it."""
        body, kind = None, None
        if self.failure is not None:
            body, kind = self.failure.pack(self.value), self.failure.kind
        elif self.value is not None:
            body = pack_value(self.value)
        if self.logs or self.progress:
            progress = self.progress and (self.progress[0], self.progress[1][:NOTE_CHARS])
            return (self.job_id, self.fence, self.how, body, self.delay_ms, kind, self.logs, progress)
        return (self.job_id, self.fence, self.how, body, self.delay_ms, kind)


class Reported(StrEnum):
    """What became of a report."""

    OK = "ok"
    DONE = "done"  # this attempt was reported before
    STALE = "stale"  # a later lease owns the job
    GONE = "gone"  # the job does not exist any more


class Renewed(StrEnum):
    """What became of a lease at a heartbeat."""

    OK = "ok"
    CANCEL = "cancel"
    LOST = "lost"


class Submitted(StrEnum):
    """What became of a submission."""

    CREATED = "created"
    EXISTING = "existing"
    GONE = "gone"


class Canceled(StrEnum):
    """What became of a cancel."""

    CANCELED = "canceled"
    STOPPING = "stopping"
    ENDED = "ended"
    MISSING = "missing"


class Deleted(StrEnum):
    """What became of a delete."""

    DELETED = "deleted"
    MISSING = "missing"
    NAMED = "named"
    RUN = "run"


class Updated(StrEnum):
    """What became of an update."""

    OK = "ok"
    MISSING = "missing"
    ENDED = "ended"
    CHANGED = "changed"
    RUNNING = "running"
    UNKNOWN = "unknown"
