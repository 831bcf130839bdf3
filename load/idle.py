"""What schedules cost that nothing is to be done about for a long time; and how fast they are made."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

import psutil

from load import raw
from load.cpu import Meter
from load.fires import WRITE_BATCH, ZONES, create
from taskflow_domain import Schedule
from taskflow_streams import Store

ONE_BY_ONE = 500
FAR_MS = 30 * 24 * 3600 * 1000
REST_S = 3  # for what creating them has left behind


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU seconds a minute."""

    service: float
    valkey: float

    @classmethod
    def of(cls, used: Mapping[str, float], service: str, seconds: float) -> Cpu:
        """Of what was used within so many seconds."""
        valkey = sum(each for name, each in used.items() if name.startswith("valkey"))
        return cls(used[service] * 60 / seconds, valkey * 60 / seconds)


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured."""

    schedules: int
    none: Cpu
    many: Cpu
    bytes_per_schedule: float
    cron_bytes_before: int
    cron_bytes_after: int
    created_per_s: float
    created_one_by_one_per_s: float
    ping_p50_ms: float


async def measure(store: Store, count: int, seconds: float) -> Figures:
    """With so many schedules, for so long."""
    ping_p50_ms = await raw.ping(store)
    none, before, cron_before = await idle("cron", seconds), (await store.memory())[0], resident("cron")
    start_ms = await store.now_ms() + FAR_MS
    schedules = [
        Schedule(store.new_id(), start_ms, f"{i % 60} {i % 24} * * *", zone=ZONES[i % len(ZONES)], start_ms=start_ms)
        for i in range(count)
    ]
    start = perf_counter()
    await create(store, schedules)
    created = perf_counter()
    await asyncio.sleep(REST_S)
    memory = (await store.memory())[0] - before
    many = await idle("cron", seconds)
    cron_after = resident("cron")
    one_by_one = [
        Schedule(store.new_id(), start_ms, interval_ms=60_000, start_ms=start_ms + i) for i in range(ONE_BY_ONE)
    ]
    begun = perf_counter()
    await create(store, one_by_one, 1)
    return Figures(
        count,
        none,
        many,
        memory / count,
        cron_before,
        cron_after,
        count / (created - start),
        ONE_BY_ONE / (perf_counter() - begun),
        ping_p50_ms,
    )


async def idle(service: str, seconds: float) -> Cpu:
    """What a service and the server use while nobody asks for anything."""
    meter = Meter()
    await asyncio.sleep(seconds)
    return Cpu.of(meter.read(), service, seconds)


def resident(service: str) -> int:
    """Bytes of memory of a service's process."""
    for process in psutil.Process().children(recursive=True):
        if " ".join(process.cmdline()).split()[:2] == ["taskflow", service]:
            return int(process.memory_info().rss)
    raise LookupError(f"no {service} is running")


def rows(figures: Figures) -> list[tuple[str, str, str]]:
    """As rows of the table."""
    none, many, count = figures.none, figures.many, figures.schedules
    return [
        (
            f"CPU seconds a minute, {count:,} idle schedules: cron, Valkey",
            f"{many.service:.2f}, {many.valkey:.2f}",
            f"without any: {none.service:.2f}, {none.valkey:.2f}",
        ),
        (
            "memory of an idle schedule, with a line of history",
            f"{figures.bytes_per_schedule:,.0f} bytes",
            f"cron's process: {figures.cron_bytes_before / 2**20:.1f} MiB before, "
            f"{figures.cron_bytes_after / 2**20:.1f} MiB after",
        ),
        (
            f"schedules created by the engine, batches of {WRITE_BATCH}",
            f"{figures.created_per_s:,.0f}/s",
            f"one by one: {figures.created_one_by_one_per_s:,.0f}/s, each after asking for the time; "
            f"one PING: {figures.ping_p50_ms:.2f} ms",
        ),
    ]
