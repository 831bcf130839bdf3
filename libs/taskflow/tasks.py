"""`@task`: the functions that jobs can name.

What it makes of a function can be called as before (`taskflow.function`); the registry knows it by name, with the
options its jobs have unless they say otherwise.  How a payload becomes its arguments is told in `taskflow.calling`.
"""

import inspect
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload

from taskflow.calling import Arguments, arguments_for, payload_for, signature_of, takes, takes_whole
from taskflow.checks import LONGEST_TIMEOUT_S, check_name, check_queue, check_seconds
from taskflow.function import AsyncTaskFunction, TaskFunction
from taskflow_domain import RetryPolicy

DEFAULT_QUEUE = "default"

Isolation = Literal["process", "thread", "async"]

P = ParamSpec("P")
R = TypeVar("R")


class Decorator(Protocol):
    """What `@task(…)` is: it makes a task of a function."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTaskFunction[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A registered function."""

    name: str
    function: Callable[..., Any]
    queue: str = DEFAULT_QUEUE
    retry_policy: RetryPolicy | None = None
    timeout_s: float | None = None
    isolation: Isolation | None = None  # resolved when it is made
    is_async: bool = field(init=False)
    _signature: inspect.Signature = field(init=False, repr=False)
    _whole: bool = field(init=False, repr=False)
    _bare: bool = field(init=False, repr=False)  # may be called without arguments

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_function(self.name, self.function)
        _check_options(self)
        signature = signature_of(self.function)
        object.__setattr__(self, "is_async", inspect.iscoroutinefunction(self.function))
        object.__setattr__(self, "_signature", signature)
        object.__setattr__(self, "_whole", takes_whole(signature))
        object.__setattr__(self, "isolation", _isolation(self.name, self.function, self.isolation))
        object.__setattr__(self, "_bare", not self._whole and takes(signature, {}))

    def arguments(self, payload: bytes) -> Arguments:
        """What to call the function with for this payload, which is JSON text."""
        if self._bare and payload == b"{}":
            return (), {}  # what the rules would say, in a tenth of the time
        value = json.loads(payload.decode())  # given bytes, it would look for other encodings first
        return ((value,), {}) if self._whole else arguments_for(self.name, self._signature, value)

    def payload(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The payload that makes a worker call the function so.  Raises TypeError for what it does not take."""
        return payload_for(self.name, self._signature, args, kwargs)


class Registry:
    """Tasks by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Task] = {}
        self._by_function: dict[Callable[..., Any], Task] = {}
        self.tasks = MappingProxyType(self._by_name)

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTaskFunction[P, R]: ...

    @overload
    def task(self, function: Callable[P, R], /) -> TaskFunction[P, R]: ...

    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        retry_policy: RetryPolicy | None = None,
        timeout_s: float | None = None,
        isolation: Isolation | None = None,
    ) -> Decorator: ...

    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        retry_policy: RetryPolicy | None = None,
        timeout_s: float | None = None,
        isolation: Isolation | None = None,
    ) -> Any:
        """Register a function: `@task`, or `@task(name="mail.send", queue="mail", timeout_s=30)`.

        Its name is the function's own unless one is given; a job runs it by that name.  A coroutine function runs on
        the worker's event loop, and must not block it; any other in a process of a warm pool, or in a thread of the
        worker with isolation="thread" (or where a process could not import it).  `queue`, `retry_policy` and
        `timeout_s` are what `Client.enqueue` uses when it is not told otherwise; `timeout_s` also limits jobs that
        were submitted without a limit.
        """

        def register(function: Callable[..., Any]) -> TaskFunction[..., Any]:
            if isinstance(function, TaskFunction):
                function = function.__wrapped__
            own_name: str = getattr(function, "__name__", type(function).__name__)
            made = Task(own_name if name is None else name, function, queue, retry_policy, timeout_s, isolation)
            self._add(made)
            return AsyncTaskFunction(made) if made.is_async else TaskFunction(made)

        return register if function is None else register(function)

    def find(self, task: str | Callable[..., Any]) -> Task | None:
        """The task of this name, or of this function (also under further decorators that set `__wrapped__`)."""
        if isinstance(task, str):
            return self._by_name.get(task)
        function: Any = task
        while True:
            if isinstance(function, TaskFunction) and self._by_name.get(function.name) is function.task:
                return function.task
            found = self._by_function.get(function)
            if found is not None or not hasattr(function, "__wrapped__"):
                return found
            function = function.__wrapped__

    def get(self, task: Callable[..., Any] | TaskFunction[..., Any]) -> Task:
        """The task that a function is.  Raises TypeError if it is none."""
        if isinstance(task, TaskFunction):
            return task.task  # also one of another registry: workers find it by its name
        found = self.find(task) if callable(task) else None
        if found is None:
            hint = "use enqueue_named for names" if isinstance(task, str) else "decorate it with @task"
            raise TypeError(f"{task!r} is no task; {hint}")
        return found

    def _add(self, task: Task) -> None:
        other = self._by_name.get(task.name)
        if other is not None and _home(other) != _home(task):
            raise ValueError(
                f"two functions are called {task.name!r}, {_home(other)} and {_home(task)}; give one of them another "
                "name: @task(name=…)"
            )
        if other is not None:  # its module was loaded again
            del self._by_function[other.function]
        self._by_name[task.name] = task
        self._by_function[task.function] = task


