"""A job as a client asks for it, and the checks it passes on its way to the engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import Any, Protocol, TypeAlias, TypedDict

from taskflow.payloads import encode_payload
from taskflow.tasks import DEFAULT_QUEUE, Registry, Task
from taskflow_domain import (
    DEFAULT_PRIORITY,
    MAX_DEPENDENCIES,
    MAX_PRIORITY,
    MIN_PRIORITY,
    NAME_MAX_CHARS,
    RetryPolicy,
    executor_faults,
    ms_of_datetime,
    order_of_priority,
)
from taskflow_streams import NewJob

QUEUE_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
TYPE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
KEY = re.compile(r"[!-~]{1,255}")  # as the api takes it, where it may be a header
EMPTY_PAYLOAD = b"{}"
TITLE_CHARS = 80  # of a command, as the job's name
DEFAULT_RETRY = RetryPolicy()
SHORTEST_S = 0.001
LONGEST_S = 100 * 366 * 86_400  # beyond any plan; larger numbers are mistakes


class HasId(Protocol):
    """A handle."""

    @property
    def id(self) -> str:
        """The job's id."""


JobRef: TypeAlias = str | HasId
Call: TypeAlias = tuple[Any, ...] | Mapping[str, Any]  # its positional arguments, or its keyword arguments


def id_of(job: JobRef) -> str:
    """The id of a job that is named by its id or its handle."""
    return job if isinstance(job, str) else job.id


class Options(TypedDict, total=False):
    """What can be said about a job beside what it does; each is a field of `Submission`."""

    name: str | None
    queue: str | None
    priority: int
    after: Sequence[JobRef]
    delay_s: float | None
    scheduled_at: datetime | None
    ttl_s: float | None
    timeout_s: float | None
    retry_policy: RetryPolicy | None
    owner: str | None
    idempotency_key: str | None


def known(options: Options) -> Options:
    """The same.  Raises TypeError for one that there is not."""
    for name in options:
        if name not in Options.__annotations__:
            raise TypeError(f"there is no option {name!r}; the options are {', '.join(Options.__annotations__)}")
    return options


@dataclass(slots=True)
class Submission:
    """A job to enqueue.  What is None is the task's own option, or the default."""

    task: str | Callable[..., Any] | Task  # one registered with @task, or a name that some worker knows
    payload: Any = field(default_factory=dict)
    name: str | None = None  # for people; by default the task's
    queue: str | None = None
    priority: int = DEFAULT_PRIORITY  # 10 is the most urgent, 1 the least
    after: Sequence[JobRef] = ()  # handles or ids of jobs that must be COMPLETED first
    delay_s: float | None = None
    scheduled_at: datetime | None = None
    ttl_s: float | None = None  # EXPIRED if it has not started by then
    timeout_s: float | None = None
    retry_policy: RetryPolicy | None = None
    owner: str | None = None
    idempotency_key: str | None = None
    type: str = "task"  # the executor; the payload holds the fields of any but `task`, whose `task` is empty
    place: str = "payload"  # what the payload is called in messages

    @property
    def dependencies(self) -> tuple[str, ...]:
        """The ids in `after`."""
        return tuple(map(id_of, self.after))


def prepared(task: Task, args: Sequence[Any], kwargs: Mapping[str, Any], options: Options) -> Submission:
    """A job that calls a task so.  Raises TypeError for arguments that it does not take."""
    payload = task.payload(args, kwargs)
    place = "kwargs" if not args else "args[0]" if args[0] is payload else ""
    return Submission(task, payload, place=place, **options)


def calls_of(task: Task, calls: Iterable[Call], options: Options) -> Iterator[Submission]:
    """A job for each call."""
    for call in calls:
        if isinstance(call, Mapping):
            yield prepared(task, (), call, options)
        elif isinstance(call, tuple):
            yield prepared(task, call, {}, options)
        else:
            raise TypeError(f"a call is a tuple of arguments or a dict of keyword arguments, not {call!r}")


def named_job(task: str, payload: Any, options: Options) -> Submission:
    """A job for the task of this name; a payload of None is {}."""
    return Submission(task, {} if payload is None else payload, **known(options))


def shell_job(cmd: str, env: Mapping[str, str] | None, cwd: str | None, options: Options) -> Submission:
    """A job that runs a command."""
    fields = {"cmd": cmd, "env": None if env is None else dict(env), "cwd": cwd}
    title = cmd.strip().split("\n", 1)[0][:TITLE_CHARS] if isinstance(cmd, str) else ""
    return _executor_job("shell", title, fields, options)


def python_job(callable_: str, args: Iterable[Any], kwargs: Mapping[str, Any] | None, options: Options) -> Submission:
    """A job that imports a function, `pkg.module:function`, and calls it."""
    fields = {"callable": callable_, "args": list(args), "kwargs": dict(kwargs or {})}
    return _executor_job("python", str(callable_), fields, options)


def _executor_job(type_: str, title: str, fields: dict[str, Any], options: Options) -> Submission:
    payload = {name: value for name, value in fields.items() if value is not None}
    named: Options = {**known(options), "name": options.get("name") or title or type_}
    return Submission("", payload, type=type_, place="", **named)


