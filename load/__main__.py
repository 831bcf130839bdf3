"""`python -m load`: enqueue, drain and latency, with all services running, beside raw figures of the same run."""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import asdict, dataclass
from time import perf_counter

from load import raw
from load.cpu import Meter, per_job
from load.figures import percentile, table
from load.latency import LATENCY_PER_S, trickle
from load.stack import stack, worker
from taskflow import AsyncClient, Submission
from taskflow_streams import Store

DRAIN_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured."""

    jobs: int
    enqueued_per_s: float
    drained_per_s: float
    bytes_per_waiting_job: float
    latency_p50_ms: float
    latency_p95_ms: float
    latency_p99_ms: float
    enqueue_cpu: str
    drain_cpu: str
    raw: raw.Raw


async def run(jobs: int, concurrency: int) -> Figures:
    """One whole measurement."""
    async with stack() as url, await AsyncClient.connect(url) as client:
        reference = await raw.measure(client.store)
        await client.store.search.barrier(60)
        meter = Meter()
        enqueued, waiting_bytes = await enqueue(client, jobs)
        await client.store.search.barrier(60)
        enqueue_cpu = per_job(meter.read(), jobs)
        tip = await client.store.partitions[0].history.tip()
        async with worker(url, concurrency):
            drained = await drain(client.store, jobs, tip)
            drain_cpu = per_job(meter.read(), jobs)
            latencies = await trickle(client)
    return Figures(
        jobs,
        enqueued,
        drained,
        waiting_bytes,
        percentile(latencies, 50),
        percentile(latencies, 95),
        percentile(latencies, 99),
        enqueue_cpu,
        drain_cpu,
        reference,
    )


async def enqueue(client: AsyncClient, jobs: int) -> tuple[float, float]:
    """Jobs per second through the SDK in batches, and the memory each takes while it waits."""
    before, _ = await client.store.memory()
    start = perf_counter()
    await client.enqueue_many(Submission("load.noop", queue="load") for _ in range(jobs))
    seconds = perf_counter() - start
    after, _ = await client.store.memory()
    return jobs / seconds, (after - before) / jobs


async def drain(store: Store, jobs: int, before: str) -> float:
    """Jobs per second from the first start after the event `before` to the last completion, by the server's clock."""
    history, projection = store.partitions[0].history, store.partitions[0].projection
    deadline = perf_counter() + DRAIN_SECONDS
    while (await projection.totals()).get("job.completed:load", 0) < jobs:
        if perf_counter() > deadline:
            raise TimeoutError(f"{jobs} jobs were not drained within {DRAIN_SECONDS} s")
        await asyncio.sleep(0.25)
    [first] = await history.after(before, 1)
    [last] = await history.pick([await history.tip()])
    assert (first.type, last.type) == ("job.started", "job.completed"), "something else was at work"
    return jobs * 1000 / (last.at_ms - first.at_ms)


def report(figures: Figures) -> str:
    """The figures as a table, each beside its reference."""
    reference = figures.raw
    return table(
        [
            (
                "enqueued through the SDK, batches of 500",
                f"{figures.enqueued_per_s:,.0f}/s",
                f"{figures.enqueued_per_s / reference.bare_submit_per_s:.0%} of the bare engine's "
                f"{reference.bare_submit_per_s:,.0f}/s; pipelined XADD: {reference.xadds_per_s:,.0f}/s. "
                f"{figures.enqueue_cpu}",
            ),
            (
                "drained by one worker process",
                f"{figures.drained_per_s:,.0f}/s",
                f"{figures.drained_per_s / reference.bare_drain_per_s:.0%} of the bare engine's "
                f"{reference.bare_drain_per_s:,.0f}/s. {figures.drain_cpu}",
            ),
            (
                f"submit to start at {LATENCY_PER_S}/s, p50 / p95 / p99",
                f"{figures.latency_p50_ms:.1f} / {figures.latency_p95_ms:.1f} / {figures.latency_p99_ms:.1f} ms",
                f"one PING: {reference.ping_p50_ms:.2f} ms",
            ),
            ("memory of a waiting job, with its event and indexes", f"{figures.bytes_per_waiting_job:,.0f} bytes", ""),
        ]
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="./dev bench", description="Measure TaskFlow on this machine.")
    parser.add_argument("--jobs", type=int, default=100_000, help="no-op jobs to enqueue and drain (100,000)")
    parser.add_argument("--concurrency", type=int, default=200, help="slots of the one worker (200)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    figures = asyncio.run(run(options.jobs, options.concurrency))
    print(json.dumps(asdict(figures), indent=2) if options.json else report(figures))


if __name__ == "__main__":
    main()
