"""What runs a job of a type: the protocol of executors, found through the entry-point group `taskflow.executors`.

A package adds the job type `http` by naming a factory:

    [project.entry-points."taskflow.executors"]
    http = "my_package.http:make"

`make(kit)` is called once in each worker and returns an `Executor`.  Its `run` is awaited once for each attempt:

- It returns how the attempt ended: `Succeeded`, `Failed`.  An exception it raises is a failed attempt, too.
- It is cancelled when the attempt must stop (time limit, cancel, lost lease, worker's stop).  It then ends all that
  it started, within `report.grace_s` seconds, and lets CancelledError pass.
- What it writes to `report` can be seen while it runs; writing never blocks and never fails.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from taskflow_streams import Failure

Stream = Literal["stdout", "stderr", "system"]


@dataclass(frozen=True, slots=True)
class Work:
    """One attempt of one job, as an executor sees it."""

    job_id: str
    attempt: int  # 1 is the first
    fence: int
    queue: str
    name: str
    type: str  # the executor's own name
    worker: str
    payload: bytes  # JSON text: the executor's fields
    timeout_s: float | None = None  # enforced by the worker, which cancels `run`


class Report(Protocol):
    """Where an attempt tells what it does."""

    @property
    def grace_s(self) -> float:
        """Seconds between a polite request to end and the kill; less when the lease is lost.  Read it when stopping."""

    def write(self, stream: Stream, data: bytes) -> None:
        """Add to the output; beyond the limit it is counted, dropped, and a mark says so."""

    def progress(self, fraction: float, note: str = "") -> None:
        """Say how far the attempt is, from 0 to 1."""

    def redact(self, secret: str) -> None:
        """Never let this text be seen in the output from now on."""


@dataclass(frozen=True, slots=True)
class Succeeded:
    """It did what it should."""

    value: bytes | None = None  # JSON text


@dataclass(frozen=True, slots=True)
class Failed:
    """It did not."""

    failure: Failure
    fatal: bool = False  # no retry would help
    value: bytes | None = None  # JSON text; a shell job's exit code is known although it failed


@dataclass(frozen=True, slots=True)
class TimedOut:
    """It took too long.  Said by the worker, not by executors."""

    limit_s: float


Outcome = Succeeded | Failed | TimedOut


class Executor(Protocol):
    """Runs jobs of one type."""

    async def run(self, work: Work, report: Report) -> Outcome:
        """One attempt."""

    async def close(self) -> None:
        """The worker stops."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one job's processes may use; None is no limit."""

    cpu_s: int | None = None
    memory_bytes: int | None = None  # address space
    open_files: int | None = None
    nice: int = 0


@dataclass(frozen=True, slots=True)
class Kit:
    """What a worker gives to an executor's factory."""

    env_allowlist: tuple[str, ...] = ()  # names (with * at the end: prefixes) that jobs inherit from the worker
    denylist: tuple[str, ...] = ()  # commands that shell jobs may not use
    secret_names: str = ""  # regular expression: env names whose values are secret
    limits: Limits = field(default_factory=Limits)
    services: Mapping[str, Any] = field(default_factory=dict)  # "nursery": what starts processes
