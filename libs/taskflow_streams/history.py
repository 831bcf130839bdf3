"""The event stream of one partition: append-only, written by the scripts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

from taskflow_streams.connection import Client
from taskflow_streams.errors import translated
from taskflow_streams.keys import Keys


@dataclass(frozen=True, slots=True)
class Event:
    """One transition."""

    id: str
    type: str
    job_id: str
    at_ms: int
    from_: str
    to: str
    attempt: int
    fence: int
    worker: str
    queue: str
    order: int
    created_ms: int
    owner: str
    more: dict[str, Any] = field(default_factory=dict)


class History:
    """The events of one partition."""

    def __init__(self, redis: Client, blocking: Client, keys: Keys) -> None:
        self._redis = redis
        self._blocking = blocking
        self._keys = keys

    async def after(self, event_id: str, count: int, block_ms: int | None = None) -> list[Event]:
        """The next events after `event_id`; waits up to `block_ms` for the first, if given."""
        stream = {self._keys("events"): event_id}
        with translated():
            if block_ms is None:
                reply = await self._redis.xread(stream, count=count)
            else:
                reply = await self._blocking.xread(stream, count=count, block=max(1, block_ms))
        return [read_event(entry, fields) for _, entries in reply or [] for entry, fields in entries]

    async def pick(self, event_ids: Sequence[str]) -> list[Event]:
        """These events, as far as they have not been trimmed."""
        with translated():
            async with self._redis.pipeline(transaction=False) as pipe:
                for event_id in event_ids:
                    pipe.xrange(self._keys("events"), event_id, event_id)
                rows = await pipe.execute()
        return [read_event(entry, fields) for row in rows for entry, fields in row]

    async def tip(self) -> str:
        """The id of the newest event; '0-0' when there is none."""
        with translated():
            rows = await self._redis.xrevrange(self._keys("events"), count=1)
        return str(rows[0][0].decode()) if rows else "0-0"


def read_event(entry: bytes, fields: dict[bytes, bytes]) -> Event:
    """An event from its stream entry."""
    at, from_, to, attempt, fence, order, created, queue, worker = fields[b"is"].decode().split(" ", 8)
    # Lua cannot tell an empty table from an empty list.
    more: dict[str, Any] = (msgpack.unpackb(fields[b"more"]) if b"more" in fields else None) or {}
    return Event(
        id=entry.decode(),
        type=fields[b"type"].decode(),
        job_id=fields[b"job"].decode(),
        at_ms=int(at),
        from_="" if from_ == "-" else from_,
        to="" if to == "-" else to,
        attempt=int(attempt),
        fence=int(fence),
        worker="" if worker == "-" else worker,
        queue=queue,
        order=int(order),
        created_ms=int(created),
        owner=more.pop("owner", ""),
        more=more,
    )


def id_key(event_id: str) -> tuple[int, int]:
    """What the ids of a stream's entries sort by: events, pieces of output."""
    ms, _, sequence = event_id.partition("-")
    return int(ms), int(sequence or 0)
