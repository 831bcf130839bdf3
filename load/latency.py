"""How long jobs wait for their start, at a steady rate: ordinary ones, and delayed ones once they are due."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from time import perf_counter, time_ns

from taskflow import AsyncClient

LATENCY_JOBS = 2_000
LATENCY_PER_S = 200
SHORTEST_DELAY_S, LONGEST_DELAY_S = 1.0, 3.0
PATIENCE_S = 30
READ = 500  # records in one call


async def trickle(client: AsyncClient) -> list[float]:
    """Milliseconds from submit to start, one job at a time at a steady rate."""
    ids = [await client.enqueue_named("load.stamp", {"sent_ns": time_ns()}, queue="load") async for _ in _steadily()]
    return [(await client.result(job_id, PATIENCE_S)) / 1e6 for job_id in ids]


async def releases(client: AsyncClient) -> list[float]:
    """Milliseconds from due to start, by the server's clock, of jobs that are delayed by a few seconds each."""
    draw = Random(1)
    ids = []
    async for _ in _steadily():
        delay_s = draw.uniform(SHORTEST_DELAY_S, LONGEST_DELAY_S)
        ids.append((await client.enqueue_named("load.noop", queue="load", delay_s=delay_s)).id)
    await asyncio.sleep(LONGEST_DELAY_S)
    for job_id in ids:
        await client.wait(job_id, PATIENCE_S)
    late: list[float] = []
    for at in range(0, len(ids), READ):
        for record in await client.store.get(ids[at : at + READ]):
            assert record is not None
            assert record.started_ms is not None
            assert record.asked_ms is not None
            late.append(record.started_ms - record.asked_ms)
    return late


async def _steadily() -> AsyncIterator[None]:
    start = perf_counter()
    for number in range(LATENCY_JOBS):
        yield
        await asyncio.sleep(max(0.0, start + (number + 1) / LATENCY_PER_S - perf_counter()))
