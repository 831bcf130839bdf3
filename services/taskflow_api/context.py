"""What the routes work with, and how they find it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from taskflow_api.errors import FULL_RETRY_AFTER_S, Busy, NotFound
from taskflow_api.parse import printable
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


def api_of(request: Request) -> Api:
    """The api that a request was sent to."""
    api: Api = request.app.state.api
    return api


def job_id_of(request: Request) -> str:
    """The job a request's path names.  What is no id names no job."""
    read_query(request, {})
    raw: str = request.path_params["job_id"]
    job_id = canonical_id(raw)
    if job_id is None:
        raise NotFound(f"There is no job {printable(raw)}.")
    return job_id


async def find_job(store: Store, job_id: str) -> JobRecord:
    """The job, or `NotFound`."""
    record = (await store.get([job_id]))[0]
    if record is None:
        raise NotFound(f"There is no job {job_id}.")
    return record
