"""Settles schedules: starts the runs whose time has come, then writes that down by compare-and-set.

In this order, and never the other way: whoever dies in between leaves a record that says less than what happened, and
the next one starts the same runs again, under the same ids, which does nothing.  Any number may settle at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from taskflow_domain import TERMINAL, Fire, Note, Origin, Progress
from taskflow_domain.firing import (
    Begun,
    Concluded,
    absorbed,
    begin,
    broken,
    conclude,
    is_missed,
    look_at,
    tells_end,
    wants_states,
)
from taskflow_streams.records import NewJob, Submitted
from taskflow_streams.schedules import ScheduleRecord, Write, Written
from taskflow_streams.store import Store

START_BATCH = 200  # runs in one call: the first of a thousand are not kept waiting for the last to be made
WRITE_BATCH = 200
TRIES = 20  # each lost race means that somebody else's change went through


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of one schedule."""

    record: ScheduleRecord
    notes: tuple[Note, ...] = ()
    word: Written = Written.OK


class Firing:
    """Settles schedules of one deployment.  `catchup_limit` is for those that do not say it."""

    def __init__(self, store: Store, catchup_limit: int) -> None:
        self._store = store
        self._catchup_limit = catchup_limit

    async def settle(self, records: Sequence[ScheduleRecord], now_ms: int) -> list[Settled]:
        """One step of each of these schedules.  First all runs are started, then the records are written."""
        live = await self._live(records)
        started = await self._started(records, now_ms)
        begun = [self._begin(record, now_ms, live, record.id in started) for record in records]
        old = await self._start(records, begun)
        await self._cancel(begun)
        settled: list[Settled] = []
        for at in range(0, len(records), WRITE_BATCH):
            chunk = slice(at, at + WRITE_BATCH)
            settled += await self._conclude(records[chunk], begun[chunk], old, now_ms)
        return settled

    def _begin(self, record: ScheduleRecord, now_ms: int, live: set[str], is_started: bool) -> Begun:
        try:
            return begin(record.schedule, record.progress, now_ms, self._catchup_limit, live, is_started=is_started)
        except ValueError:  # `_end` will say why
            return Begun(waiting=record.progress.waiting, settled_ms=record.progress.after_ms)

    async def _live(self, records: Sequence[ScheduleRecord]) -> set[str]:
        """The runs of schedules that must know it that have not ended."""
        asked = [
            run
            for record in records
            if wants_states(record.schedule, record.progress)
            for run in record.progress.active
        ]
        states = await self._store.states(asked)
        return {run for run, state in zip(asked, states, strict=True) if state is not None and state not in TERMINAL}

    async def _started(self, records: Sequence[ScheduleRecord], now_ms: int) -> set[str]:
        """Schedules whose next run was missed, by the record alone: it was started."""
        late = {
            record.id: record.schedule.run_id(Fire(record.progress.next_ms))
            for record in records
            if record.progress.next_ms is not None and is_missed(record.progress, now_ms)
        }
        there = await self._store.were_submitted(list(late.values()))
        return {schedule_id for schedule_id, is_there in zip(late, there, strict=True) if is_there}

    async def _start(self, records: Sequence[ScheduleRecord], begun: Sequence[Begun]) -> set[str]:
        """Start all runs; the ids of those that had been started before."""
        jobs: list[NewJob] = []
        calls: list[asyncio.Task[set[str]]] = []
        try:
            async with asyncio.TaskGroup() as group:
                for record, step in zip(records, begun, strict=True):
                    jobs += [
                        record.definition.job(fire, tells_end=tells_end(record.schedule, fire)) for fire in step.starts
                    ]
                    while len(jobs) >= START_BATCH:
                        calls.append(group.create_task(self._submit(jobs[:START_BATCH])))
                        jobs = jobs[START_BATCH:]
                        await asyncio.sleep(0)  # it is on its way while the next are made
                calls.append(group.create_task(self._submit(jobs)))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return set().union(*(call.result() for call in calls))

    async def _submit(self, jobs: list[NewJob]) -> set[str]:
        if not jobs:
            return set()
        words = await self._store.submit(jobs)
        return {job.id for job, word in zip(jobs, words, strict=True) if word is not Submitted.CREATED}

    async def _cancel(self, begun: Sequence[Begun]) -> None:
        for step in begun:
            for run in step.cancels:
                await self._store.cancel(run)

    async def _conclude(
        self, records: Sequence[ScheduleRecord], begun: Sequence[Begun], old: set[str], now_ms: int
    ) -> list[Settled]:
        writes: list[Write] = []
        settled: list[Settled] = []
        for record, step in zip(records, begun, strict=True):
            ran_before = {fire for fire in step.starts if record.schedule.run_id(fire) in old}
            done = _end(record, step, ran_before, now_ms)
            writes.append(Write(record.id, record.rev, done.look_ms, done.progress, notes=done.notes))
            settled.append(Settled(replace(record, rev=record.rev + 1, progress=done.progress), done.notes))
        words = await self._store.schedules.write(writes)
        for i, (word, step) in enumerate(zip(words, begun, strict=True)):
            if word is not Written.OK:
                settled[i] = Settled(records[i], word=word)
                await self._absorb(records[i].id, step)
        return settled

    async def _absorb(self, schedule_id: str, step: Begun) -> None:
        """Somebody changed the schedule after its run was started: that run is told all the same."""
        times = [fire.at_ms for fire in step.starts if fire.origin is Origin.SCHEDULE]
        for _ in range(TRIES):
            [record] = await self._store.schedules.get([schedule_id])
            if record is None:
                return
            now_ms = await self._store.now_ms()
            found = absorbed(record.schedule, record.progress, times)
            if found is None:
                return
            progress, notes = found
            write = Write(record.id, record.rev, look_at(progress, now_ms), progress, notes=notes)
            if await self._store.schedules.write([write]) == [Written.OK]:
                return


def _end(record: ScheduleRecord, step: Begun, ran_before: set[Fire], now_ms: int) -> Concluded:
    try:
        return conclude(record.schedule, record.progress, step, ran_before, now_ms)
    except ValueError as error:
        return broken(record.progress, step, now_ms, f"its times cannot be told: {error}")


async def apply(store: Store, record: ScheduleRecord, progress: Progress, notes: Sequence[Note], now_ms: int) -> bool:
    """Write a schedule's progress, and wake cron; False if the schedule changed meanwhile."""
    write = Write(record.id, record.rev, look_at(progress, now_ms), progress, notes=notes, ring=True)
    return await store.schedules.write([write]) == [Written.OK]
