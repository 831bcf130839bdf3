"""Who works: registration, heartbeats and the list of workers of one partition."""

from __future__ import annotations

from dataclasses import dataclass, field

from taskflow_streams.connection import Client
from taskflow_streams.errors import translated
from taskflow_streams.keys import Keys
from taskflow_streams.leases import Pool
from taskflow_streams.scripts import Scripts


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A worker as it last described itself."""

    id: str
    last_heartbeat_ms: int
    fields: dict[str, str] = field(default_factory=dict)


class Workers:
    """The workers of one partition."""

    def __init__(self, redis: Client, keys: Keys, scripts: Scripts) -> None:
        self._redis = redis
        self._keys = keys
        self._scripts = scripts

    async def join(self, worker: str, pool: Pool, fields: dict[str, str | int | float]) -> None:
        """Announce a worker and its handlers; jobs that were parked for want of one are offered.  Safe to repeat."""
        args = {
            "worker": worker,
            "pool": pool.id,
            "queues": pool.wants,
            "handlers": sorted(pool.handlers),
            "fields": [part for pair in fields.items() for part in pair],
        }
        await self._scripts.run("join", args)

    async def leave(self, worker: str) -> bool:
        """Take a worker that stops off the list; False if it still holds leases (it stays until they are reaped)."""
        reply = await self._scripts.run("leave", {"worker": worker, "forget": True})
        return bool(reply == b"left")

    async def bury(self, worker: str, seen_before_ms: int, *, forget: bool) -> str:
        """Treat a silent worker as dead unless it has spoken since: 'left', 'alive' or 'holding'."""
        args = {"worker": worker, "forget": forget, "unless_seen_since": seen_before_ms}
        word: bytes = await self._scripts.run("leave", args)
        return word.decode()

    async def silent_since(self, ms: int) -> list[tuple[str, int, bool]]:
        """Workers whose last heartbeat is older: id, that heartbeat, and whether they are buried already."""
        with translated():
            rows = await self._redis.zrangebyscore(self._keys("workers"), "-inf", ms, withscores=True)
            found = []
            for member, seen in rows:
                buried = await self._redis.hexists(self._keys("worker", member.decode()), "buried")
                found.append((member.decode(), int(seen), bool(buried)))
        return found

    async def list(self) -> list[WorkerRecord]:
        """All workers, also those offline that are not forgotten yet."""
        with translated():
            rows = await self._redis.zrange(self._keys("workers"), 0, -1, withscores=True)
            async with self._redis.pipeline(transaction=False) as pipe:
                for member, _ in rows:
                    pipe.hgetall(self._keys("worker", member.decode()))
                hashes = await pipe.execute()
        return [
            WorkerRecord(member.decode(), int(seen), {k.decode(): v.decode() for k, v in raw.items()})
            for (member, seen), raw in zip(rows, hashes, strict=True)
        ]

    async def get(self, worker: str) -> WorkerRecord | None:
        """One worker; None if it is unknown, or forgotten."""
        with translated():
            seen = await self._redis.zscore(self._keys("workers"), worker)
            raw = await self._redis.hgetall(self._keys("worker", worker)) if seen is not None else {}
        if seen is None:
            return None
        return WorkerRecord(worker, int(seen), {k.decode(): v.decode() for k, v in raw.items()})

    async def order(self, worker: str, what: str, status: str | None = None) -> None:
        """Put an order that concerns no single job into a worker's inbox: 'drain' or 'resume'.

        Its record says `status` from now on, until its next heartbeat says how it is.
        """
        args = {"worker": worker, "what": what}
        await self._scripts.run("order", args if status is None else args | {"status": status})

    async def able(self, handler: str) -> bool:
        """Whether a live worker has this handler; jobs for a handler nobody has are parked."""
        with translated():
            return bool(await self._redis.exists(self._keys("able", handler)))

    async def pools_with(self, handler: str) -> set[str]:
        """The pools whose live workers have this handler."""
        with translated():
            return {pool.decode() for pool in await self._redis.smembers(self._keys("able", handler))}
