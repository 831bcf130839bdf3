"""The output of jobs: stdout and stderr in chunks, readable while they run.

A job that ends with a short log leaves it in one string (`compact_log` in the prelude); readers see no difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgpack

from taskflow_domain import JobStatus
from taskflow_streams.connection import Client
from taskflow_streams.errors import translated
from taskflow_streams.history import id_key
from taskflow_streams.keys import Keys
from taskflow_streams.scripts import Scripts

GIVEN_BACK = b"[its worker gave it back]\n"  # between two runs of one attempt, as the prelude writes it


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


@dataclass(frozen=True, slots=True)
class ProgressWord:
    """How far a job is."""

    id: str
    fraction: float
    note: str | None


class Tail(NamedTuple):
    """What a read of a followed job brought."""

    chunks: list[LogChunk]
    ended: bool
    progress: ProgressWord | None


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
        return _chunks(entries for _, entries in reply or []) or (await self._printed(job_id, after))[:count]

    async def up_to(self, job_id: str, last: str, count: int) -> list[LogChunk]:
        """The `count` chunks that end with one, in order: what a reader who resumes after it has seen."""
        with translated():
            entries = await self._redis.xrevrange(self._keys("log", job_id), last, "-", count=count)
        if entries:
            return _chunks([entries[::-1]])
        return [chunk for chunk in await self._printed(job_id) if id_key(chunk.id) <= id_key(last)][-count:]

    async def tip(self, job_id: str) -> str | None:
        """The last chunk there is now."""
        with translated():
            entries = await self._redis.xrevrange(self._keys("log", job_id), count=1)
        chunks = _chunks([entries]) or await self._printed(job_id)
        return chunks[-1].id if chunks else None

    async def follow(self, job_id: str) -> JobStatus | None:
        """Ask to be told of the job's end, by `tail`; its state now, None if there is no such job."""
        state: bytes = await self._scripts.run("follow", job_id)
        return JobStatus(state.decode()) if state else None

    async def tail(
        self, job_id: str, after: str = "0-0", count: int = 100, block_ms: int = 1000, heard: str | None = None
    ) -> Tail:
        """The chunks after one, and whether the job has ended: waits for the first chunk or the end.

        With `heard`, the id of the last word of progress ("0-0" for none), a new one is waited for, too.

        For jobs that are followed.  Output comes before the end: once it has ended and nothing came, all was read.
        """
        log, over, progress = (self._keys(name, job_id) for name in ("log", "over", "progress"))
        places = {log: after, over: "0-0"} | ({progress: heard} if heard is not None else {})
        with translated():
            reply = await self._blocking.xread(places, count=count, block=max(1, block_ms))
        found = {key.decode(): entries for key, entries in reply or []}
        chunks, ended = _chunks([found.get(log, [])]), over in found
        if ended and not chunks:
            chunks = (await self._printed(job_id, after))[:count]
        return Tail(chunks, ended, _word(found.get(progress)))

    async def ends_within(self, job_id: str, ms: int) -> bool:
        """Whether a job that is followed ends within the time; waits for it."""
        with translated():
            reply = await self._blocking.xread({self._keys("over", job_id): "0-0"}, count=1, block=max(1, ms))
        return bool(reply)

    async def _printed(self, job_id: str, after: str = "0-0") -> list[LogChunk]:
        """The chunks after one of an ended job's short log."""
        with translated():
            packed = await self._redis.get(self._keys("printed", job_id))
        rows = msgpack.unpackb(packed, raw=True) if packed else []
        chunks = (LogChunk(entry.decode(), stream.decode(), attempt, text) for entry, stream, attempt, text in rows)
        return [chunk for chunk in chunks if id_key(chunk.id) > id_key(after)]


def _word(entries: list[tuple[bytes, dict[bytes, bytes]]] | None) -> ProgressWord | None:
    if not entries:
        return None
    entry, fields = entries[-1]
    return ProgressWord(entry.decode(), float(fields[b"fraction"]), fields[b"note"].decode("utf-8", "replace") or None)


def _chunks(lists: Iterable[list[tuple[bytes, dict[bytes, bytes]]]]) -> list[LogChunk]:
    return [
        LogChunk(entry.decode(), fields[b"stream"].decode(), int(fields[b"attempt"]), fields[b"text"])
        for entries in lists
        for entry, fields in entries
    ]
