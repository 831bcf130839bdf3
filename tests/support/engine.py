"""The words of the engine's tests: a job, a worker, a lease that stalls, a scheduler that has caught up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from taskflow_domain import JobStatus
from taskflow_scheduler.resolve import Resolver
from taskflow_streams import (
    Ending,
    Event,
    Failure,
    How,
    JobRecord,
    Lease,
    NewJob,
    Partition,
    Pool,
    Renewed,
    Reported,
    Store,
    Submitted,
    Token,
)

QUEUE = "q"
HANDLER = "work"
POOL = Pool(frozenset({HANDLER}))
START_MS = 1_767_225_600_000  # 2026-01-01, where a test's own clock begins
VISIBILITY_MS = 15_000


@dataclass(slots=True)
class Clock:
    """The time the scripts see.  The idle time of a lease is not its business: see `stall`."""

    store: Store
    now_ms: int = START_MS

    def __post_init__(self) -> None:
        self.forward(0)

    def forward(self, seconds: float) -> int:
        """Let time pass (or, with a negative number, set the clock back); the time afterwards."""
        return self.at(self.now_ms + int(seconds * 1000))

    def at(self, now_ms: int) -> int:
        """Let it be this time."""
        self.now_ms = now_ms
        for scripts in (self.store._scripts, *(partition.scripts for partition in self.store.partitions)):
            scripts.now_ms = now_ms
        return now_ms


@dataclass(frozen=True, slots=True)
class Held:
    """A lease, and whose it is."""

    worker: str
    lease: Lease

    @property
    def job_id(self) -> str:
        """The job."""
        return self.lease.job_id

    @property
    def token(self) -> Token:
        """What the worker shows when it speaks of the job."""
        return self.lease.job_id, self.lease.fence


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker played by hand."""

    partition: Partition
    name: str = "w1"
    pool: Pool = field(default=POOL)

    async def join(self) -> Worker:
        """Announce it."""
        await self.partition.workers.join(self.name, self.pool, {"name": self.name, "slots": 4})
        return self

    async def lease(self, want: int = 1) -> list[Held]:
        """Take up to `want` jobs."""
        return [Held(self.name, lease) for lease in await self.partition.leases.lease(self.name, self.pool, want)]

    async def take(self) -> Held:
        """Take one job; there must be one."""
        [held] = await self.lease(1)
        return held

    async def report(self, held: Held, how: How, **more: Any) -> Reported:
        """Tell how one attempt ended."""
        ending = Ending(held.job_id, held.lease.fence, how, **more)
        [word], _ = await self.partition.leases.report(self.name, [ending])
        return word

    async def complete(self, held: Held, value: bytes = b"null") -> Reported:
        """It went well."""
        return await self.report(held, How.COMPLETED, value=value)

    async def fail(self, held: Held, message: str = "no luck", delay_ms: int | None = None) -> Reported:
        """It failed, and may be tried again."""
        return await self.report(held, How.FAILED, failure=Failure("Oops", message), delay_ms=delay_ms)

    async def release(self, held: Held) -> Reported:
        """Give it back."""
        return await self.report(held, How.RELEASED)

    async def renew(self, *held: Held) -> list[Renewed]:
        """Send a heartbeat for these leases."""
        words, _ = await self.partition.leases.renew(self.name, [one.token for one in held])
        return words

    async def hears_bell(self) -> bool:
        """Whether the pool's bell rings; hearing it stops it."""
        popped = await self.partition.redis.zpopmin(self.partition.keys("bell", self.pool.id))
        return bool(popped)


def new_job(store: Store, **fields: Any) -> NewJob:
    """A job to submit, with an id of its own in the partition of its first dependency."""
    made = {"name": HANDLER, "queue": QUEUE, "handler": HANDLER, **fields}
    return NewJob(id=made.pop("id", "") or store.new_id(fields.get("dependencies", ())), **made)


