"""A job that was enqueued: its id, and what becomes of it.  `R` is what it returns."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Generic, Self, TypeVar, cast

from taskflow.job import Job, LogEntry, Progress
from taskflow.pickling import NotPickled
from taskflow_domain import JobStatus

if TYPE_CHECKING:
    from taskflow.async_client import AsyncClient
    from taskflow.client import Client

R = TypeVar("R")


class _Named(NotPickled):
    __slots__ = ("id",)

    _instead = "send its id, and use client.handle(id) there"

    id: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"<job {self.id}>"


class AsyncHandle(_Named, Generic[R]):
    """A job, for asyncio programs."""

    __slots__ = ("_client",)

    def __init__(self, client: "AsyncClient", job_id: str) -> None:
        self.id = job_id
        self._client = client

    async def job(self) -> Job:
        """The job as it is now.  This and the others raise LookupError if there is no such job."""
        return await self._client.job(self.id)

    async def status(self) -> JobStatus:
        """Where it stands."""
        return (await self.job()).status

    async def progress(self) -> Progress | None:
        """How far it is, if its handler says so."""
        return (await self.job()).progress

    async def wait(self, timeout: float | None = None) -> Job:
        """The job once it has ended, in whatever way.  Raises TimeoutError."""
        return await self._client.wait(self.id, timeout)

    async def result(self, timeout: float | None = None) -> R:
        """What it returned.  Raises JobFailed when it ends in any other way, and TimeoutError."""
        return cast(R, await self._client.result(self.id, timeout))

    async def cancel(self) -> bool:
        """Cancel it: at once if it has not started, else by order to its worker.  False: it had ended already."""
        return await self._client.cancel(self.id)

    def logs(self, follow: bool = False) -> AsyncIterator[LogEntry]:
        """What it printed; with `follow` also what it will print, until it has ended."""
        return self._client.logs(self.id, follow)


class Handle(_Named, Generic[R]):
    """A job."""

    __slots__ = ("_client",)

    def __init__(self, client: "Client", job_id: str) -> None:
        self.id = job_id
        self._client = client

    def job(self) -> Job:
        """The job as it is now.  This and the others raise LookupError if there is no such job."""
        return self._client.job(self.id)

    def status(self) -> JobStatus:
        """Where it stands."""
        return self.job().status

    def progress(self) -> Progress | None:
        """How far it is, if its handler says so."""
        return self.job().progress

    def wait(self, timeout: float | None = None) -> Job:
        """The job once it has ended, in whatever way.  Raises TimeoutError."""
        return self._client.wait(self.id, timeout)

    def result(self, timeout: float | None = None) -> R:
        """What it returned.  Raises JobFailed when it ends in any other way, and TimeoutError."""
        return cast(R, self._client.result(self.id, timeout))

    def cancel(self) -> bool:
        """Cancel it: at once if it has not started, else by order to its worker.  False: it had ended already."""
        return self._client.cancel(self.id)

    def logs(self, follow: bool = False) -> Iterator[LogEntry]:
        """What it printed; with `follow` also what it will print, until it has ended."""
        return self._client.logs(self.id, follow)
