"""Connections to the server: explicit time-outs, no silent retries, and a check that the server is fit.

The client's own retries are off, for it cannot know what is safe to repeat.  A blocking read gets a connection
of its own.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from taskflow_streams.errors import Unfit, translated

Client: TypeAlias = Any  # redis.asyncio.Redis; its annotations mix bytes with str, so we type what our methods return

COMMAND_SECONDS = 5.0  # a script of a full batch takes some 20 ms; beyond this the server is as good as away
CONNECT_SECONDS = 5.0
REDIS_FLOOR = (7, 0)
VALKEY_FLOOR = (7, 2)


def client(url: str, *, blocking_seconds: float = 0.0, max_connections: int = 64) -> Client:
    """A client for `url`; one that blocks gets the longest block on top of its time-out.

    Who finds all connections in use waits for one: a burst is served a little later, not refused.
    """
    pool = BlockingConnectionPool.from_url(
        url,
        protocol=2,
        decode_responses=False,
        socket_timeout=COMMAND_SECONDS + blocking_seconds,
        socket_connect_timeout=CONNECT_SECONDS,
        **({} if url.startswith("unix") else {"socket_keepalive": True}),
        retry=Retry(NoBackoff(), 0),
        retry_on_error=[],
        max_connections=max_connections,
        timeout=COMMAND_SECONDS,
    )
    return Redis.from_pool(pool)


async def check_fitness(redis: Client) -> None:
    """Raise Unfit unless the server is recent enough and never evicts."""
    with translated():
        server: dict[str, Any] = await redis.info("server")
        memory: dict[str, Any] = await redis.info("memory")
    if "valkey_version" in server:
        name, version, floor = "Valkey", str(server["valkey_version"]), VALKEY_FLOOR
    else:
        name, version, floor = "Redis", str(server.get("redis_version", "0")), REDIS_FLOOR
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found < floor:
        raise Unfit(
            f"{name} {version} is too old: TaskFlow needs Redis 7.0 or Valkey 7.2, or later. "
            "Upgrade the server, or start `taskflow up` without a Redis URL to use the embedded one."
        )
    policy = str(memory.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        raise Unfit(
            f"the server's maxmemory-policy is {policy}, which could silently drop jobs. "
            "Set it to noeviction (CONFIG SET maxmemory-policy noeviction) and start again."
        )