async def a_job(store: Store, **fields: Any) -> str:
    """A job that was just submitted."""
    job = new_job(store, **fields)
    assert await store.submit([job]) == [Submitted.CREATED]
    return job.id


async def a_worker(store: Store, name: str = "w1", pool: Pool = POOL, partition: int = 0) -> Worker:
    """A worker that has joined."""
    return await Worker(store.partitions[partition], name, pool).join()


async def a_running_job(store: Store, worker: str = "w1", **fields: Any) -> Held:
    """A job held by a worker that has joined.  Nothing else may be there to lease."""
    job_id = await a_job(store, **fields)
    handler, home = fields.get("handler", HANDLER), store.partition(job_id)
    assert home is not None
    held = await (await a_worker(store, worker, Pool(frozenset({handler})), home.index)).take()
    assert held.job_id == job_id
    return held


async def an_ended_job(store: Store, status: JobStatus = JobStatus.COMPLETED, **fields: Any) -> str:
    """A job that has run and ended so, or was cancelled."""
    if status is JobStatus.CANCELED:
        job_id = await a_job(store, **fields)
        await store.cancel(job_id)
        return job_id
    held = await a_running_job(store, **fields)
    home = store.partition(held.job_id)
    assert home is not None
    how = How.COMPLETED if status is JobStatus.COMPLETED else How.FATAL
    failure = Failure("Oops", "no luck") if how is How.FATAL else None
    assert await Worker(home, held.worker).report(held, how, failure=failure) is Reported.OK
    return held.job_id


async def record(store: Store, job_id: str) -> JobRecord:
    """The record of a job that exists."""
    [found] = await store.get([job_id])
    assert found is not None, f"{job_id} does not exist"
    return found


async def status(store: Store, job_id: str) -> JobStatus | None:
    """Where a job stands; None if it does not exist."""
    [found] = await store.get([job_id])
    return found.status if found else None


async def statuses(store: Store, job_ids: list[str]) -> list[str]:
    """Where several jobs stand."""
    return [found.status.value if found else "MISSING" for found in await store.get(job_ids)]


async def history(store: Store, job_id: str) -> list[Event]:
    """What happened to a job, in order."""
    home = store.partition(job_id)
    assert home is not None
    return [event for event in await home.history.after("0-0", 1_000_000) if event.job_id == job_id]


async def stall(store: Store, held: Held, seconds: float = VISIBILITY_MS / 1000) -> None:
    """Age a lease as if its worker had been silent for so long.  Nobody waits."""
    home = store.partition(held.job_id)
    assert home is not None
    work = home.keys("work", held.lease.queue)
    entry = await home.redis.hget(home.keys("job", held.job_id), "entry")
    idle_ms = int(seconds * 1000)
    await home.redis.xclaim(work, "workers", held.worker, 0, [entry], idle=idle_ms, justid=True)


async def reap(store: Store, *queues: str, visibility_ms: int = VISIBILITY_MS) -> tuple[int, int]:
    """One pass of a reaper over these queues (default: the one of the tests) of the first partition."""
    return await store.partitions[0].upkeep.reap(*(queues or (QUEUE,)), visibility_ms=visibility_ms)


async def messages(store: Store, partition: int = 0) -> list[tuple[str, str]]:
    """What is in the graph stream, unread: (type, job)."""
    home = store.partitions[partition]
    rows = await home.redis.xrange(home.keys("graph"))
    return [(fields[b"type"].decode(), fields.get(b"job", b"").decode()) for _, fields in rows]


async def settle(store: Store) -> int:
    """Let the schedulers of all partitions work until nothing is left for them; how many jobs moved."""
    moved, idle = 0, 0
    while idle < len(store.partitions):
        for partition in store.partitions:
            unread = []
            if await partition.redis.xlen(partition.keys("graph")):  # else the read would wait
                unread = await partition.graph.read("scheduler", block_ms=1, count=1000)
            moved += (await Resolver(store, partition).handle(unread)).moved
            idle = 0 if unread else idle + 1
    return moved
