"""Delayed jobs, very many: how fast they are taken, what they cost while they wait, and how they are released.

Each figure stands beside the same without them: before they came, or of jobs that are not delayed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from load.figures import Spread
from load.idle import Cpu, idle
from load.latency import LATENCY_PER_S, releases, trickle
from load.stack import worker
from taskflow import AsyncClient, Submission
from taskflow_streams import Store

CHUNK = 100_000  # enqueued in one go
REFERENCE = 50_000  # not delayed; before, and as many after
SHORTEST_DELAY_S, DELAYS_S = 3600, 86_400  # far enough, and spread over a day
SLOTS = 20
LEAD_S = 5  # beyond the time that enqueueing takes
BARRIER_S = 600
PROMOTION_S = 600
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Waits:
    """What those who do not wait for anything notice."""

    cpu: Cpu  # of the scheduler
    start_ms: Spread  # submit to start, of an ordinary job
    late_ms: Spread  # due to start, of a delayed one


@dataclass(frozen=True, slots=True)
class Promotion:
    """Jobs that are due at one moment."""

    jobs: int
    per_s: float
    trip_ms: Spread  # a round trip to the server meanwhile


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured."""

    jobs: int
    enqueued_per_s: float
    last_chunk_per_s: float
    reference_per_s: float
    bytes_per_job: float
    reference_bytes_per_job: float
    before: Waits
    meanwhile: Waits
    promotion: Promotion


async def measure(url: str, client: AsyncClient, jobs: int, together: int, seconds: float) -> Figures:
    """With so many delayed jobs, then so many more that are due together; idle for so long."""
    async with worker(url, SLOTS):
        await client.result(await client.enqueue_named("load.stamp", {"sent_ns": 0}, queue="load"), 60)
        before = await waits(client, seconds)
        empty = await _memory(client.store)
        first_s = await enqueue(client, 0, REFERENCE, None)
        waiting = await _memory(client.store)
        times_s = [await enqueue(client, at, min(at + CHUNK, jobs), SHORTEST_DELAY_S) for at in range(0, jobs, CHUNK)]
        full = await _memory(client.store)
        last_s = await enqueue(client, 0, REFERENCE, None)
        await _settle(client.store)
        meanwhile = await waits(client, seconds)
        promotion = await promote(client, together, together / (jobs / sum(times_s)) + LEAD_S)
    return Figures(
        jobs,
        jobs / sum(times_s),
        ((jobs - 1) % CHUNK + 1) / times_s[-1],
        REFERENCE * 2 / (first_s + last_s),
        (full - waiting) / jobs,
        (waiting - empty) / REFERENCE,
        before,
        meanwhile,
        promotion,
    )


async def waits(client: AsyncClient, seconds: float) -> Waits:
    """As things are now."""
    cpu = await idle("scheduler", seconds)
    return Waits(cpu, Spread.of(await trickle(client)), Spread.of(await releases(client)))


async def enqueue(client: AsyncClient, first: int, end: int, delay_s: float | None) -> float:
    """Seconds that it takes to enqueue these; delayed ones in no order of their times."""
    start = perf_counter()
    await client.enqueue_many(
        Submission("load.nobody", queue="load", delay_s=None if delay_s is None else delay_s + i * 7919 % DELAYS_S)
        for i in range(first, end)
    )
    return perf_counter() - start


async def promote(client: AsyncClient, jobs: int, lead_s: float) -> Promotion:
    """Jobs per second that find their lanes, of those that become due at one moment, which is so far away."""
    redis: Any = client.store.redis
    delayed = client.store.partitions[0].keys("delayed")
    others = await redis.zcard(delayed)
    due_ms = await client.store.now_ms() + int(lead_s * 1000)
    due = datetime.fromtimestamp(due_ms / 1000, UTC)
    await client.enqueue_many(Submission("load.nobody", queue="load", scheduled_at=due) for _ in range(jobs))
    await _settle(client.store)
    left_s = (due_ms - await client.store.now_ms()) / 1000
    assert left_s > 0, "some were due before the last was enqueued"
    await asyncio.sleep(left_s)
    deadline, trips = perf_counter() + PROMOTION_S, []
    while perf_counter() < deadline:
        start = perf_counter()
        left = await redis.zcard(delayed) - others
        trips.append((perf_counter() - start) * 1000)
        if left <= 0:
            break
        await asyncio.sleep(POLL_S)
    else:
        raise TimeoutError(f"{jobs} jobs were not promoted within {PROMOTION_S} s")
    return Promotion(jobs, jobs * 1000 / (await client.store.now_ms() - due_ms), Spread.of(trips))


async def _memory(store: Store) -> int:
    """Bytes in use, when all is at rest."""
    await _settle(store)
    return (await store.memory())[0]


async def _settle(store: Store) -> None:
    """Wait for the projector, and for a rewrite of the append-only file."""
    await store.search.barrier(BARRIER_S)
    redis: Any = store.redis
    while (await redis.info("persistence"))["aof_rewrite_in_progress"]:  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.5)


def rows(figures: Figures) -> list[tuple[str, str, str]]:
    """As rows of the table."""
    before, meanwhile, many = figures.before, figures.meanwhile, figures.promotion
    return [
        (
            f"{figures.jobs:,} delayed jobs enqueued through the SDK",
            f"{figures.enqueued_per_s:,.0f}/s",
            f"{figures.enqueued_per_s / figures.reference_per_s:.0%} of jobs without delay, "
            f"{figures.reference_per_s:,.0f}/s; the last {CHUNK:,}: {figures.last_chunk_per_s:,.0f}/s",
        ),
        (
            "memory of a delayed job, with its event and indexes",
            f"{figures.bytes_per_job:,.0f} bytes",
            f"without delay: {figures.reference_bytes_per_job:,.0f} bytes",
        ),
        (
            "CPU seconds a minute while none is due: scheduler, Valkey",
            f"{meanwhile.cpu.service:.2f}, {meanwhile.cpu.valkey:.2f}",
            f"without them: {before.cpu.service:.2f}, {before.cpu.valkey:.2f}",
        ),
        (
            f"submit to start of an ordinary job meanwhile, at {LATENCY_PER_S}/s, p50 / p95 / p99 / max",
            str(meanwhile.start_ms),
            f"without them: {before.start_ms}",
        ),
        (
            f"due to start of delayed jobs meanwhile, at {LATENCY_PER_S}/s",
            str(meanwhile.late_ms),
            f"without them: {before.late_ms}",
        ),
        (
            f"{many.jobs:,} that are due at one moment, released",
            f"{many.per_s:,.0f}/s",
            f"{many.per_s / figures.reference_per_s:.0%} of the rate of enqueueing; a round trip meanwhile: "
            f"{many.trip_ms}",
        ),
    ]
