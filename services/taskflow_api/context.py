"""What the routes work with, and how they find it."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from taskflow_api.errors import FULL_RETRY_AFTER_S, Busy, NotFound
from taskflow_api.parse import printable
from taskflow_api.paths import PREFIX
from taskflow_api.query import read_query
from taskflow_api.settings import ApiSettings
from taskflow_domain import canonical_id
from taskflow_runtime import Health
from taskflow_streams import JobRecord, Store

MEMORY_CHECK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Api:
    """Everything that outlives a request."""

    open_store: Callable[[], Store]
    settings: ApiSettings
    health: Health
    headroom: "Headroom"
    patience: "Patience"
    stopping: asyncio.Event

    @property
    def store(self) -> Store:
        """The store."""
        return self.open_store()


class Headroom:
    """Refuses what would grow the server's memory once that is nearly used up; what shrinks it still works."""

    def __init__(self, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._checked_at = float("-inf")
        self._full = False

    async def check(self, store: Store) -> None:
        """Raise `Busy` above the limit.  The server is asked once a second at most."""
        now = self._clock()
        if now - self._checked_at >= MEMORY_CHECK_S:
            self._checked_at = now
            used, limit = await store.memory()
            self._full = limit > 0 and used >= limit * self._limit
        if self._full:
            raise Busy("The server's memory is nearly used up; try again later.", FULL_RETRY_AFTER_S)


class Patience:
    """Room for requests that wait.  Each holds a connection to the broker, so their number is limited."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.waiting = 0

    def enter(self, connections: int = 1) -> None:
        """Begin to wait here, until `leave`; `Busy` if too many others do."""
        if self.waiting >= self._limit:
            raise Busy(f"{self._limit:,} clients wait here already; try again later.", FULL_RETRY_AFTER_S)
        self.waiting += connections

    def leave(self, connections: int = 1) -> None:
        """Wait no more."""
        self.waiting -= connections

    @contextmanager
    def room(self, connections: int = 1) -> Iterator[None]:
        """Wait here, within a block, with so many connections to the broker."""
        self.enter(connections)
        try:
            yield
        finally:
            self.leave(connections)


def api_of(request: Request) -> Api:
    """The api that a request was sent to."""
    api: Api = request.app.state.api
    return api


def job_id_of(request: Request) -> str:
    """The job a request's path names, for requests without a query.  What is no id names no job."""
    read_query(request, {})
    return path_job_id(request)


def path_job_id(request: Request) -> str:
    """The job a request's path names."""
    raw: str = request.path_params["job_id"]
    job_id = canonical_id(raw)
    if job_id is None:
        raise NotFound(f"There is no job {printable(raw)}.")
    return job_id


async def find_job(store: Store, job_id: str) -> JobRecord:
    """The job, or `NotFound`."""
    record = (await store.get([job_id]))[0]
    if record is None:
        raise await no_job(store, job_id)
    return record


async def no_job(store: Store, job_id: str) -> NotFound:
    """The refusal of an id that names no job; a schedule's may have come from the flat door."""
    [schedule] = await store.schedules.get([job_id])
    hint = "" if schedule is None else f"  It is a schedule: see {PREFIX}/schedules/{job_id}."
    return NotFound(f"There is no job {job_id}.{hint}")
