"""`Client`: enqueue jobs and follow them, from any program.  `AsyncClient` has the same methods for event loops."""

import contextlib
import copy
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeAlias, TypeVar, Unpack

from taskflow.async_client import AsyncClient
from taskflow.function import TaskFunction
from taskflow.handle import Handle
from taskflow.job import Job, LogEntry
from taskflow.link import stand_in
from taskflow.pickling import NotPickled
from taskflow.portal import CLOSED, Portal
from taskflow.submission import (
    Call,
    JobRef,
    Options,
    Submission,
    batches,
    calls_of,
    id_of,
    known,
    named_job,
    prepared,
    python_job,
    shell_job,
)
from taskflow.tasks import Registry, registry

CHUNK = 5_000  # taken from the caller's iterable in the caller's thread, then sent in batches that overlap

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Work: TypeAlias = Callable[[AsyncClient], Coroutine[Any, Any, T]]


class Client(NotPickled):
    """A connection to TaskFlow.  `with Client() as client: …`, or keep one for the whole program.

    It finds the server as `AsyncClient` does.  Threads may share it; in a forked child it connects anew; a program
    that runs an event loop may use it, though it blocks: there `AsyncClient` is better.
    """

    _instead = "make one in each process that needs one"

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        namespace: str | None = None,
        tasks: Registry = registry,
    ) -> None:
        self._line = Line(lambda: AsyncClient(url, token=token, namespace=namespace, tasks=tasks), tasks)
        self._tasks = tasks
        self._options: Options = {}

    def close(self) -> None:
        """Close the connections.  A client that was closed cannot be used again."""
        self._line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def options(self, **options: Unpack[Options]) -> Self:
        """The same client with options for the jobs it makes: `client.options(priority=9).enqueue(send, to)`."""
        other = copy.copy(self)
        other._options = {**self._options, **known(options)}
        return other

    def enqueue(self, task: TaskFunction[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue a job that calls a task with these arguments.

        Raises TypeError for arguments that the function does not take, NotJson for what cannot be sent, ValueError
        for what is out of bounds or not there to wait for, IdempotencyConflict, and Unavailable.
        """
        return self._one(prepared(self._tasks.get(task), args, kwargs, self._options))

    def enqueue_named(self, task: str, payload: Any = None, **options: Unpack[Options]) -> Handle[Any]:
        """Enqueue a job for the task that workers know by this name.  The payload is sent as it is; None is {}."""
        return self._one(named_job(task, payload, {**self._options, **options}))

    def enqueue_many(self, submissions: Iterable[Submission]) -> list[Handle[Any]]:
        """Enqueue any number of jobs, in batches; their handles in the same order.

        Batches that were accepted before one is refused stay accepted.
        """
        handles: list[Handle[Any]] = []
        for chunk in batches(submissions, CHUNK):
            made = self._line.run(partial(AsyncClient.enqueue_many, submissions=chunk))
            handles += [Handle(self, handle.id) for handle in made]
        return handles

    def bulk(self, task: TaskFunction[..., R], calls: Iterable[Call]) -> list[Handle[R]]:
        """Enqueue a job for each call: a tuple is its positional arguments, a dict its keyword arguments."""
        return self.enqueue_many(calls_of(self._tasks.get(task), calls, self._options))

    def shell(
        self, cmd: str, *, env: Mapping[str, str] | None = None, cwd: str | None = None, **options: Unpack[Options]
    ) -> Handle[dict[str, Any]]:
        """Enqueue a shell command; its result is {"exit_code": 0, "output": …}."""
        return self._one(shell_job(cmd, env, cwd, {**self._options, **options}))

    def python(
        self,
        callable: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[Options],
    ) -> Handle[Any]:
        """Enqueue a call of a function that the worker imports: `client.python("pkg.module:function", [1, 2])`."""
        return self._one(python_job(callable, args, kwargs, {**self._options, **options}))

    def handle(self, job: JobRef) -> Handle[Any]:
        """The handle of a job whose id is known."""
        return Handle(self, id_of(job))

    def get(self, job: JobRef) -> Job | None:
        """The job as it is now; None if there is no such job."""
        return self._line.run(lambda client: client.get(job))

    def job(self, job: JobRef) -> Job:
        """The job as it is now.  Raises LookupError if there is no such job."""
        return self._line.run(lambda client: client.job(job))

    def wait(self, job: JobRef, timeout: float | None = None) -> Job:
        """The job once it has ended.  Raises TimeoutError, or LookupError if there is no such job."""
        return self._line.run(lambda client: client.wait(job, timeout))

    def result(self, job: JobRef, timeout: float | None = None) -> Any:
        """What the job returned, once it is COMPLETED.  Raises JobFailed when it ends in any other way."""
        return self._line.run(lambda client: client.result(job, timeout))

    def cancel(self, job: JobRef) -> bool:
        """Cancel a job: at once if it has not started, else by order to its worker.  False: it had ended already."""
        return self._line.run(lambda client: client.cancel(job))

    def logs(self, job: JobRef, follow: bool = False) -> Iterator[LogEntry]:
        """What a job printed; with `follow` also what it will print, until it has ended."""
        pieces: list[AsyncGenerator[LogEntry, None]] = []

        async def following(client: AsyncClient) -> LogEntry | None:
            if not pieces:
                pieces.append(client.logs(job, follow))
            return await anext(pieces[0], None)

        async def over(_: AsyncClient) -> None:
            if pieces:
                await pieces[0].aclose()

        try:
            while (entry := self._line.run(following)) is not None:
                yield entry
        finally:
            with contextlib.suppress(RuntimeError):  # closed in the meantime, and all its streams with it
                self._line.run(over)

    def _one(self, submission: Submission) -> Handle[Any]:
        return self.enqueue_many([submission])[0]


class Line:
    """What all copies of a client share: an AsyncClient and the thread it lives in, made when they are needed."""

    def __init__(self, make: Callable[[], AsyncClient], tasks: Registry) -> None:
        self._make = make
        self._tasks = tasks
        self._closed = False
        self.forget()
        _lines.add(self)

    def forget(self) -> None:
        """Begin as if new: after a fork, what is left of the parent's connections cannot be used."""
        self._lock = threading.Lock()
        self._ready: tuple[AsyncClient, Portal] | None = None

    def run(self, work: Work[T]) -> T:
        """What the client answers."""
        replaced = stand_in()
        if replaced is not None and not self._closed:
            return at_once(work(AsyncClient(tasks=self._tasks, transport=replaced.blocking)))
        with self._lock:
            if self._closed:
                raise RuntimeError(CLOSED)
            if self._ready is None:
                client = self._make()
                self._ready = client, Portal(client.close)
            client, portal = self._ready
        return portal.run(lambda: work(client))

    def close(self) -> None:
        """Close the connections, and end the thread."""
        with self._lock:
            ready, self._ready, self._closed = self._ready, None, True
        if ready is not None:
            ready[1].close()


_lines: "weakref.WeakSet[Line]" = weakref.WeakSet()
_left_behind: list[object] = []  # a parent's connections must not be closed by whoever collects them here


def _after_fork() -> None:
    for line in list(_lines):
        _left_behind.append(line._ready)
        line.forget()


os.register_at_fork(after_in_child=_after_fork)


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("a blocking client was made to wait")
