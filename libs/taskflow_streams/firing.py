"""Settles schedules: starts the runs whose time has come, then writes that down by compare-and-set.

In this order, and never the other way: whoever dies in between leaves a record that says less than what happened, and
the next one starts the same runs again, under the same ids, which does nothing.  Any number may settle at once.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from taskflow_domain import TERMINAL, Fire, Note, partition_of
from taskflow_domain.beginning import Begun, begin, tells_end, wants_states
from taskflow_domain.firing import Concluded, broken, conclude, look_at
from taskflow_domain.untold import passed_over, recalled
from taskflow_streams.records import NewJob, Submitted
from taskflow_streams.schedules import Line, ScheduleRecord, Write, Written
from taskflow_streams.store import Store
from taskflow_streams.untold import fills_back, histories, left_untold, not_told, ran_before, run_of, runs_told

START_BATCH = 200  # runs in one call: the first of a thousand are not kept waiting for the last to be made
WRITE_BATCH = 200
TRIES = 20  # each lost race means that somebody else's change went through
FEW_STARTS = 50  # of one schedule in one step: it remembers twice as many of its runs that were removed


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
        begun = [begin(one.schedule, one.progress, now_ms, self._catchup_limit, live) for one in records]
        started: dict[int, set[Fire]] = defaultdict(set)
        while found := await self._passed_over(records, begun):
            for i, fires in found.items():
                one, started[i] = records[i], started[i] | fires
                begun[i] = begin(one.schedule, one.progress, now_ms, self._catchup_limit, live, started[i])
        lines = await histories(
            self._store, [one for one, step in zip(records, begun, strict=True) if fills_back(step)]
        )
        old = await self._start(records, begun, runs_told(line for each in lines.values() for line in each))
        await self._cancel(run for step in begun for run in step.cancels)
        settled: list[Settled] = []
        for at in range(0, len(records), WRITE_BATCH):
            chunk = slice(at, at + WRITE_BATCH)
            settled += await self._conclude(records[chunk], begun[chunk], old, lines, now_ms)
        return settled

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

    async def _passed_over(self, records: Sequence[ScheduleRecord], begun: Sequence[Begun]) -> dict[int, set[Fire]]:
        """By step, fires that it passes over and whose runs are there: somebody started them who could not say so."""
        asked = [
            (i, fire)
            for i, (record, step) in enumerate(zip(records, begun, strict=True))
            for fire in passed_over(record.progress, step)
        ]
        there = await self._store.were_submitted([run_of(records[i], fire) for i, fire in asked])
        found: dict[int, set[Fire]] = defaultdict(set)
        for (i, fire), is_there in zip(asked, there, strict=True):
            if is_there:
                found[i].add(fire)
        untold = {i: await not_told(self._store, records[i], fires) for i, fires in found.items()}
        return {i: fires for i, fires in untold.items() if fires}

    async def _start(self, records: Sequence[ScheduleRecord], begun: Sequence[Begun], told: set[str]) -> set[str]:
        """Start all runs but for backfills that are told to have run; the ids of those that were started before."""
        jobs: list[NewJob] = []
        calls: list[asyncio.Task[set[str]]] = []
        try:
            async with asyncio.TaskGroup() as group:
                for record, step in zip(records, begun, strict=True):
                    jobs += [job for job in _jobs(record, step) if job.id not in told]
                    while len(jobs) >= START_BATCH:
                        calls.append(group.create_task(self._submit(jobs[:START_BATCH])))
                        jobs = jobs[START_BATCH:]
                        await asyncio.sleep(0)  # it is on its way while the next are made
                calls.append(group.create_task(self._submit(jobs)))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return told.union(*(call.result() for call in calls))

    async def _submit(self, jobs: list[NewJob]) -> set[str]:
        if not jobs:
            return set()
        words = await self._store.submit(jobs)
        return {job.id for job, word in zip(jobs, words, strict=True) if word is not Submitted.CREATED}

    async def _cancel(self, runs: Iterable[str]) -> None:
        homes: dict[int, list[str]] = defaultdict(list)
        for run in runs:
            homes[partition_of(run) or 0].append(run)
        for index, members in homes.items():
            for at in range(0, len(members), START_BATCH):
                await self._store.partitions[index].jobs.cancel(members[at : at + START_BATCH])

    async def _conclude(
        self,
        records: Sequence[ScheduleRecord],
        begun: Sequence[Begun],
        old: set[str],
        lines: Mapping[str, Sequence[Line]],
        now_ms: int,
    ) -> list[Settled]:
        writes: list[Write] = []
        settled: list[Settled] = []
        left_out = [
            await ran_before(self._store, record, step, old, lines.get(record.id, ()))
            for record, step in zip(records, begun, strict=True)
        ]
        for record, step, before in zip(records, begun, left_out, strict=True):
            done = _end(record, step, before, now_ms)
            writes.append(Write(record.id, record.rev, done.look_ms, done.progress, notes=done.notes))
            settled.append(Settled(replace(record, rev=record.rev + 1, progress=done.progress), done.notes))
        words = await self._store.schedules.write(writes)
        lost: dict[str, list[Fire]] = {}
        for i, (word, step) in enumerate(zip(words, begun, strict=True)):
            if word is not Written.OK:
                settled[i] = Settled(records[i], word=word)
                lost[records[i].id] = [fire for fire in step.starts if fire not in left_out[i]]
        await self._absorb({one: fires for one, fires in lost.items() if fires})
        return settled

    async def _absorb(self, lost: Mapping[str, Sequence[Fire]]) -> None:
        """Somebody changed these schedules after their runs were started: those are told all the same."""
        for _ in range(TRIES):
            if not lost:
                return
            now_ms = await self._store.now_ms()
            writes: list[Write] = []
            for record in await self._store.schedules.get(list(lost)):
                untold = await left_untold(self._store, record, lost[record.id]) if record else []
                if record and untold:
                    progress, notes = recalled(record.schedule, record.progress, untold)
                    writes.append(Write(record.id, record.rev, look_at(progress, now_ms), progress, notes=notes))
            words = await self._store.schedules.write(writes)
            lost = {
                write.id: lost[write.id] for write, word in zip(writes, words, strict=True) if word is Written.CHANGED
            }


def _jobs(record: ScheduleRecord, step: Begun) -> Iterator[NewJob]:
    is_one_of_many = len(step.starts) > FEW_STARTS
    for fire in step.starts:
        tells = tells_end(record.schedule, fire)
        yield record.definition.job(fire, tells_end=tells, is_one_of_many=is_one_of_many)


def _end(record: ScheduleRecord, step: Begun, ran_before: set[Fire], now_ms: int) -> Concluded:
    try:
        return conclude(record.schedule, record.progress, step, ran_before, now_ms)
    except ValueError as error:
        return broken(record.progress, step, now_ms, f"its times cannot be told: {error}")
