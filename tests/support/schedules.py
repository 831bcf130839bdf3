"""The words of the tests of schedules: one that was just made, its history, and somebody who changes it meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any
from unittest.mock import patch

from taskflow_cron.tick import Ticker
from taskflow_domain import Note, Progress, Schedule, What
from taskflow_domain.changing import first_progress, paused
from taskflow_domain.firing import look_at
from taskflow_streams import Definition, Line, NewJob, ScheduleRecord, Store, Submitted, Write, Written
from tests.support.engine import HANDLER, QUEUE, settle

ALL_LINES = 10_000
ALL_EVENTS = 1_000_000


def definition(schedule_id: str, now_ms: int, template: dict[str, Any] | None = None, **rules: Any) -> Definition:
    """A schedule that fires each minute, unless other rules are given."""
    timing = {} if "interval_ms" in rules else {"cron": "* * * * *"}
    job = NewJob(id="", **{"name": HANDLER, "queue": QUEUE, "handler": HANDLER, **(template or {})})
    return Definition(Schedule(schedule_id, now_ms, **{**timing, **rules}), job)


def birth(store: Store, now_ms: int, name: str | None = None, **rules: Any) -> Write:
    """A new schedule, not written yet."""
    made = definition(store.new_id(), now_ms, **rules)
    progress = first_progress(made.schedule, now_ms)
    look_ms = look_at(progress, now_ms)
    return Write(made.schedule.id, 0, look_ms, progress, made, name, now_ms, ring=True)


async def a_schedule(store: Store, name: str | None = None, **rules: Any) -> ScheduleRecord:
    """A schedule that was just made."""
    write = birth(store, await store.now_ms(), name, **rules)
    assert await store.schedules.write([write]) == [Written.OK]
    return await reread(store, write)


async def reread(store: Store, one: ScheduleRecord | Write) -> ScheduleRecord:
    """A schedule as it is now; it must exist."""
    [record] = await store.schedules.get([one.id])
    assert record is not None, f"there is no schedule {one.id}"
    return record


async def apply(store: Store, record: ScheduleRecord, progress: Progress, notes: Sequence[Note], now_ms: int) -> bool:
    """Write a schedule's progress, and wake cron; False if the schedule changed meanwhile."""
    write = Write(record.id, record.rev, look_at(progress, now_ms), progress, notes=notes, ring=True)
    return await store.schedules.write([write]) == [Written.OK]


async def pause(store: Store, one: ScheduleRecord, reason: str | None = None) -> None:
    """Let it rest."""
    now_ms, record = await store.now_ms(), await reread(store, one)
    assert await apply(store, record, *paused(record.progress, now_ms, reason), now_ms)


async def lines(store: Store, one: ScheduleRecord | Write) -> list[Line]:
    """Its history, the oldest line first."""
    return (await store.schedules.history(one.id, count=ALL_LINES))[::-1]


async def notes(store: Store, one: ScheduleRecord | Write) -> list[Note]:
    """What its history tells, the oldest first."""
    return [line.note for line in await lines(store, one)]


@contextmanager
def before_write(store: Store, act: Callable[[], Awaitable[object]]) -> Iterator[None]:
    """Let something happen, once, when the runs are started and the records are about to be written."""
    write, acts = store.schedules.write, [act]

    async def late(writes: Sequence[Write]) -> list[Written]:
        if acts:
            await acts.pop()()
        return await write(writes)

    with patch.object(store.schedules, "write", late):
        yield


class Died(Exception):
    """What a settler is told that is to die at a certain point."""


async def births(store: Store) -> Counter[str]:
    """How often each job was submitted: of those that are gone, too."""
    events = [event for partition in store.partitions for event in await partition.history.after("0-0", ALL_EVENTS)]
    return Counter(event.job_id for event in events if event.type == "job.submitted")


async def fired(store: Store, one: ScheduleRecord | Write) -> list[int]:
    """The times of which its history says that they were fired, in this order."""
    return [note.fire_ms for note in await notes(store, one) if note.what is What.FIRED and note.fire_ms is not None]


@contextmanager
def dying(store: Store, where: str, after: int = 0) -> Iterator[None]:
    """Let a settler die when it has started so many runs, each by itself, when it is about to write, or afterwards."""
    submit, write, calls, replies, started = store.submit, store.schedules.write, count(), count(1), asyncio.Event()

    async def submit_or_die(jobs: Sequence[NewJob]) -> list[Submitted]:
        if where == "starting" and next(calls) >= after:
            if after:
                await started.wait()
            raise Died
        words = await submit(jobs)
        if next(replies) == after:
            started.set()
        return words

    async def write_or_die(writes: Sequence[Write]) -> list[Written]:
        if where == "writing":
            raise Died
        words = await write(writes)
        if where == "written":
            raise Died
        return words

    with patch.object(store, "submit", submit_or_die), patch.object(store.schedules, "write", write_or_die):
        yield


async def crons_work(store: Store) -> None:
    """Let the schedulers tell of runs that have ended, and cron do all that is to be done now."""
    await settle(store)
    ticker = Ticker(store, catchup_limit=5, hold_s=3)
    while (await ticker.settle())[1] == 0:
        pass
    await ticker.close()


async def abolish_zone(store: Store, ref: str) -> None:
    """Give a schedule a zone that there is no more, as if it had been there when it was made."""
    found = await store.schedules.find(ref)
    assert found is not None
    old = found.definition
    body = old.body.replace(found.schedule.zone.encode(), b"Mars/Base")
    broken = replace(old, schedule=replace(found.schedule, zone="Mars/Base"), body=body)
    write = Write(found.id, found.rev, look_at(found.progress, 0), found.progress, broken)
    assert await store.schedules.write([write]) == [Written.OK]
