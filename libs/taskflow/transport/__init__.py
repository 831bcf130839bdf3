"""How a client reaches TaskFlow: straight to Redis, over HTTP, or (in tests) not at all.  All keep one protocol."""

from collections.abc import AsyncIterator, Iterable
from typing import Protocol

from taskflow.job import Job, LogEntry
from taskflow.submission import Submission
from taskflow.tasks import Registry

__all__ = ["Transport"]


class Transport(Protocol):
    """A way to the server.  Every method raises Unavailable when it does not answer for as long as `patience` says."""

    async def submit(self, submissions: Iterable[Submission], tasks: Registry) -> list[str]:
        """Enqueue any number of jobs, in batches; their ids in the same order.

        Sent again when the answer was lost, and never doubled.  Batches that were accepted before one is refused
        stay accepted.
        """

    async def get(self, job_id: str) -> Job | None:
        """The job as it is now; None if there is no such job."""

    async def wait(self, job_id: str, timeout_s: float | None) -> Job | None:
        """The job once it has ended, or as it is when the time is over; None if there is no such job."""

    async def cancel(self, job_id: str) -> bool | None:
        """Whether the job could still be canceled; None if there is no such job."""

    def logs(self, job_id: str, after: str, follow: bool) -> AsyncIterator[LogEntry]:
        """What it printed after a piece, all its attempts; `follow`: and will print, until it has ended."""

    async def close(self) -> None:
        """Close the connections."""
