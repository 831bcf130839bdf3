"""`python -m load.shell`: shell jobs with 10 workers, beside the bare spawn rate of this machine in the same run.

With `--url`, the same of a system that runs already, such as that of docker-compose.yml, over HTTP or Redis:

    docker compose up -d --build --scale worker=10
    python -m load.shell --url http://127.0.0.1:8000

S2 §12: at least 50 trivial shell jobs a second with 10 workers; queued to running at 100 submissions a second, p95 at
most 300 ms; output visible within 200 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from time import perf_counter, time_ns

from load.figures import percentile, table
from load.stack import process, stack
from taskflow import AsyncClient, Job
from taskflow.submission import Options, shell_job
from taskflow_domain import JobStatus, RetryPolicy
from taskflow_streams import Store

OPTIONS: Options = {"queue": "load", "priority": 10, "timeout_s": 60, "retry_policy": RetryPolicy(max_attempts=1)}
RATE_PER_S = 100
LINES = 200
BARE_SPAWNS = 500
PATIENCE_S = 300
WAITS = 32  # at the same time; the api serves only so many


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured."""

    workers: int
    jobs: int
    bare_spawns_per_s: float
    jobs_per_s: float
    submitted_per_s: float
    dispatch_p50_ms: float
    dispatch_p95_ms: float
    tail_p50_ms: float
    tail_p95_ms: float


async def run(workers: int, slots: int, jobs: int, url: str | None) -> Figures:
    """One whole measurement."""
    bare = await bare_spawns(slots * min(workers, 4))
    async with AsyncExitStack() as crew:
        url = url or await crew.enter_async_context(own(workers, slots))
        client = await crew.enter_async_context(await AsyncClient.connect(url))
        await client.shell("true", **OPTIONS)
        rate = await throughput(client, jobs)
        submitted, dispatch = await trickle(client, jobs)
        tail = await tails(client)
    return Figures(
        workers, jobs, bare, rate, submitted, percentile(dispatch, 50), percentile(dispatch, 95), percentile(tail, 50),
        percentile(tail, 95),
    )  # fmt: skip


@asynccontextmanager
async def own(workers: int, slots: int) -> AsyncIterator[str]:
    """A whole system for this measurement alone; its address."""
    async with stack() as url, AsyncExitStack() as crew:
        command = [sys.executable, "-m", "taskflow", "worker", "--redis-url", url, "--concurrency", str(slots)]
        for _ in range(workers):
            await crew.enter_async_context(process(command))
        store = await Store.connect(url)
        while len(await store.partitions[0].workers.list()) < workers:  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.1)
        await store.close()
        yield url


async def bare_spawns(at_once: int) -> float:
    """`/bin/sh -c 'echo hi'` per second by asyncio alone, from one process: what can be hoped for on this machine."""

    async def spawn() -> None:
        async with room:
            child = await asyncio.create_subprocess_exec("/bin/sh", "-c", "echo hi", stdout=asyncio.subprocess.PIPE)
            await child.communicate()

    room = asyncio.Semaphore(at_once)
    start = perf_counter()
    await asyncio.gather(*(spawn() for _ in range(BARE_SPAWNS)))
    return BARE_SPAWNS / (perf_counter() - start)


async def throughput(client: AsyncClient, jobs: int) -> float:
    """Trivial jobs per second, from the first start to the last end, by the server's clock."""
    handles = await client.enqueue_many(shell_job("echo hi", None, None, OPTIONS) for _ in range(jobs))
    ended = [await handle.wait(PATIENCE_S) for handle in handles]
    first, last = min(map(start_of, ended)), max(job.finished_at or job.created_at for job in ended)
    return jobs / (last - first).total_seconds()


async def trickle(client: AsyncClient, jobs: int) -> tuple[float, list[float]]:
    """The rate of submissions that was reached, and milliseconds from queued to running, by the server's clock.

    Running is when a worker has the job in hand; the start of its process comes after that.
    """

    async def wait(job_id: str) -> Job:
        async with room:
            return await client.wait(job_id, PATIENCE_S)

    begun = []
    start = perf_counter()
    for number in range(min(jobs, RATE_PER_S * 10)):
        begun.append(asyncio.create_task(client.shell("true", **OPTIONS)))
        await asyncio.sleep(max(0.0, start + (number + 1) / RATE_PER_S - perf_counter()))
    handles = await asyncio.gather(*begun)
    rate = len(begun) / (perf_counter() - start)
    room = asyncio.Semaphore(WAITS)
    ended = await asyncio.gather(*(wait(handle.id) for handle in handles))
    return rate, [(start_of(job) - job.created_at).total_seconds() * 1000 for job in ended]


async def tails(client: AsyncClient) -> list[float]:
    """Milliseconds from a line's printing to its arrival at one who follows the job."""
    job = await client.shell(f"for i in $(seq {LINES}); do date +%s%N; sleep 0.02; done", **OPTIONS)
    late: list[float] = []
    async for entry in job.logs(follow=True):
        now = time_ns()
        late += [(now - int(line)) / 1e6 for line in entry.text.split()]
    return late


def start_of(job: Job) -> datetime:
    """When a job that has completed was started."""
    assert job.status is JobStatus.COMPLETED, f"job {job.id} did not complete: {job.error}"
    assert job.started_at is not None
    return job.started_at


def report(figures: Figures) -> str:
    """The figures as a table."""
    return table(
        [
            (
                f"trivial shell jobs, {figures.workers} workers",
                f"{figures.jobs_per_s:,.0f}/s",
                f"{figures.jobs_per_s / figures.bare_spawns_per_s:.0%} of the bare spawn rate of one process, "
                f"{figures.bare_spawns_per_s:,.0f}/s",
            ),
            (
                f"queued to running at {figures.submitted_per_s:.0f}/s, p50 / p95",
                f"{figures.dispatch_p50_ms:.0f} / {figures.dispatch_p95_ms:.0f} ms",
                f"asked: 300 ms at {RATE_PER_S}/s",
            ),
            (
                "a printed line to its reader, p50 / p95",
                f"{figures.tail_p50_ms:.1f} / {figures.tail_p95_ms:.1f} ms",
                "asked: 200 ms; goal: 20 ms",
            ),
        ]
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m load.shell", description="Measure shell jobs on this machine.")
    parser.add_argument("--workers", type=int, default=10, help="worker processes (10); with --url, of that system")
    parser.add_argument("--slots", type=int, default=4, help="slots of each (4)")
    parser.add_argument("--jobs", type=int, default=1000, help="jobs (1000)")
    parser.add_argument("--url", help="measure a system that runs already, http://… or redis://…")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    figures = asyncio.run(run(options.workers, options.slots, options.jobs, options.url))
    print(json.dumps(asdict(figures), indent=2) if options.json else report(figures))


if __name__ == "__main__":
    main()
