"""A whole TaskFlow to measure: `taskflow up` without workers on a throw-away directory, and workers beside it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

READY_SECONDS = 60


@asynccontextmanager
async def stack(folder: str | None = None) -> AsyncIterator[str]:
    """All services and an embedded Valkey with its append-only file; yields the server's URL."""
    with tempfile.TemporaryDirectory(prefix="tf-load-", dir=folder) as data_dir:
        command = [sys.executable, "-m", "taskflow", "up", "--data-dir", data_dir, "--port", "0", "--workers", "0"]
        async with process(command):
            state = Path(data_dir) / "up.json"
            for _ in range(READY_SECONDS * 10):
                found = json.loads(state.read_text()) if state.exists() else {}
                if found.get("ready"):
                    break
                await asyncio.sleep(0.1)
            else:
                raise TimeoutError(f"taskflow up was not ready within {READY_SECONDS} s")
            yield str(found["redis_url"])


@asynccontextmanager
async def worker(redis_url: str, concurrency: int) -> AsyncIterator[int]:
    """One worker process with the harness's handlers; yields its pid."""
    command = [sys.executable, "-m", "taskflow", "worker", "load.tasks", "--redis-url", redis_url]
    async with process([*command, "--concurrency", str(concurrency)]) as pid:
        yield pid


@asynccontextmanager
async def process(command: list[str]) -> AsyncIterator[int]:
    """A child process that is stopped, politely and then not, when the block ends."""
    root = str(Path(__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    child = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, env=env
    )
    try:
        yield child.pid
    finally:
        if child.returncode is None:
            child.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(child.wait(), 30)
            except TimeoutError:
                child.kill()
                await child.wait()
