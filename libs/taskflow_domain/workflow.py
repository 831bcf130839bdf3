"""A workflow: its inputs, its tasks and what holds for all of its runs.

These are the words; `workflow_reading` makes them from a document, `plan` puts the tasks in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from taskflow_domain.retry import Retries, RetryPolicy

MAX_TASKS: Final = 10_000  # of one workflow, or of one run with those that were added
MAX_INSTANCES: Final = 100_000  # of one task
ON_SUCCESS: Final = "on_success"  # the names of the tasks that run after all others
ON_FAILURE: Final = "on_failure"

JSON = Any
NO_RETRIES: Final = Retries(max_attempts=1)


class OnFailure(StrEnum):
    """What becomes of a task when one that it needs did not succeed."""

    SKIP = "skip"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a workflow."""

    type: str = "any"  # string, integer, number, boolean, array, object, any
    default: JSON = None
    required: bool = False  # nothing was said of a default
    description: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a workflow.  What may hold references (`${{ … }}`) is kept as it was written."""

    name: str
    executor: str = "shell"  # shell, python, task (a handler), or the name of another executor
    fields: Mapping[str, JSON] = field(default_factory=dict)  # the executor's: cmd, env, cwd; callable, args, kwargs
    task: str | None = None  # of the executor `task`: the handler, if it is not called as this task is
    depends_on: tuple[str, ...] = ()
    input: Mapping[str, JSON] = field(default_factory=dict)
    queue: str = "default"
    order: int = 5
    retry: RetryPolicy = NO_RETRIES
    timeout_ms: int | None = None  # of one attempt
    start_timeout_ms: int | None = None  # a job that no worker has taken for so long fails
    on_failure: OnFailure = OnFailure.SKIP
    when: str | None = None  # an expression, without the brackets
    parallel: int | str | None = None  # a number, or an expression for one
    foreach: list[JSON] | str | None = None  # the items, or an expression for them
    concurrency: int | None = None  # instances at a time

    @property
    def fans_out(self) -> bool:
        """Whether its instances have an index."""
        return self.parallel is not None or self.foreach is not None


@dataclass(frozen=True, slots=True)
class Timetable:
    """When a workflow runs by itself."""

    cron: str | None = None
    interval_s: float | None = None
    timezone: str = "UTC"
    input: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workflow:
    """A definition."""

    name: str
    tasks: Mapping[str, Task]  # in the order in which they were written
    description: str = ""
    input: Mapping[str, Input] = field(default_factory=dict)
    schedule: Timetable | None = None
    timeout_ms: int | None = None  # of a run
    max_parallel: int | None = None  # jobs of a run at a time
    on_success: Task | None = None
    on_failure: Task | None = None

    @property
    def hooks(self) -> Iterator[Task]:
        """The tasks that run after all others, one or the other."""
        yield from (task for task in (self.on_success, self.on_failure) if task is not None)
