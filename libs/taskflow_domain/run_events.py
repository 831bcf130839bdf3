"""What can happen to a run, and how it stands: what `advance` works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from taskflow_domain.run_nodes import Node, Spans
from taskflow_domain.run_states import RunStatus, TaskStatus

CANCELLED: Final = "cancelled"
FAILED: Final = "failed"


@dataclass(frozen=True, slots=True)
class Run:
    """A run as a whole."""

    status: RunStatus = RunStatus.PENDING
    total: int = 0  # tasks, without hooks
    left: int = 0  # of them, and of hooks at work, those that have not ended
    ok: int = 0
    failed: int = 0
    skipped: int = 0
    active: int = 0  # jobs that have not ended
    seen: int = 0  # added tasks that are counted in
    retries: int = 0
    hook: str | None = None  # the task that runs after all others, once that time has come
    closing: str | None = None  # how it is to end, once nothing is active any more
    why: str | None = None
    started_ms: int | None = None
    finished_ms: int | None = None


@dataclass(frozen=True, slots=True)
class State:
    """A run, those of its tasks that matter now, and those in front: their turn has come, in this order."""

    run: Run
    nodes: Mapping[str, Node] = field(default_factory=dict)
    front: tuple[str, ...] = ()
    cleared: bool = False  # nobody else is in front, though not all of them were known


@dataclass(frozen=True, slots=True)
class Begun:
    """A scheduler has seen it."""


@dataclass(frozen=True, slots=True)
class InstanceEnded:
    """A job of it ended."""

    task: str
    status: TaskStatus


@dataclass(frozen=True, slots=True)
class Known:
    """How many instances a task has is known."""

    task: str
    count: int


@dataclass(frozen=True, slots=True)
class Unwanted:
    """A task's condition is false."""

    task: str
    why: str


@dataclass(frozen=True, slots=True)
class Faulty:
    """A task cannot be started, or not all of it."""

    task: str
    why: str


@dataclass(frozen=True, slots=True)
class Dispatched:
    """Jobs were made for the first instances of a task that had none."""

    task: str
    count: int


@dataclass(frozen=True, slots=True)
class Closed:
    """It is to end: cancelled, or failed for want of time."""

    how: str
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Added:
    """Tasks were added to it; they are in the plan by now."""

    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Retried:
    """It is to go on where it failed.  Of tasks with many instances: those that did not succeed."""

    unfinished: Mapping[str, Spans]


Event = Begun | InstanceEnded | Known | Unwanted | Faulty | Dispatched | Closed | Added | Retried


@dataclass(frozen=True, slots=True)
class Examine:
    """Work out how many instances a task has, if it is wanted at all; then say `Known`, `Unwanted` or `Faulty`."""

    task: str


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Make jobs for these instances of a task; then say `Dispatched` or `Faulty`."""

    task: str
    indexes: tuple[int, ...]


Command = Examine | Dispatch
