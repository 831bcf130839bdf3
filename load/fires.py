"""How late schedules fire: many that are spread over time, and the worst case, all in the same second.

Late is a run's birth after its due time, jitter included, by the server's clock.  Beside it, as the least that can be
hoped for, as many jobs that are submitted straight at one moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import available_timezones

from load import raw
from load.figures import Spread
from taskflow_domain import Note, Schedule, What
from taskflow_domain.changing import first_progress
from taskflow_domain.firing import look_at
from taskflow_streams import Definition, NewJob, Store, Write, Written

WRITE_BATCH = 200
STRAIGHT_BATCH = 200
STRAIGHT_TIMES = 5  # before the schedules, and as often after them
EVERY_S = 20  # each of those that are spread
SPREAD_S = 40
BURST_EVERY_S = 3
BURSTS = 10
JITTER_MS = 5_000
PATIENCE_S = 10
ZONES = sorted(available_timezones() - {"Factory", "localtime"})  # these are no places
READ = 500
GOAL_P95_MS = 50
EVERY_MINUTE = ("* * * * *", "*/1 * * * *", "0-59 * * * *", "* 0-23 * * *")  # so that each schedule has its own text


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured."""

    schedules: int
    spread_ms: Spread
    burst_ms: Spread
    worst_burst_p95_ms: float
    straight_ms: Spread
    ping_p50_ms: float


async def measure(store: Store, count: int) -> Figures:
    """With so many schedules."""
    ping_p50_ms = await raw.ping(store)
    straight = [each for _ in range(STRAIGHT_TIMES) for each in await submit_straight(store, count)]
    start_ms = await _soon(store)
    spread = await fire(store, [_spread(store.new_id(), i, start_ms, ZONES) for i in range(count)])
    start_ms = await _soon(store)
    burst = await fire(store, [_bursting(store.new_id(), i, start_ms, ZONES) for i in range(count)])
    straight += [each for _ in range(STRAIGHT_TIMES) for each in await submit_straight(store, count)]
    moments: dict[int, list[float]] = {}
    for due_ms, late_ms in burst:
        moments.setdefault(due_ms, []).append(late_ms)
    return Figures(
        count,
        Spread.of([late_ms for _, late_ms in spread]),
        Spread.of([late_ms for _, late_ms in burst]),
        max(Spread.of(each).p95 for each in moments.values()),
        Spread.of(straight),
        ping_p50_ms,
    )


async def create(store: Store, schedules: Sequence[Schedule], batch: int = WRITE_BATCH) -> None:
    """Make them, as the api does."""
    for at in range(0, len(schedules), batch):
        now_ms = await store.now_ms()
        words = await store.schedules.write([_new(schedule, now_ms) for schedule in schedules[at : at + batch]])
        assert set(words) == {Written.OK}, words


async def fire(store: Store, schedules: Sequence[Schedule]) -> list[tuple[int, float]]:
    """Make schedules that end by themselves, and wait for that; when each run was due, and how many ms it was late."""
    await create(store, schedules)
    wanted = {(schedule.id, ms): schedule.rhythm.due_ms(ms) for schedule in schedules for ms in _times(schedule)}
    await asyncio.sleep((max(wanted.values()) - await store.now_ms()) / 1000 + 1)
    for _ in range(PATIENCE_S):
        runs = await _runs(store, schedules)
        if len(runs) == len(wanted):
            break
        await asyncio.sleep(1)
    due_ms = {run: wanted.pop(fire) for run, fire in runs.items()}
    assert not wanted, f"{len(wanted)} fires are missing"
    return [(due_ms[run], created_ms - due_ms[run]) for run, created_ms in (await _births(store, [*runs])).items()]


async def submit_straight(store: Store, count: int) -> list[float]:
    """Milliseconds from one moment to the birth of each of so many jobs, in batches that are under way together."""
    await asyncio.sleep(1)
    jobs = [NewJob(store.new_id(), "load.nobody", "load", "load.nobody") for _ in range(count)]
    batches = [jobs[at : at + STRAIGHT_BATCH] for at in range(0, count, STRAIGHT_BATCH)]
    now_ms = await store.now_ms()
    await asyncio.gather(*(store.submit(batch) for batch in batches))
    return [born_ms - now_ms for born_ms in (await _births(store, [job.id for job in jobs])).values()]


