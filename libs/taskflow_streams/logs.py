"""The output of jobs: stdout and stderr in chunks, readable while they run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from taskflow_domain import JobStatus
from taskflow_streams.connection import Client
from taskflow_streams.errors import translated
from taskflow_streams.keys import Keys
from taskflow_streams.scripts import Scripts


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of output."""

    id: str
    stream: str
    attempt: int
    text: bytes

    @property
    def at_ms(self) -> int:
        """When it came."""
        return int(self.id.partition("-")[0])


class Logs:
    """The logs of one partition's jobs.  They are written through a lease (`Leases.log`)."""

    def __init__(self, redis: Client, blocking: Client, keys: Keys, scripts: Scripts) -> None:
        self._redis = redis
        self._blocking = blocking
        self._keys = keys
        self._scripts = scripts

    async def read(
        self, job_id: str, after: str = "0-0", count: int = 100, block_ms: int | None = None
    ) -> list[LogChunk]:
        """The chunks after one; waits up to `block_ms` for the first, if given."""
        stream = {self._keys("log", job_id): after}
        with translated():
            if block_ms is None:
                reply = await self._redis.xread(stream, count=count)
            else:
                reply = await self._blocking.xread(stream, count=count, block=max(1, block_ms))
        return _chunks(entries for _, entries in reply or [])

    async def up_to(self, job_id: str, last: str, count: int) -> list[LogChunk]:
        """The `count` chunks that end with one, in order: what a reader who resumes after it has seen."""
        with translated():
            entries = await self._redis.xrevrange(self._keys("log", job_id), last, "-", count=count)
        return _chunks([entries[::-1]])

    async def follow(self, job_id: str) -> JobStatus | None:
        """Ask to be told of the job's end, by `tail`; its state now, None if there is no such job."""
        state: bytes = await self._scripts.run("follow", job_id)
        return JobStatus(state.decode()) if state else None

    async def tail(
        self, job_id: str, after: str = "0-0", count: int = 100, block_ms: int = 1000
    ) -> tuple[list[LogChunk], bool]:
        """The chunks after one, and whether the job has ended: waits for the first chunk or the end.

        For jobs that are followed.  Output comes before the end: once it has ended and nothing came, all was read.
        """
        log, over = self._keys("log", job_id), self._keys("over", job_id)
        with translated():
            reply = await self._blocking.xread({log: after, over: "0-0"}, count=count, block=max(1, block_ms))
        found = {key.decode(): entries for key, entries in reply or []}
        return _chunks([found.get(log, [])]), over in found

    async def ends_within(self, job_id: str, ms: int) -> bool:
        """Whether a job that is followed ends within the time; waits for it."""
        with translated():
            reply = await self._blocking.xread({self._keys("over", job_id): "0-0"}, count=1, block=max(1, ms))
        return bool(reply)


def _chunks(lists: Iterable[list[tuple[bytes, dict[bytes, bytes]]]]) -> list[LogChunk]:
    return [
        LogChunk(entry.decode(), fields[b"stream"].decode(), int(fields[b"attempt"]), fields[b"text"])
        for entries in lists
        for entry, fields in entries
    ]
