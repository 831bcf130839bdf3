"""The api as a process: it starts without its broker, refuses an open door, and stops when told."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from taskflow_streams.embedded import EmbeddedServer
from tests.integration.api.door import JOBS, refused

DEADLINE_S = 30.0  # for anything; a busy machine takes seconds to load Python
JOB = {"name": "a", "queue": "q"}


def environment(**settings: str) -> dict[str, str]:
    """The settings of one process, and nothing of what surrounds the tests."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("TASKFLOW_")}
    return bare | {"TASKFLOW_PORT": "0"} | {f"TASKFLOW_{name.upper()}": value for name, value in settings.items()}


async def start(folder: Path, **settings: str) -> Process:
    """A process of the api, in a folder that holds no settings."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "taskflow_api.main", cwd=folder, env=environment(**settings), stdout=PIPE, stderr=PIPE
    )


@asynccontextmanager
async def running(folder: Path, **settings: str) -> AsyncIterator[tuple[Process, httpx.AsyncClient]]:
    """The api, and a client that knows where it listens."""
    process = await start(folder, **settings)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            line = json.loads(await process.stdout.readline())
        assert line["event"] == "service.starting", line
        async with httpx.AsyncClient(base_url=line["url"], timeout=DEADLINE_S) as client:
            yield process, client
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until something is so."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not await condition():  # noqa: ASYNC110 - it is another process; there is nothing to wait on
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"{what} within {DEADLINE_S:g} s")


async def test_the_api_starts_before_its_broker(tmp_path: Path) -> None:
    """Alive at once, 503 with Retry-After for everything else, whatever the method; then it works by itself."""
    broker = EmbeddedServer(tmp_path / "broker")
    async with running(tmp_path, redis_url=broker.url) as (_, client):
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 503
        for response in (await client.get(JOBS), await client.post(JOBS, json=JOB), await client.delete(f"{JOBS}/x")):
            refused(response, 503, "UNAVAILABLE")
            assert int(response.headers["retry-after"]) >= 1

        with broker:

            async def ready() -> bool:
                return (await client.get("/readyz")).status_code == 200

            await until(ready, "The api was not ready")
            assert (await client.post(JOBS, json=JOB)).status_code == 201


async def test_the_api_stops_when_told(tmp_path: Path, server: EmbeddedServer) -> None:
    """SIGTERM, and it ends with status 0."""
    async with running(tmp_path, redis_url=server.url, namespace="stops") as (process, client):

        async def ready() -> bool:
            return (await client.get("/readyz")).status_code == 200

        await until(ready, "The api was not ready")
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(DEADLINE_S):
            await process.communicate()
        assert process.returncode == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
async def test_an_open_door_is_refused(tmp_path: Path, host: str) -> None:
    """One sentence that names the ways out, and a status other than 0."""
    process = await start(tmp_path, host=host)
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate()

    assert (process.returncode, out) == (2, b"")
    assert err.decode().count("\n") == 1
    for word in (host, "TASKFLOW_API_TOKEN", "--insecure"):
        assert word in err.decode()


@pytest.mark.parametrize("settings", [{"insecure": "true"}, {"api_token": "s3cret"}])
async def test_an_open_door_is_fine_with_a_token_or_on_demand(
    tmp_path: Path, server: EmbeddedServer, settings: dict[str, str]
) -> None:
    """Then it listens where it was told."""
    async with running(tmp_path, host="0.0.0.0", redis_url=server.url, **settings) as (_, client):
        assert (await client.get(client.base_url.copy_with(host="127.0.0.1", path="/healthz"))).status_code == 200
