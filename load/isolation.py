"""`python -m load.isolation`: what a process for each job costs, beside the bare ways to start one in the same run.

Executors and nursery alone, without a server: how long one Python call and one shell command take from the order to
their outcome, with a pause between them and without, and how many a second go through side by side.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from time import perf_counter

from load.figures import percentile, table
from taskflow.executor import Executor, Kit, Stream, Succeeded, Work
from taskflow_worker.processes import Nursery
from taskflow_worker.runners import python, shell

COMMAND = "echo hi"
PLAIN = "os:getpid"
CALLABLE = "load.tasks:nothing"  # in a module with tasks, which loads much of TaskFlow
AT_ONCE = 16
PAUSE_S = 0.03
# In an interpreter that has loaded nothing: the least that a fork can cost here.
LEAST = """
import os, sys, time
count, pause_s = int(sys.argv[1]), float(sys.argv[2])
times = []
for _ in range(count):
    time.sleep(pause_s)
    start = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    times.append((time.perf_counter() - start) * 1000)
print(sorted(times)[count // 2])
"""
INTERPRETERS = 20  # starts of a whole interpreter, for comparison: slow, and steady

Attempt = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Speed:
    """One way to get something done in a process of its own."""

    paused_ms: float  # p50, with a pause before each
    ms: float  # p50, one right after the other
    per_s: float  # AT_ONCE side by side


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured."""

    count: int
    plain: Speed
    python: Speed
    shell: Speed
    subprocess: Speed
    spawn: Speed
    fork: Speed
    least_fork_paused_ms: float
    least_fork_ms: float
    interpreter_ms: float


class Silence:
    """A report that nobody reads."""

    grace_s = 1.0

    def write(self, stream: Stream, data: bytes) -> None:
        """Drop it."""

    def progress(self, fraction: float, note: str = "") -> None:
        """Drop it."""

    def redact(self, secret: str) -> None:
        """Nothing is shown anyhow."""


async def run(count: int) -> Figures:
    """One whole measurement."""
    nursery = Nursery()
    await nursery.start()
    kit = Kit(env_allowlist=("PATH", "HOME", "LANG"), services={"nursery": nursery})
    try:
        plain = _attempts(python.make(kit), {"callable": PLAIN})
        call = _attempts(python.make(kit), {"callable": CALLABLE})
        command = _attempts(shell.make(kit), {"cmd": COMMAND})
        for _ in range(AT_ONCE):  # the first ones pay for what all others share
            await plain()
            await command()
        plainly = await speed(plain, count)  # first: once a module with tasks was called, each fork has more to copy
        for _ in range(AT_ONCE):
            await call()
        return Figures(
            count,
            plain=plainly,
            python=await speed(call, count),
            shell=await speed(command, count),
            subprocess=await speed(_bare_subprocess, count),
            spawn=await speed(_bare_spawn, count),
            fork=await speed(_bare_fork, count),
            least_fork_paused_ms=await _least_fork(count // 5, PAUSE_S),
            least_fork_ms=await _least_fork(count, 0),
            interpreter_ms=await one_after_the_other(_interpreter, INTERPRETERS),
        )
    finally:
        await nursery.close()


async def speed(attempt: Attempt, count: int) -> Speed:
    """All that is measured of one way."""
    return Speed(
        await one_after_the_other(attempt, count // 5, PAUSE_S),
        await one_after_the_other(attempt, count),
        await side_by_side(attempt, count),
    )


async def one_after_the_other(attempt: Attempt, count: int, pause_s: float = 0) -> float:
    """Milliseconds that one takes, p50."""
    times = []
    for _ in range(count):
        await asyncio.sleep(pause_s)
        start = perf_counter()
        await attempt()
        times.append((perf_counter() - start) * 1000)
    return percentile(times, 50)


async def side_by_side(attempt: Attempt, count: int) -> float:
    """How many a second, when as many as AT_ONCE are always under way."""
    left = iter(range(count))

    async def go_on() -> None:
        for _ in left:
            await attempt()

    start = perf_counter()
    await asyncio.gather(*(go_on() for _ in range(AT_ONCE)))
    return count / (perf_counter() - start)


def _attempts(executor: Executor, fields: Mapping[str, str]) -> Attempt:
    payload, fences = json.dumps(fields).encode(), iter(range(1, sys.maxsize))

    async def attempt() -> None:
        work = Work("0190a0b0-0000-7000-8000-000000000000", 1, next(fences), "q", "n", "t", "w", payload)
        outcome = await executor.run(work, Silence())
        assert isinstance(outcome, Succeeded), outcome

    return attempt


async def _bare_fork() -> None:
    """Of this process, which has more loaded than the nursery."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)  # noqa: ASYNC222 - bare


async def _least_fork(count: int, pause_s: float) -> float:
    command = [sys.executable, "-I", "-S", "-c", LEAST, str(count), str(pause_s)]
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await child.communicate()
    return float(printed)


async def _bare_spawn() -> None:
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    os.waitpid(os.posix_spawn("/bin/sh", ["/bin/sh", "-c", COMMAND], os.environ, file_actions=silent), 0)  # noqa: ASYNC221, ASYNC222


async def _bare_subprocess() -> None:
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec("/bin/sh", "-c", COMMAND, stdout=pipe, stderr=pipe)
    await child.communicate()


async def _interpreter() -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", f"import {CALLABLE.partition(':')[0]}")
    assert await child.wait() == 0


def report(figures: Figures) -> str:
    """The figures as a table."""

    def row(what: str, one: Speed) -> tuple[str, str, str]:
        return what, f"{one.paused_ms:.1f} / {one.ms:.1f} ms", f"{one.per_s:,.0f}/s"

    return table(
        [
            ("**p50 with pauses / back to back**", "", f"**{AT_ONCE} side by side**"),
            row("a Python call in a process of its own", figures.plain),
            row("the same, of a module with tasks", figures.python),
            row("a shell command through the nursery", figures.shell),
            row("the same by asyncio alone", figures.subprocess),
            row("bare posix_spawn of it, unread", figures.spawn),
            row("bare fork of this process", figures.fork),
            (
                "bare fork of an interpreter that has loaded nothing",
                f"{figures.least_fork_paused_ms:.1f} / {figures.least_fork_ms:.1f} ms",
                "",
            ),
            ("a new interpreter that imports that module", f"{figures.interpreter_ms:.0f} ms", ""),
        ]
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m load.isolation", description="Measure processes for jobs.")
    parser.add_argument("--count", type=int, default=500, help="attempts of each kind (500)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    figures = asyncio.run(run(options.count))
    print(json.dumps(asdict(figures), indent=2) if options.json else report(figures))


if __name__ == "__main__":
    main()
