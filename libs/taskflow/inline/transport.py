"""The bench as clients see it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Final

from taskflow.inline import calls
from taskflow.inline.calls import Caller
from taskflow.job import Job, LogEntry
from taskflow.submission import Submission
from taskflow.tasks import Registry

if TYPE_CHECKING:
    from taskflow.inline.bench import Bench

LOOK_S: Final = 0.002


class InlineTransport:
    """A client's way to the bench; `caller` is how its jobs' functions are called."""

    def __init__(self, bench: "Bench", caller: Caller) -> None:
        self._bench = bench
        self._caller = caller

    async def submit(self, submissions: Iterable[Submission], tasks: Registry) -> list[str]:
        """Take jobs."""
        return await self._bench.submit(submissions, tasks, self._caller)

    async def get(self, job_id: str) -> Job | None:
        """The job as it is now."""
        entry = self._bench.entries.get(job_id)
        return None if entry is None else entry.job()

    async def wait(self, job_id: str, timeout_s: float | None) -> Job | None:
        """The job once it has ended: run it if need be.  What nothing here can run is given as it is."""
        entry = self._bench.entries.get(job_id)
        if entry is None:
            return None
        if not entry.ended:
            await self._bench.run(self._caller)
        if entry.context is not None:  # somebody else runs it
            await self._over(entry.over, entry.thread, timeout_s)
        return entry.job()

    async def cancel(self, job_id: str) -> bool | None:
        """Cancel a job."""
        return self._bench.cancel(job_id)

    async def logs(self, job_id: str, after: str, follow: bool) -> AsyncIterator[LogEntry]:
        """What it printed."""
        if follow:
            await self.wait(job_id, None)
        for entry in self._bench.entries[job_id].logs:
            yield entry

    async def close(self) -> None:
        """Nothing to close."""

    async def _over(self, over: threading.Event, thread: int, timeout_s: float | None) -> None:
        if self._caller is calls.blocking:
            if thread != threading.get_ident():  # else it waits for itself, and would for ever
                over.wait(timeout_s)
            return
        deadline = None if timeout_s is None else monotonic() + timeout_s
        while not over.is_set() and (deadline is None or monotonic() < deadline):  # noqa: ASYNC110 - set in other threads
            await asyncio.sleep(LOOK_S)