def new_job(submission: Submission, job_id: str, tasks: Registry) -> NewJob:
    """The job as the engine takes it.  Raises ValueError for what is out of bounds."""
    task = submission.task if isinstance(submission.task, Task) else tasks.find(submission.task)
    handler = _handler(submission, task)
    _check_types(submission)
    name = submission.name or handler
    queue = submission.queue or (task.queue if task else DEFAULT_QUEUE)
    timeout_s = submission.timeout_s if submission.timeout_s is not None or task is None else task.timeout_s
    retry = submission.retry_policy or (task.retry_policy if task else None)
    if name != handler:
        _check_name(name)
    _check_queue(queue)
    _check_limits(submission)
    payload = submission.payload
    encoded = encode_payload(payload, submission.place) if payload != {} else EMPTY_PAYLOAD
    return NewJob(
        id=job_id,
        name=name,
        queue=queue,
        handler=handler,
        payload=encoded,
        order=order_of_priority(submission.priority),
        type=submission.type,
        task=None if name == handler or submission.type != "task" else handler,
        dependencies=submission.dependencies if submission.after else (),
        retry=retry or DEFAULT_RETRY,
        timeout_ms=_ms(timeout_s),
        due_ms=ms_of_datetime(submission.scheduled_at) if submission.scheduled_at else None,
        delay_ms=_ms(submission.delay_s),
        ttl_ms=_ms(submission.ttl_s),
        owner=submission.owner,
        has_key=submission.idempotency_key is not None,
    )


def batches(submissions: Iterable[Submission], size: int) -> Iterator[list[Submission]]:
    """Lists of at most so many."""
    rest = iter(submissions)
    while batch := list(islice(rest, size)):
        yield batch


def fingerprint(job: NewJob) -> str:
    """The same for two submissions of the same content, whatever their ids."""
    content = (job.name, job.queue, job.handler, job.payload, job.order, job.dependencies, job.retry, job.timeout_ms)
    times = (job.due_ms, job.delay_ms, job.ttl_ms, job.owner)
    return sha256(repr((content, times)).encode()).hexdigest()


def _handler(submission: Submission, task: Task | None) -> str:
    """What a worker must have to run it."""
    if submission.type != "task":
        if TYPE_NAME.fullmatch(submission.type) is None:
            raise ValueError(f"a job's type is the name of an executor, such as 'shell', not {submission.type!r}")
        if faults := executor_faults(submission.type, submission.payload):
            raise ValueError("; ".join(f"{field} {message}" for field, message in faults))
        return f"@{submission.type}"
    handler = task.name if task else submission.task
    if not isinstance(handler, str):
        raise ValueError(f"{handler!r} is not registered as a task; decorate it with @task, or give a name")
    _check_name(handler)
    if handler.startswith("@"):
        raise ValueError(f"a task's name cannot begin with '@', which is for executors: {handler!r}")
    return handler


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)


@lru_cache(maxsize=1024)
def _check_name(name: str) -> None:
    if not 1 <= len(name) <= NAME_MAX_CHARS or "\0" in name:
        raise ValueError(f"a job's name has 1 to {NAME_MAX_CHARS} characters, none of them NUL")


@lru_cache(maxsize=1024)
def _check_queue(queue: str) -> None:
    if QUEUE_NAME.fullmatch(queue) is None:
        raise ValueError(f"a queue's name is 1 to 64 letters, digits and any of _ - . and not {queue!r}")


def _check_types(submission: Submission) -> None:
    """What a type checker would say; the bounds come later."""
    if type(submission.priority) is not int:
        raise TypeError(f"priority is a whole number, not {submission.priority!r}")
    for option in ("name", "queue", "owner", "idempotency_key"):
        text = getattr(submission, option)
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{option} is a str, not {text!r}")
    for option in ("delay_s", "ttl_s", "timeout_s"):
        seconds = getattr(submission, option)
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float)):
            raise TypeError(f"{option} is a number of seconds, not {seconds!r}")
    if submission.scheduled_at is not None and not isinstance(submission.scheduled_at, datetime):
        raise TypeError(f"scheduled_at is a datetime, not {submission.scheduled_at!r}")
    if submission.retry_policy is not None and not isinstance(submission.retry_policy, RetryPolicy):
        raise TypeError(f"retry_policy is a RetryPolicy, not {submission.retry_policy!r}")
    if submission.after:
        _check_after(submission.after)


def _check_after(after: Any) -> None:
    if isinstance(after, str):
        raise TypeError(f"after is a list of jobs, such as [{after!r}], not one of them")
    if not isinstance(after, Collection):
        raise TypeError(f"after is a list of jobs, not {after!r}")
    for job in after:
        if not isinstance(job if isinstance(job, str) else getattr(job, "id", None), str):
            raise TypeError(f"after holds handles or ids of jobs, not {job!r}")


def _check_limits(submission: Submission) -> None:
    if not MIN_PRIORITY <= submission.priority <= MAX_PRIORITY:
        raise ValueError(f"priority is from {MIN_PRIORITY} to {MAX_PRIORITY}, not {submission.priority}")
    if len(submission.after) > MAX_DEPENDENCIES:
        raise ValueError(f"a job may wait for {MAX_DEPENDENCIES} others, not {len(submission.after)}")
    if submission.delay_s is not None and submission.scheduled_at is not None:
        raise ValueError("a job has a delay_s or a scheduled_at, not both")
    if submission.idempotency_key is not None and KEY.fullmatch(submission.idempotency_key) is None:
        raise ValueError(f"an idempotency key is 1 to 255 visible ASCII characters, not {submission.idempotency_key!r}")
    _check_seconds("delay_s", submission.delay_s, 0)
    _check_seconds("ttl_s", submission.ttl_s, SHORTEST_S)
    _check_seconds("timeout_s", submission.timeout_s, SHORTEST_S)


def _check_seconds(name: str, seconds: float | None, least: float) -> None:
    if seconds is not None and not least <= seconds <= LONGEST_S:
        raise ValueError(f"{name} is a number of seconds from {least:g} to {LONGEST_S:,}, not {seconds!r}")
