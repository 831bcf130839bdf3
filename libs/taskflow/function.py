"""What `@task` makes of a function: it is called as before, and can be handed in as a job.

A type checker knows the arguments and the result: `add.delay(1, 2).result()` is an int if `add` returns one, also
where `add` is a coroutine function.
"""

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

if TYPE_CHECKING:
    from taskflow.handle import Handle
    from taskflow.submission import Options, Submission
    from taskflow.tasks import Task

P = ParamSpec("P")
R = TypeVar("R")


class TaskFunction(Generic[P, R]):
    """A function that is a task.  `__wrapped__` is the function itself."""

    __wrapped__: Callable[..., Any]
    __name__: str
    __qualname__: str

    def __init__(self, task: "Task") -> None:
        functools.update_wrapper(self, task.function)
        self.task = task
        if task.is_async and hasattr(inspect, "markcoroutinefunction"):
            inspect.markcoroutinefunction(self)

    @property
    def name(self) -> str:
        """What jobs call it."""
        return self.task.name

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, here and now."""
        result: R = self.task.function(*args, **kwargs)
        return result

    def delay(self, /, *args: P.args, **kwargs: P.kwargs) -> "Handle[R]":
        """Enqueue a job that calls it with these arguments, through the client that `taskflow.configure` set."""
        from taskflow.default import default_client

        return default_client().enqueue(self, *args, **kwargs)

    def prepare(self, /, *args: P.args, **kwargs: P.kwargs) -> "Submission":
        """A job that calls it with these arguments, for `enqueue_many`."""
        from taskflow.submission import prepared

        return prepared(self.task, args, kwargs, {})

    def options(self, **options: "Unpack[Options]") -> "TaskCall[P, R]":
        """The same, with options for its jobs: `send.options(queue="slow", after=[first]).delay(to)`."""
        from taskflow.submission import known

        return TaskCall(self, known(options))

    def __repr__(self) -> str:
        return f"<task {self.task.name!r}: {self.__wrapped__!r}>"

    def __reduce__(self) -> str:
        return self.__qualname__  # as a function is pickled: by its place


class AsyncTaskFunction(TaskFunction[P, R]):
    """A coroutine function that is a task: a call gives a coroutine, a job its result."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:  # type: ignore[override]
        """Call the function, here and now."""
        coroutine: Coroutine[Any, Any, R] = self.task.function(*args, **kwargs)
        return coroutine


class TaskCall(Generic[P, R]):
    """A task with options for its jobs."""

    def __init__(self, function: TaskFunction[P, R], options: "Options") -> None:
        self._function = function
        self._options = options

    def delay(self, /, *args: P.args, **kwargs: P.kwargs) -> "Handle[R]":
        """Enqueue a job with these options."""
        from taskflow.default import default_client

        return default_client().options(**self._options).enqueue(self._function, *args, **kwargs)

    enqueue = delay

    def prepare(self, /, *args: P.args, **kwargs: P.kwargs) -> "Submission":
        """A job with these options, for `enqueue_many`."""
        from taskflow.submission import prepared

        return prepared(self._function.task, args, kwargs, self._options)
