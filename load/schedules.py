"""`python -m load.schedules`: how late schedules fire, what they cost idle, and a million delayed jobs.

All services run, `taskflow cron` among them, with an embedded Valkey and its append-only file; each part has a system
of its own.  The goals: with 1,000 schedules the p95 of lateness is at most 50 ms; 10,000 cost nothing while idle; a
million delayed jobs stay cheap.  The machine is noisy: look at what stands beside a figure, which is of the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import asdict, dataclass

from load import delayed, fires, idle
from load.figures import table
from load.stack import stack
from taskflow import AsyncClient

PARTS = ("lateness", "idle", "delayed")


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured; None: this part was not asked for."""

    lateness: fires.Figures | None = None
    idle: idle.Figures | None = None
    delayed: delayed.Figures | None = None


async def run(options: argparse.Namespace) -> Figures:
    """One whole measurement, or a part of it."""
    parts = options.only or PARTS
    late = rest = wait = None
    if "lateness" in parts:
        async with stack() as url, await AsyncClient.connect(url) as client:
            late = await fires.measure(client.store, options.schedules)
    if "idle" in parts:
        async with stack() as url, await AsyncClient.connect(url) as client:
            rest = await idle.measure(client.store, options.idle, options.seconds)
    if "delayed" in parts:
        async with stack() as url, await AsyncClient.connect(url) as client:
            wait = await delayed.measure(url, client, options.delayed, options.together, options.seconds)
    return Figures(late, rest, wait)


def report(figures: Figures) -> str:
    """The figures as a table, each beside its reference."""
    rows = fires.rows(figures.lateness) if figures.lateness else []
    rows += idle.rows(figures.idle) if figures.idle else []
    rows += delayed.rows(figures.delayed) if figures.delayed else []
    return table(rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m load.schedules", description="Measure schedules and delayed jobs on this machine."
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="this part alone; may be said again")
    parser.add_argument("--schedules", type=int, default=1_000, help="schedules that fire (1,000)")
    parser.add_argument("--idle", type=int, default=10_000, help="schedules that do not (10,000)")
    parser.add_argument("--delayed", type=int, default=1_000_000, help="delayed jobs (1,000,000)")
    parser.add_argument("--together", type=int, default=100_000, help="jobs that are due at one moment (100,000)")
    parser.add_argument("--seconds", type=float, default=60, help="for how long CPU is measured while idle (60)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    figures = asyncio.run(run(options := parser.parse_args()))
    print(json.dumps(asdict(figures), indent=2) if options.json else report(figures))


if __name__ == "__main__":
    main()
