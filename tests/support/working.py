"""The words of the worker's tests: a worker at work, jobs for it, and waiting for what must come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from taskflow import Registry
from taskflow_domain import TERMINAL, RetryPolicy
from taskflow_streams import JobRecord, NewJob, Store
from taskflow_streams.embedded import EmbeddedServer
from taskflow_worker.worker import Worker
from tests.support.engine import record

QUEUE = "q"
ONCE = RetryPolicy(max_attempts=1)
PATIENCE_S = 20.0
NEVER_S = 20.0  # a heartbeat that no test lives to see


@dataclass(slots=True)
class Hired:
    """A worker at work."""

    worker: Worker
    stopping: asyncio.Event
    life: asyncio.Task[None]

    async def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        self.stopping.set()
        await asyncio.wait_for(self.life, PATIENCE_S)

    async def cut_short(self) -> None:
        """Its grace is over."""
        self.stopping.set()
        self.life.cancel()
        await asyncio.wait([self.life], timeout=PATIENCE_S)
        assert self.life.done(), "the worker did not end"


@asynccontextmanager
async def hired(store: Store, server: EmbeddedServer, registry: Registry, **options: Any) -> AsyncIterator[Hired]:
    """A worker with these tasks; stopped at the end unless it has stopped already."""
    namespace = store.partitions[0].keys.prefix.partition(":")[0]

    async def connect() -> Store:
        return await Store.connect(server.url, namespace=namespace)

    worker = Worker(store, connect, registry.tasks, **{"heartbeat_s": NEVER_S, "wait_s": NEVER_S, **options})
    stopping = asyncio.Event()
    life = asyncio.create_task(worker.run(stopping))
    one = Hired(worker, stopping, life)
    try:
        yield one
    except BaseException:
        await one.cut_short()
        raise
    if not life.done():
        await one.stop()


def a_job_for(store: Store, task: str, **fields: Any) -> NewJob:
    """A job that this task shall run."""
    made = {"name": task, "queue": QUEUE, "handler": task, "retry": ONCE, **fields}
    return NewJob(id=store.new_id(), **made)


async def submitted(store: Store, task: str, **fields: Any) -> str:
    """The same, submitted; its id."""
    job = a_job_for(store, task, **fields)
    await store.submit([job])
    return job.id


async def until(condition: Callable[[], Awaitable[object]], what: str, within_s: float = PATIENCE_S) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + within_s
    while not await condition():
        assert time.monotonic() < deadline, f"{what}: not within {within_s:g} s"
        await asyncio.sleep(0.01)


async def happened(event: asyncio.Event, what: str) -> None:
    """Wait for an event that must come."""
    try:
        await asyncio.wait_for(event.wait(), PATIENCE_S)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {PATIENCE_S:g} s") from None


async def ended(store: Store, job_id: str, within_s: float = PATIENCE_S) -> JobRecord:
    """The job, once it has ended."""

    async def has_ended() -> bool:
        return (await record(store, job_id)).status in TERMINAL

    await until(has_ended, f"the end of job {job_id}", within_s)
    return await record(store, job_id)


async def idle_ms(store: Store, job_id: str) -> int:
    """For how long the lease of a running job was not renewed."""
    home = store.partition(job_id)
    assert home is not None
    entry = await home.redis.hget(home.keys("job", job_id), "entry")
    [pending] = await home.redis.xpending_range(home.keys("work", QUEUE), "workers", entry, entry, 1)
    return int(pending["time_since_delivered"])


async def age(store: Store, job_id: str, seconds: float) -> None:
    """Make the lease of a running job look as if it had not been renewed for so long."""
    home = store.partition(job_id)
    assert home is not None
    entry, worker = await home.redis.hmget(home.keys("job", job_id), "entry", "worker")
    work = home.keys("work", QUEUE)
    await home.redis.xclaim(work, "workers", worker, 0, [entry], idle=int(seconds * 1000), justid=True)


async def lose(store: Store, job_id: str) -> None:
    """Take the lease of a running job away, as a reaper does that has not heard of its worker."""
    home = store.partition(job_id)
    assert home is not None

    async def reaped() -> bool:  # a heartbeat may come in between
        await age(store, job_id, 100)
        return (await home.upkeep.reap(QUEUE, visibility_ms=15_000))[0] == 1

    await until(reaped, "the lease's loss")