registry = Registry()
task = registry.task


def _isolation(name: str, function: Callable[..., Any], wanted: Isolation | None) -> Isolation:
    """Where the function runs.  Raises ValueError for what cannot be."""
    if inspect.iscoroutinefunction(function):
        if wanted not in (None, "async"):
            raise ValueError(f"task {name!r} is a coroutine function: its isolation is 'async', not {wanted!r}")
        return "async"
    home = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '<object>')}"
    importable = "<" not in home and not home.startswith("__main__")
    if wanted is None:
        return "process" if importable else "thread"
    if wanted == "process" and not importable:
        raise ValueError(f"task {name!r} cannot be imported by another process: move it to the top level of a module")
    if wanted not in ("process", "thread"):
        raise ValueError(f"isolation of task {name!r} is 'process' or 'thread', not {wanted!r}")
    return wanted


def _home(task: Task) -> str:
    function = inspect.unwrap(task.function)
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"a task's name is a str, not {name!r}")
    check_name(name, "a task's name")
    if name.startswith("@"):
        raise ValueError(f"a task's name cannot begin with '@', which is for executors: {name!r}")


def _check_options(task: Task) -> None:
    """Raise TypeError or ValueError for what none of its jobs could have."""
    queue: Any = task.queue
    retry_policy: Any = task.retry_policy
    timeout_s: Any = task.timeout_s
    if not isinstance(queue, str):
        raise TypeError(f"queue of task {task.name!r} is a str, not {queue!r}")
    check_queue(queue)
    if retry_policy is not None and not isinstance(retry_policy, RetryPolicy):
        raise TypeError(f"retry_policy of task {task.name!r} is a RetryPolicy, not {retry_policy!r}")
    if timeout_s is not None and (isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float)):
        raise TypeError(f"timeout_s of task {task.name!r} is a number of seconds, not {timeout_s!r}")
    check_seconds(f"timeout_s of task {task.name!r}", timeout_s, most=LONGEST_TIMEOUT_S)


def _check_function(name: str, function: Callable[..., Any]) -> None:
    if not callable(function):
        raise TypeError(f"task {name!r} must be a function, not {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"task {name!r} must return its result; a generator cannot be a task")
    if _is_method(function):
        raise TypeError(
            f"task {name!r} is a method, and a worker has no object to call it on; make it a function, or a "
            "@staticmethod, above @task"
        )


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether it stands in the body of a class, and is called on its objects, or on the class."""
    outside = getattr(function, "__qualname__", "").rpartition(".")[0]
    if not outside or outside.endswith("<locals>") or not inspect.isfunction(function):
        return False
    return next(iter(inspect.signature(function).parameters), "") in ("self", "cls")
