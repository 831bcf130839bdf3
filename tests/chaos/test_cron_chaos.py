"""Two crons that are killed and frozen, while 200 schedules fire each second: each time is started exactly once.

`CHAOS_CRON_S` sets for how long (default 60 s), `CHAOS_SEED` when they are killed, `CHAOS_PARTITIONS` how wide it is.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from taskflow_domain import Overlap, What
from taskflow_streams import Ending, How, ScheduleRecord, Store, Write, Written
from taskflow_streams.embedded import EmbeddedServer
from tests.support.consistency import faults
from tests.support.crew import Process, started
from tests.support.engine import POOL, a_worker
from tests.support.schedules import ALL_EVENTS, birth, lines
from tests.support.working import until

SECONDS = int(os.environ.get("CHAOS_CRON_S", "60"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
PARTITIONS = int(os.environ.get("CHAOS_PARTITIONS", "1"))
SCHEDULES = 200
HOLD_S = 1.0
START_S = 4  # two Pythons on a busy machine
LATE_S = 40.0  # for what the dead have left behind
EVERY_MS = 1000
ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "Australia/Lord_Howe")
QUICK_MS = 100  # what has ended so long ago is removed

pytestmark = pytest.mark.timeout(SECONDS + 180)


@dataclass(slots=True)
class Crons:
    """Two replicas, and those that came before them."""

    url: str
    folder: Path
    dice: random.Random
    alive: list[Process] = field(default_factory=list)
    killed: int = 0
    frozen: int = 0

    def start(self) -> None:
        """One more."""
        self.alive.append(Process("cron", self.url, self.folder, TASKFLOW_CRON_HOLD_S=str(HOLD_S)))

    async def kill_now_and_then(self, store: Store, until_ms: int) -> None:
        """SIGKILL one about every second, or both, mostly just when schedules fire; others take their places.

        Now and then one is only frozen, for longer than others leave its schedules to it, and goes on where it was.
        """
        while (now_ms := await store.now_ms()) < until_ms:
            if self.dice.random() < 0.3:
                await asyncio.sleep(self.dice.uniform(0.2, 1.6))
            else:
                await asyncio.sleep((-now_ms % EVERY_MS) / 1000 + self.dice.choice((0, 1)))
                await something_happens(store)
            if self.killed >= 3 * (self.frozen + 1):
                await self.freeze()
                continue
            for victim in self.dice.sample(self.alive, self.dice.choice((1, 2))):
                victim.popen.kill()
                victim.popen.wait()
                self.alive.remove(victim)
                self.start()
                self.killed += 1

    async def freeze(self) -> None:
        """Let one stand still."""
        victim = self.dice.choice(self.alive).popen
        victim.send_signal(signal.SIGSTOP)
        await asyncio.sleep(HOLD_S * 1.2)
        victim.send_signal(signal.SIGCONT)
        self.frozen += 1


def schedules(store: Store, now_ms: int, first_ms: int) -> Iterator[tuple[Write, list[int]]]:
    """Schedules of all kinds, each with the times at which it is to fire."""
    for i in range(SCHEDULES):
        offset_ms = i * 37 % EVERY_MS if i % 10 in (3, 4, 5, 7) else 0
        start_ms = first_ms + offset_ms
        rules: dict[str, Any] = {
            "start_ms": start_ms,
            "end_ms": start_ms + SECONDS * EVERY_MS - 1,
            "catchup_limit": 1000,
            "partition": i % PARTITIONS,
        }
        if i % 10 in (3, 4, 5, 7):
            rules |= {"interval_ms": EVERY_MS}
        else:
            rules |= {"cron": "* * * * * *", "zone": ZONES[i % len(ZONES)]}
        match i % 10:
            case 6:
                rules |= {"jitter_ms": 900}
            case 7:
                rules |= {"overlap": Overlap.SKIP}
            case 8:
                rules |= {"overlap": Overlap.BUFFER_ALL}
            case 9:
                rules |= {"overlap": Overlap.BUFFER_ONE if i % 20 == 9 else Overlap.CANCEL_PREVIOUS}
        yield birth(store, now_ms, **rules), [start_ms + n * EVERY_MS for n in range(SECONDS)]


async def something_happens(store: Store) -> None:
    """Wait for an event, but not for long: most of them are births, in the moment in which schedules fire."""
    await store._blocking.xread({store.partitions[0].keys("events"): "$"}, block=EVERY_MS)


async def work(store: Store, stop: asyncio.Event) -> None:
    """Run what there is, at once, and remove what has ended; some of it is deleted while it runs."""
    dice = random.Random(SEED)
    workers = [await a_worker(store, partition=partition.index) for partition in store.partitions]
    while not stop.is_set():
        for worker in workers:
            held = await worker.lease(200)
            for one in held[: len(held) // 20]:
                await store.delete(one.job_id)
            endings = [Ending(one.job_id, one.lease.fence, How.COMPLETED, value=b"1") for one in held]
            await worker.partition.leases.report(worker.name, endings, POOL, 0)
            await worker.partition.upkeep.retire(await store.now_ms() - QUICK_MS)
        await asyncio.sleep(dice.uniform(0.01, 0.1))


async def test_each_time_is_started_exactly_once_while_crons_are_killed(tmp_path: Path) -> None:
    """By the events, which know of runs that are long gone, and by the histories: a line for each, never two."""
    with EmbeddedServer.temporary() as server:
        store = await Store.connect(server.url, partitions=PARTITIONS)
        crons = Crons(server.url, tmp_path, random.Random(SEED))
        scheduler = Process("scheduler", server.url, tmp_path)
        crons.start()
        crons.start()
        stop = asyncio.Event()
        working = asyncio.create_task(work(store, stop))
        try:
            now_ms = await store.now_ms()
            first_ms = (now_ms // EVERY_MS + START_S) * EVERY_MS
            expected = {write.id: (write, times) for write, times in schedules(store, now_ms, first_ms)}
            words = await store.schedules.write([write for write, _ in expected.values()])
            assert set(words) == {Written.OK}
            await crons.kill_now_and_then(store, first_ms + SECONDS * EVERY_MS)
            await until(lambda: all_are_over(store, list(expected), crons), "the end of all schedules", LATE_S)
            await asyncio.sleep(2 * QUICK_MS / 1000)
        finally:
            stop.set()
            await working
            with started(scheduler, *crons.alive):
                pass  # they end
        found = await inspect(store, expected, crons)
        await store.close()
    assert not found, "\n".join([f"{crons.killed} were killed", *found[:50]])


async def all_are_over(store: Store, ids: list[str], crons: Crons) -> bool:
    """Whether nothing more will come of any."""
    assert [one.out.read_text() for one in crons.alive if one.popen.poll() is not None] == [], (
        "some ended by themselves"
    )
    return all(record is not None and record.progress.is_done for record in await store.schedules.get(ids))


async def inspect(store: Store, expected: dict[str, tuple[Write, list[int]]], crons: Crons) -> list[str]:
    """Everything that is wrong."""
    found = await faults(store)
    events = [event for partition in store.partitions for event in await partition.history.after("0-0", ALL_EVENTS)]
    born_ms = {event.job_id: event.at_ms for event in events if event.type == "job.submitted"}
    births = Counter(event.job_id for event in events if event.type == "job.submitted")
    found += [f"run {run} was started {times} times" for run, times in births.items() if times != 1]
    runs: Counter[str] = Counter()
    made_good = 0
    for record in await store.schedules.get(list(expected)):
        assert record is not None
        write, times = expected[record.id]
        fired, skipped = Counter[int](), Counter[int]()
        for line in await lines(store, write):
            note = line.note
            if note.what is What.FIRED:
                assert note.run is not None
                assert note.fire_ms is not None
                fired[note.fire_ms] += 1
                runs[note.run] += 1
                made_good += line.at_ms - born_ms.get(note.run, line.at_ms) >= HOLD_S * 1000 / 2
            elif note.what is What.SKIPPED:
                assert note.fire_ms is not None
                skipped[note.fire_ms] += 1
        found += compare(record, times, fired, skipped)
    found += [f"run {run} was told {times} times" for run, times in runs.items() if times != 1]
    found += [f"run {run} was started, and not told" for run in births.keys() - runs.keys()]
    found += [f"run {run} was told, and not started" for run in runs.keys() - births.keys()]
    left = len(await store.partitions[0].redis.keys("tf:*:job:*"))
    if crons.killed < SECONDS / 3 or not crons.frozen or not made_good or left > len(births) / 2:
        found.append(f"too little: {crons.killed} killed, {made_good} made good, {left} of {len(births)} runs left")
    done = f"{crons.killed} crons killed, {crons.frozen} frozen; {len(births)} runs"
    print(f"{done}, {made_good} told by another than who started them")  # noqa: T201 - to be seen with -s
    return found


def compare(record: ScheduleRecord, times: list[int], fired: Counter[int], skipped: Counter[int]) -> Iterator[str]:
    """Each time is fired or, if the policy says so, skipped; and nothing else is."""
    told = fired + skipped
    yield from (f"{record.id} fired {at} {n} times ({record.schedule.overlap})" for at, n in told.items() if n != 1)
    yield from (f"{record.id} never fired {at} ({record.schedule.overlap})" for at in set(times) - told.keys())
    yield from (f"{record.id} fired {at}, and should not have" for at in told.keys() - set(times))
    if skipped and record.schedule.overlap in (Overlap.ALLOW, Overlap.BUFFER_ALL):
        yield f"{record.id} passed over {sorted(skipped)}"
    if record.progress.runs != len(fired):
        yield f"{record.id} counts {record.progress.runs} runs, and had {len(fired)}"