async def _soon(store: Store) -> int:
    """A whole second that leaves time to make all schedules."""
    return (await store.now_ms() // 1000 + 4) * 1000


def _spread(schedule_id: str, i: int, start_ms: int, zones: Sequence[str]) -> Schedule:
    """A third are intervals; of the others, half have jitter."""
    end_ms = start_ms + SPREAD_S * 1000 - 1
    if i % 3 == 0:
        first_ms = start_ms + i * 197 % (EVERY_S * 1000)
        return Schedule(schedule_id, first_ms, interval_ms=EVERY_S * 1000, start_ms=first_ms, end_ms=end_ms)
    seconds = ",".join(str(second) for second in range(i % EVERY_S, 60, EVERY_S))
    cron, jitter_ms = f"{EVERY_MINUTE[i % 4]} {seconds}", JITTER_MS if i % 3 == 1 else 0
    return Schedule(
        schedule_id, start_ms, cron, zone=zones[i % len(zones)], start_ms=start_ms, end_ms=end_ms, jitter_ms=jitter_ms
    )


def _bursting(schedule_id: str, i: int, start_ms: int, zones: Sequence[str]) -> Schedule:
    start_ms += -start_ms % (BURST_EVERY_S * 1000)
    end_ms = start_ms + BURSTS * BURST_EVERY_S * 1000 - 1
    cron = f"{EVERY_MINUTE[i // len(zones) % 4]} */{BURST_EVERY_S}"
    return Schedule(schedule_id, start_ms, cron, zone=zones[i % len(zones)], start_ms=start_ms, end_ms=end_ms)


def _new(schedule: Schedule, now_ms: int) -> Write:
    progress = first_progress(schedule, now_ms)
    template = NewJob("", "load.nobody", "load", "load.nobody")  # that no worker has: they are only started
    return Write(
        schedule.id,
        0,
        look_at(progress, now_ms),
        progress,
        Definition(schedule, template),
        created_ms=now_ms,
        notes=(Note(What.CREATED),),
        ring=True,
    )


def _times(schedule: Schedule) -> list[int]:
    return list(schedule.rhythm.times_after(schedule.anchor_ms - 1))


async def _runs(store: Store, schedules: Sequence[Schedule]) -> dict[str, tuple[str, int]]:
    """All runs that were started, each with its schedule and its time."""
    runs = {}
    for schedule in schedules:
        for line in await store.schedules.history(schedule.id):
            if line.note.what is What.FIRED:
                assert line.note.run is not None
                assert line.note.fire_ms is not None
                assert line.note.run not in runs, "a run was told of twice"
                runs[line.note.run] = schedule.id, line.note.fire_ms
    return runs


async def _births(store: Store, runs: Sequence[str]) -> dict[str, int]:
    born_ms = {}
    for at in range(0, len(runs), READ):
        for record in await store.get(runs[at : at + READ]):
            assert record is not None
            born_ms[record.id] = record.created_ms
    return born_ms


def rows(figures: Figures) -> list[tuple[str, str, str]]:
    """As rows of the table."""
    worst, straight = figures.burst_ms, figures.straight_ms
    return [
        (
            f"fires late, {figures.schedules:,} schedules spread over {EVERY_S} s, p50 / p95 / p99 / max",
            str(figures.spread_ms),
            f"goal: p95 {GOAL_P95_MS} ms; one PING: {figures.ping_p50_ms:.2f} ms; {figures.spread_ms.count:,} fires",
        ),
        (
            f"fires late, {figures.schedules:,} schedules in the same second, {BURSTS} times",
            str(worst),
            f"goal: p95 {GOAL_P95_MS} ms; p95 of the worst burst: {figures.worst_burst_p95_ms:.0f} ms; the p95 is "
            f"{worst.p95 / straight.p95:.1f} of that of jobs submitted straight, below",
        ),
        (
            f"{figures.schedules:,} jobs submitted straight at one moment, in batches of {STRAIGHT_BATCH}, until born",
            str(straight),
            f"{STRAIGHT_TIMES * 2} times",
        ),
    ]
