"""How jobs are indexed for search: the projector writes it, search reads it.

A job stands in one sorted set per scope (all jobs, its queue, its owner), chosen by its status and priority: a
filter on any of them picks sets, and never walks over jobs that do not match.  The score is -created_ms, so
ascending is `created_at DESC, id ASC`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from taskflow_domain import priority_of_order
from taskflow_streams.connection import Client
from taskflow_streams.errors import translated
from taskflow_streams.keys import Keys
from taskflow_streams.scripts import Scripts

ALL = "*"
LEASE_MS = 5_000  # a projector that is silent for so long is replaced


def scopes_of(queue: str, owner: str) -> list[str]:
    """The scopes a job belongs to."""
    return [ALL, queue_scope(queue), owner_scope(owner)] if owner else [ALL, queue_scope(queue)]


def queue_scope(queue: str) -> str:
    """The scope of a queue."""
    return f"q={queue}"


def owner_scope(owner: str) -> str:
    """The scope of an owner."""
    return f"o={owner}"


def index_name(scope: str, status: str, priority: int) -> str:
    """The sorted set for one scope, status and S1 priority."""
    return f"{scope}:{status}:{priority}"


@lru_cache(maxsize=4096)
def positions(status: str, queue: str, order: int, owner: str) -> tuple[str, ...]:
    """The sorted sets a job stands in; none for a job that does not exist."""
    if not status:
        return ()
    priority = priority_of_order(order)
    return tuple(index_name(scope, status, priority) for scope in scopes_of(queue, owner))


class Projection:
    """The projector's hold on one partition's indexes."""

    def __init__(self, redis: Client, keys: Keys, scripts: Scripts) -> None:
        self._redis = redis
        self._keys = keys
        self._scripts = scripts

    async def position(self) -> str:
        """The id of the last event applied."""
        with translated():
            projected: bytes | None = await self._redis.get(self._keys("projected"))
        return projected.decode() if projected else "0-0"

    async def hold(self, owner: str) -> bool:
        """Be the active projector, or stand by.  It only spares work: `apply` is safe with any number."""
        return bool(await self._scripts.run("hold", {"owner": owner, "lease_ms": LEASE_MS}))

    async def apply(self, expected: str, new: str, changes: dict[str, Any]) -> str:
        """Write the changes if `expected` is still the position; the position afterwards."""
        reply = await self._scripts.run("apply", {"expected": expected, "new": new, **changes})
        position: bytes = reply[1]
        return position.decode()

    async def totals(self) -> dict[str, int]:
        """Events counted since the beginning, by type and by type and queue."""
        with translated():
            rows = await self._redis.hgetall(self._keys("totals"))
        return {name.decode(): int(count) for name, count in rows.items()}
