"""`AsyncClient`: enqueue jobs and follow them, for programs on an event loop.  `Client` has the same methods."""

import copy
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from math import inf
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, Unpack

from taskflow.errors import JobFailed
from taskflow.function import TaskFunction
from taskflow.handle import AsyncHandle
from taskflow.job import Job, LogEntry
from taskflow.link import Link
from taskflow.pickling import NotPickled
from taskflow.submission import (
    Call,
    JobRef,
    Options,
    Submission,
    calls_of,
    id_of,
    known,
    named_job,
    prepared,
    python_job,
    shell_job,
)
from taskflow.tasks import Registry, registry
from taskflow.transport import Transport
from taskflow_domain import JobStatus
from taskflow_streams import Store

START = "0-0"  # of the output

P = ParamSpec("P")
R = TypeVar("R")


class AsyncClient(NotPickled):
    """A connection to TaskFlow for asyncio programs: `async with AsyncClient() as client: …`

    Over Redis directly (`redis://`, `rediss://`, `unix://`) or over HTTP (`http://`, `https://`).  It connects when it
    is first used.  Without a url it looks where the settings say (TASKFLOW_REDIS_URL, TASKFLOW_API_URL, in the
    environment, `.env` or `taskflow.yaml`), else for the `taskflow up` of this directory.
    """

    _instead = "make one in each process that needs one"

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        namespace: str | None = None,
        tasks: Registry = registry,
        transport: Transport | None = None,
    ) -> None:
        self._link = Link(url, token, namespace, transport)
        self._tasks = tasks
        self._options: Options = {}

    @classmethod
    async def connect(cls, url: str | None = None, *, token: str | None = None, namespace: str | None = None) -> Self:
        """A client that is connected already."""
        client = cls(url, token=token, namespace=namespace)
        await client._link.open()
        return client

    async def close(self) -> None:
        """Close the connections.  A client that was closed cannot be used again."""
        await self._link.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def store(self) -> Store:
        """The engine, for a client that is connected to Redis directly."""
        store = getattr(self._link.transport, "store", None)
        if not isinstance(store, Store):
            raise TypeError("this client has no engine at hand: it is not connected, or over HTTP")
        return store

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def options(self, **options: Unpack[Options]) -> Self:
        """The same client with options for the jobs it makes: `client.options(priority=9).enqueue(send, to)`."""
        other = copy.copy(self)
        other._options = {**self._options, **known(options)}
        return other

    async def enqueue(self, task: TaskFunction[P, R], /, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]:
        """Enqueue a job that calls a task with these arguments.

        Raises TypeError for arguments that the function does not take, NotJson for what cannot be sent, ValueError
        for what is out of bounds or not there to wait for, IdempotencyConflict, and Unavailable.
        """
        return await self._one(prepared(self._tasks.get(task), args, kwargs, self._options))

    async def enqueue_named(self, task: str, payload: Any = None, **options: Unpack[Options]) -> AsyncHandle[Any]:
        """Enqueue a job for the task that workers know by this name.  The payload is sent as it is; None is {}."""
        return await self._one(named_job(task, payload, {**self._options, **options}))

    async def enqueue_many(self, submissions: Iterable[Submission]) -> list[AsyncHandle[Any]]:
        """Enqueue any number of jobs, in batches; their handles in the same order.

        Batches that were accepted before one is refused stay accepted.
        """
        ids = await (await self._link.open()).submit(submissions, self._tasks)
        return [AsyncHandle(self, job_id) for job_id in ids]

    async def bulk(self, task: TaskFunction[..., R], calls: Iterable[Call]) -> list[AsyncHandle[R]]:
        """Enqueue a job for each call: a tuple is its positional arguments, a dict its keyword arguments."""
        return await self.enqueue_many(calls_of(self._tasks.get(task), calls, self._options))

    async def shell(
        self, cmd: str, *, env: Mapping[str, str] | None = None, cwd: str | None = None, **options: Unpack[Options]
    ) -> AsyncHandle[dict[str, Any]]:
        """Enqueue a shell command; its result is {"exit_code": 0, "output": …}."""
        return await self._one(shell_job(cmd, env, cwd, {**self._options, **options}))

    async def python(
        self,
        callable: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[Options],
    ) -> AsyncHandle[Any]:
        """Enqueue a call of a function that the worker imports: `client.python("pkg.module:function", [1, 2])`."""
        return await self._one(python_job(callable, args, kwargs, {**self._options, **options}))

    def handle(self, job: JobRef) -> AsyncHandle[Any]:
        """The handle of a job whose id is known."""
        return AsyncHandle(self, id_of(job))

    async def get(self, job: JobRef) -> Job | None:
        """The job as it is now; None if there is no such job."""
        return await (await self._link.open()).get(id_of(job))

    async def job(self, job: JobRef) -> Job:
        """The job as it is now.  Raises LookupError if there is no such job."""
        return _found(await self.get(job), job)

    async def wait(self, job: JobRef, timeout: float | None = None) -> Job:
        """The job once it has ended.  Raises TimeoutError, or LookupError if there is no such job."""
        limit_s = _seconds(timeout)
        found = _found(await (await self._link.open()).wait(id_of(job), limit_s), job)
        if not found.ended:
            raise TimeoutError(f"job {found.id} is still {found.status}" + (f" after {timeout:g} s" if timeout else ""))
        return found

    async def result(self, job: JobRef, timeout: float | None = None) -> Any:
        """What the job returned, once it is COMPLETED.  Raises JobFailed when it ends in any other way."""
        found = await self.wait(job, timeout)
        if found.status is not JobStatus.COMPLETED:
            raise JobFailed(found)
        return found.result

    async def cancel(self, job: JobRef) -> bool:
        """Cancel a job: at once if it has not started, else by order to its worker.  False: it had ended already."""
        could = await (await self._link.open()).cancel(id_of(job))
        if could is None:
            raise _unknown(job)
        return could

    async def logs(self, job: JobRef, follow: bool = False) -> AsyncGenerator[LogEntry, None]:
        """What a job printed; with `follow` also what it will print, until it has ended."""
        transport = await self._link.open()
        await self.job(job)
        async for entry in transport.logs(id_of(job), START, follow):
            yield entry

    async def _one(self, submission: Submission) -> AsyncHandle[Any]:
        return (await self.enqueue_many([submission]))[0]


def _seconds(timeout: float | None) -> float | None:
    """A timeout that was given; None, as inf is, if there is none."""
    if timeout is None or timeout == inf:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise ValueError(f"timeout is a number of seconds, 0 or more, or None, not {timeout!r}")
    return timeout


def _found(found: Job | None, job: JobRef) -> Job:
    if found is None:
        raise _unknown(job)
    return found


def _unknown(job: JobRef) -> LookupError:
    return LookupError(f"there is no job {id_of(job)}")
