"""A job as a client asks for it, and the checks it passes on its way to the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Protocol, TypeAlias, TypedDict

from taskflow.checks import TYPE_NAME, check_limits, check_name, check_queue, check_types
from taskflow.payloads import encode_payload
from taskflow.tasks import DEFAULT_QUEUE, Registry, Task
from taskflow_domain import (
    DEFAULT_PRIORITY,
    RetryPolicy,
    executor_faults,
    ms_of_datetime,
    order_of_priority,
)
from taskflow_streams import NewJob

EMPTY_PAYLOAD = b"{}"
TITLE_CHARS = 80  # of a command, as the job's name
DEFAULT_RETRY = RetryPolicy()


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
        """The ids in `after`, each once."""
        return tuple(dict.fromkeys(map(id_of, self.after)))


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
    check_types(submission)
    name = submission.name or handler
    queue = submission.queue or (task.queue if task else DEFAULT_QUEUE)
    timeout_s = submission.timeout_s if submission.timeout_s is not None or task is None else task.timeout_s
    retry = submission.retry_policy or (task.retry_policy if task else None)
    if name != handler:
        check_name(name)
    check_queue(queue)
    check_limits(submission)
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
    check_name(handler)
    if handler.startswith("@"):
        raise ValueError(f"a task's name cannot begin with '@', which is for executors: {handler!r}")
    return handler


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
