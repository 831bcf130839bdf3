"""The output of jobs: stdout and stderr in chunks, readable while they run."""

from __future__ import annotations

from dataclasses import dataclass

from taskflow_streams.connection import Client
from taskflow_streams.errors import translated
from taskflow_streams.keys import Keys


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

    def __init__(self, redis: Client, blocking: Client, keys: Keys) -> None:
        self._redis = redis
        self._blocking = blocking
        self._keys = keys

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
        return [
            LogChunk(entry.decode(), fields[b"stream"].decode(), int(fields[b"attempt"]), fields[b"text"])
            for _, entries in reply or []
            for entry, fields in entries
        ]
