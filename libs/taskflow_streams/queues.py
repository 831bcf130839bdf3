"""Queues of one partition: their settings, depth and what is in flight."""

from __future__ import annotations

from dataclasses import dataclass

from taskflow_streams.connection import Client
from taskflow_streams.errors import translated
from taskflow_streams.keys import Keys
from taskflow_streams.scripts import Scripts


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """A queue now."""

    name: str
    waiting: int  # READY and due, for handlers that a live worker has
    running: int
    paused: bool
    max_concurrent: int | None
    weight: float
    reason: str | None


class Queues:
    """The queues of one partition."""

    def __init__(self, redis: Client, keys: Keys, scripts: Scripts) -> None:
        self._redis = redis
        self._keys = keys
        self._scripts = scripts

    async def names(self) -> list[str]:
        """All queues that ever had a job, sorted."""
        with translated():
            return sorted(name.decode() for name in await self._redis.smembers(self._keys("queues")))

    async def get(self, name: str) -> QueueRecord:
        """One queue as it is now; of an unknown name, an empty queue."""
        with translated():
            lanes = [lane.decode() for lane in await self._redis.smembers(self._keys("lanes", name))]
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.hgetall(self._keys("queue", name))
                pipe.xlen(self._keys("work", name))
                for lane in lanes:
                    pipe.zcard(self._keys("ready", f"{name}:{lane}"))
                raw, running, *depths = await pipe.execute()
        settings = {key.decode(): value.decode() for key, value in raw.items()}
        limit = settings.get("max_concurrent")
        return QueueRecord(
            name=name,
            waiting=sum(depths),
            running=running,
            paused=settings.get("paused") == "1",
            max_concurrent=int(limit) if limit else None,
            weight=float(settings.get("weight", 1)),
            reason=settings.get("reason"),
        )

    async def set(self, name: str, changes: dict[str, str | int | float], clear: tuple[str, ...] = ()) -> None:
        """Change settings (paused 1 or 0, max_concurrent, weight, reason); what was held back is offered again."""
        await self._scripts.run("set_queue", {"queue": name, "set": changes, "clear": list(clear)})
