"""Tasks for workers that are processes of their own."""

import asyncio
import fcntl
import os
import signal
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from taskflow import Fatal, current, task


@task(isolation="thread")
def decide(seed: int) -> dict[str, object]:
    """Succeed, fail or give up, as the seed, the job's name and the number of the attempt have it."""
    me = current()
    fate = sha256(f"{seed}:{me.name}:{me.attempt}".encode()).digest()
    if fate[0] < 100:
        raise RuntimeError(f"{me.name} fails with {fate[1]}")
    if fate[0] < 120:
        raise Fatal(f"{me.name} gives up with {fate[1]}")
    return {"name": me.name, "attempt": me.attempt, "number": fate[1]}


@task
async def block(seconds: float) -> str:
    """Keep the whole event loop from running."""
    time.sleep(seconds)  # noqa: ASYNC251 - which is the point
    return "done"


@task(isolation="thread")
def grind(seconds: float) -> str:
    """Compute for so long, and let no other thread have its turn, as some libraries do that are written in C."""
    usual, until = sys.getswitchinterval(), time.monotonic() + seconds
    sys.setswitchinterval(3600)
    try:
        while time.monotonic() < until:
            sum(range(1000))
    finally:
        sys.setswitchinterval(usual)
    return "done"


@task(isolation="thread")
def poison() -> None:
    """Take the worker along."""
    os.kill(os.getpid(), signal.SIGKILL)


@task
async def fell(how: str) -> None:
    """End what all jobs of the worker stand on."""

    async def leave() -> None:
        raise SystemExit(3)

    if how == "exit":
        await asyncio.create_task(leave())
    for each in asyncio.all_tasks():
        each.cancel()
    await asyncio.sleep(3600)


@task
def occupy(folder: str, places: int, seconds: float) -> int:
    """Take one of the places for so long.  The kernel frees those of the dead; who finds none gives up."""
    for place in range(places):
        file = Path(folder, str(place)).open("wb")  # noqa: SIM115 - held until the end
        if _locked(file):
            time.sleep(seconds)
            file.close()
            return place
        file.close()
    raise Fatal(f"all {places} places are taken")


@task
def mark(folder: str) -> None:
    """Leave a mark for each run."""
    me = current()
    Path(folder, f"{me.job_id}.{me.fence}").touch()


def _locked(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
