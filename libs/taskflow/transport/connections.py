"""Connections to the api: some for questions, others for those who wait, so that these never keep those waiting."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

import httpx

QUESTIONS: Final = 100  # at the same time; they are answered within milliseconds
WAITS: Final = 400  # at the same time; most systems give a program 1,024 open files
WAIT_S: Final = 20.0  # of one request that waits for a job
CROWDED_S: Final = 1.0  # the same while there are more who wait than connections: everybody has a turn soon
TIMEOUT_S: Final = 30.0
CONNECT_S: Final = 5.0
LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Connections:
    """To one api; `http` is used for everything if it is given."""

    def __init__(self, url: str, token: str | None, http: httpx.AsyncClient | None = None) -> None:
        self.questions = http or _connections(url, token, QUESTIONS)
        self.waits = http or _connections(url, token, None)  # `turn` counts those who wait; streams are kept
        self._room = asyncio.Semaphore(WAITS)
        self._waiting = 0

    async def close(self) -> None:
        """Close them all."""
        await self.questions.aclose()
        await self.waits.aclose()

    @asynccontextmanager
    async def turn(self, deadline: float) -> AsyncIterator[float]:
        """Wait for a connection to wait on; for how long to use it.  At the deadline there is always one."""
        self._waiting += 1
        try:
            got = await self._enter(deadline)
            try:
                yield max(0.0, min(CROWDED_S if self._waiting > WAITS else WAIT_S, deadline - monotonic()))
            finally:
                if got:
                    self._room.release()
        finally:
            self._waiting -= 1

    async def _enter(self, deadline: float) -> bool:
        try:
            async with asyncio.timeout(None if deadline == inf else deadline - monotonic()):
                return await self._room.acquire()
        except TimeoutError:
            return False


def _connections(url: str, token: str | None, most: int | None) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {token}"} if token else {},
        timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_S),
        limits=httpx.Limits(max_connections=most, max_keepalive_connections=QUESTIONS),
        trust_env=urlsplit(url).hostname not in LOCAL,  # no proxy leads to this machine
    )
