"""`python -m load.shell`: shell jobs with 10 workers, beside the bare spawn rate of this machine in the same run.

S2 §12: at least 50 trivial shell jobs a second with 10 workers; queued to running at 100 submissions a second, p95 at
most 300 ms; output visible within 200 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from time import perf_counter, time_ns

from load.figures import percentile, table
from load.stack import process, stack
from taskflow_domain import RetryPolicy
from taskflow_streams import NewJob, Store

ONCE = RetryPolicy(max_attempts=1)
RATE_PER_S = 100
LINES = 200
BARE_SPAWNS = 500


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


async def run(workers: int, slots: int, jobs: int) -> Figures:
    """One whole measurement."""
    bare = await bare_spawns(slots * min(workers, 4))
    async with stack() as url, AsyncExitStack() as crew:
        store = await Store.connect(url)
        crew.push_async_callback(store.close)
        command = [sys.executable, "-m", "taskflow", "worker", "--redis-url", url, "--concurrency", str(slots)]
        for _ in range(workers):
            await crew.enter_async_context(process(command))
        while len(await store.partitions[0].workers.list()) < workers:  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.1)
        rate = await throughput(store, jobs)
        submitted, dispatch = await trickle(store, jobs)
        tail = await tails(store)
    return Figures(
        workers, jobs, bare, rate, submitted, percentile(dispatch, 50), percentile(dispatch, 95), percentile(tail, 50),
        percentile(tail, 95),
    )  # fmt: skip


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


def shell(store: Store, cmd: str) -> NewJob:
    """A shell job with one attempt."""
    payload = json.dumps({"cmd": cmd}).encode()
    return NewJob(
        store.new_id(), "load", "load", "@shell", payload, order=0, type="shell", retry=ONCE, timeout_ms=60_000
    )


async def throughput(store: Store, jobs: int) -> float:
    """Trivial jobs per second, from the first start to the last end, by the server's clock."""
    made = [shell(store, "echo hi") for _ in range(jobs)]
    for start in range(0, jobs, 500):
        await store.submit(made[start : start + 500])
    ended = [await store.wait_end(job.id, 300) for job in made]
    records = [record for record in ended if record is not None]
    assert len(records) == jobs
    assert all(record.status == "COMPLETED" for record in records), "a job did not complete"
    first = min(record.started_ms or 0 for record in records)
    last = max(record.finished_ms or 0 for record in records)
    return jobs * 1000 / (last - first)


async def trickle(store: Store, jobs: int) -> tuple[float, list[float]]:
    """The rate of submissions that was reached, and milliseconds from queued to running, by the server's clock.

    Running is when a worker has the job in hand; the start of its process comes after that.
    """
    made = []
    start = perf_counter()
    for number in range(min(jobs, RATE_PER_S * 10)):
        made.append(shell(store, "true"))
        await store.submit([made[-1]])
        await asyncio.sleep(max(0.0, start + (number + 1) / RATE_PER_S - perf_counter()))
    rate = len(made) / (perf_counter() - start)
    records = [record for job in made if (record := await store.wait_end(job.id, 60)) is not None]
    assert [record.status for record in records] == ["COMPLETED"] * len(made), "a job did not complete"
    return rate, [float((record.started_ms or 0) - record.created_ms) for record in records]


async def tails(store: Store) -> list[float]:
    """Milliseconds from a line's printing to its arrival at one who follows the job."""
    job = shell(store, f"for i in $(seq {LINES}); do date +%s%N; sleep 0.02; done")
    await store.submit([job])
    logs = store.partitions[0].logs
    await logs.follow(job.id)
    late: list[float] = []
    after, ended = "0-0", False
    while not ended:
        chunks, ended, _ = await logs.tail(job.id, after, block_ms=20_000)
        now = time_ns()
        for chunk in chunks:
            after = chunk.id
            late += [(now - int(line)) / 1e6 for line in chunk.text.split()]
        ended = ended and not chunks
    return late


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
    parser.add_argument("--workers", type=int, default=10, help="worker processes (10)")
    parser.add_argument("--slots", type=int, default=4, help="slots of each (4)")
    parser.add_argument("--jobs", type=int, default=1000, help="jobs (1000)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    figures = asyncio.run(run(options.workers, options.slots, options.jobs))
    print(json.dumps(asdict(figures), indent=2) if options.json else report(figures))


if __name__ == "__main__":
    main()
