"""Raw figures of the server itself, as the reference: the machine is noisy, ratios are not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from load.figures import percentile
from taskflow_streams import Ending, How, NewJob, Pool, Store

PINGS = 2_000
ADDS = 50_000
BATCH = 500
BARE_JOBS = 20_000


@dataclass(frozen=True, slots=True)
class Raw:
    """What the server does without us."""

    ping_p50_ms: float
    xadds_per_s: float
    bare_submit_per_s: float
    bare_drain_per_s: float


async def measure(store: Store) -> Raw:
    """Round trips, pipelined XADDs, and our scripts driven by a bare loop with nobody else working."""
    redis: Any = store.redis
    ping_p50_ms = await ping(store)
    start = perf_counter()
    for _ in range(ADDS // BATCH):
        pipe = redis.pipeline(transaction=False)
        for _ in range(BATCH):
            pipe.xadd("load:raw", {"type": "x", "job": "0123456789abcdef0123456789abcdef0123"})
        await pipe.execute()
    xadds = ADDS / (perf_counter() - start)
    await redis.delete("load:raw")
    submit, drain = await _bare(store)
    return Raw(ping_p50_ms, xadds, submit, drain)


async def ping(store: Store) -> float:
    """Milliseconds of one round trip, p50."""
    trips = []
    for _ in range(PINGS):
        start = perf_counter()
        await store.ping()
        trips.append((perf_counter() - start) * 1000)
    return percentile(trips, 50)


async def _bare(store: Store) -> tuple[float, float]:
    """Submit and drain through the engine alone: a loop that leases and reports, without a worker around it."""
    partition, pool, worker = store.partitions[0], Pool(frozenset({"load.bare"})), "bare"
    jobs = [NewJob(id=store.new_id(), name="x", queue="bare", handler="load.bare") for _ in range(BARE_JOBS)]
    start = perf_counter()
    for at in range(0, BARE_JOBS, BATCH):
        await partition.jobs.submit(jobs[at : at + BATCH])
    submitted = perf_counter()
    await partition.workers.join(worker, pool, {"name": worker})
    leases = await partition.leases.lease(worker, pool, 200)
    while leases:
        endings = [Ending(lease.job_id, lease.fence, How.COMPLETED) for lease in leases]
        _, leases = await partition.leases.report(worker, endings, pool, 200)
    drained = perf_counter()
    await partition.workers.leave(worker)
    await asyncio.sleep(0)
    return BARE_JOBS / (submitted - start), BARE_JOBS / (drained - submitted)
