"""The graph stream of one partition: endings that somebody waits for, subscriptions across partitions, new due
times.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ResponseError

from taskflow_streams.connection import Client
from taskflow_streams.errors import translated
from taskflow_streams.keys import Keys
from taskflow_streams.leases import BATCH
from taskflow_streams.scripts import Scripts

GROUP = "scheduler"
GONE = ("NOGROUP", "UNBLOCKED")  # what the server says when the stream, or all data, were deleted


@dataclass(frozen=True, slots=True)
class Message:
    """One message: 'ended' (job), 'subscribe' or 'erased' (job, dependency), 'run' (job, schedule), 'due'."""

    id: str
    type: str
    job: str = ""
    dependency: str = ""
    schedule: str = ""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What an ending moved, how many still wait here, and who waits in other partitions."""

    moved: int
    left: int
    elsewhere: tuple[str, ...]


class Graph:
    """The dependencies of one partition."""

    def __init__(self, redis: Client, blocking: Client, keys: Keys, scripts: Scripts) -> None:
        self._redis = redis
        self._blocking = blocking
        self._keys = keys
        self._scripts = scripts
        self._version = 0

    async def prepare(self, version: int) -> None:
        """Make the stream and its group, if they are not there."""
        self._version = version
        await self._scripts.run("prepare", {"version": version, "group": GROUP})

    async def read(self, consumer: str, block_ms: int, count: int = 100) -> list[Message]:
        """New messages, waiting up to `block_ms` for the first."""
        reply = await self._or_anew(
            self._blocking.xreadgroup(GROUP, consumer, {self._keys("graph"): ">"}, count=count, block=max(1, block_ms))
        )
        return [_read(entry, fields) for _, entries in reply or [] for entry, fields in entries]

    async def take_over(self, consumer: str, idle_ms: int, count: int = 100) -> list[Message]:
        """Messages that another scheduler (or this one, before it died) took and did not finish."""
        reply = await self._or_anew(
            self._redis.xautoclaim(
                self._keys("graph"), GROUP, consumer, min_idle_time=idle_ms, start_id="0-0", count=count
            )
        )
        return [_read(entry, fields) for entry, fields in reply[1] if fields] if reply else []

    async def _or_anew(self, call: Awaitable[Any]) -> Any:
        """The reply; None if the group was not there, and is now."""
        with translated():
            try:
                return await call
            except ResponseError as error:
                if not str(error).startswith(GONE):
                    raise
        await self.prepare(self._version)
        return None

    async def done(self, messages: Sequence[Message]) -> None:
        """Acknowledge and remove messages whose effect is written.

        Removed first: if that is all that arrives, taking over drops what is pending and gone.
        """
        if not messages:
            return
        ids = [message.id for message in messages]
        with translated():
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.xdel(self._keys("graph"), *ids)
                pipe.xack(self._keys("graph"), GROUP, *ids)
                await pipe.execute()

    async def retire_consumers(self, idle_ms: int) -> int:
        """Forget schedulers that are gone and hold no message; how many."""
        return int(await self._scripts.run("dismiss", {"group": GROUP, "idle_ms": idle_ms}))

    async def resolve(self, dependency: str, limit: int = BATCH) -> Resolution:
        """Move the jobs that wait here for a job of this partition that has ended."""
        return (await self.resolve_all([dependency], limit))[0]

    async def resolve_all(self, dependencies: Sequence[str], limit: int = BATCH) -> list[Resolution]:
        """The same for several that have ended, in one call."""
        replies = await self._scripts.run("resolve", {"dependencies": list(dependencies), "limit": limit})
        return [
            Resolution(int(moved), int(left), tuple(job.decode() for job in elsewhere))
            for moved, left, elsewhere in replies
        ]

    async def resolve_far(self, dependency: str, state: str, jobs: Sequence[str]) -> int:
        """Tell jobs of this partition how a dependency in another one ended; how many moved."""
        args = {"dependencies": [dependency], "state": state, "jobs": list(jobs)}
        return int((await self._scripts.run("resolve", args))[0][0])

    async def watch(self, dependency: str, job: str) -> str:
        """Note that a job of another partition waits for one of this; its state, or 'MISSING'."""
        state: bytes = await self._scripts.run("watch", {"dependency": dependency, "job": job})
        return state.decode()

    async def needs(self, job: str, dependency: str) -> bool:
        """Whether a job of this partition exists and (still) names that dependency."""
        with translated():
            return bool(await self._redis.sismember(self._keys("needs", job), dependency))

    async def forget(self, dependency: str, jobs: Sequence[str], *, erased: bool = False) -> None:
        """Jobs of other partitions have been told, or (erased) do not exist any more."""
        await self._scripts.run("forget", {"dependency": dependency, "jobs": list(jobs), "erased": erased})


def _read(entry: bytes, fields: dict[bytes, bytes]) -> Message:
    text = {name.decode(): value.decode() for name, value in fields.items()}
    return Message(
        entry.decode(), text["type"], text.get("job", ""), text.get("dependency", ""), text.get("schedule", "")
    )
