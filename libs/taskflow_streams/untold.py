"""Runs of schedules that were started, and of which nobody has told: who started them died, or lost a race.

The history is the witness.  A run of which it has a line was told; one that is there without a line was not, unless the
line is one of those that are not kept any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from taskflow_domain import Fire, Note, Origin, What
from taskflow_domain.beginning import Begun
from taskflow_domain.untold import comes_upon, perhaps_started, recalled
from taskflow_streams.schedules import HISTORY_LINES, Line, ScheduleRecord
from taskflow_streams.store import Store

ALL_LINES = 2 * HISTORY_LINES  # a history is not cut to the line
RECENT_LINES = 100  # more than are written in the moment in which a race is lost


def run_of(record: ScheduleRecord, fire: Fire) -> tuple[str, str]:
    """A fire's schedule and run."""
    return record.id, record.schedule.run_id(fire)


def runs_told(lines: Iterable[Line]) -> set[str]:
    """The runs of which lines tell that they were started."""
    return {line.note.run for line in lines if line.note.what is What.FIRED and line.note.run is not None}


def fills_back(step: Begun) -> bool:
    """Whether a step makes up for times of the past."""
    return any(fire.origin is Origin.BACKFILL for fire in step.starts)


async def histories(store: Store, records: Sequence[ScheduleRecord]) -> dict[str, list[Line]]:
    """All that is kept of these schedules' histories, the newest lines first."""
    return {record.id: await store.schedules.history(record.id, count=ALL_LINES) for record in records}


async def not_told(store: Store, record: ScheduleRecord, started: set[Fire]) -> set[Fire]:
    """Those of these fires that the history does not tell of; a backfill may have come to a time before its turn."""
    if not started:
        return set()
    told = runs_told(await store.schedules.history(record.id, count=ALL_LINES))
    return {fire for fire in started if record.schedule.run_id(fire) not in told}


async def left_untold(store: Store, record: ScheduleRecord, started: Sequence[Fire]) -> list[Fire]:
    """Which of these fires the schedule will not come upon any more, and no other replica has told of."""
    left = [fire for fire in started if not comes_upon(record.schedule, record.progress, fire)]
    runs = [record.schedule.run_id(fire) for fire in left]
    if not left or record.progress.last_run == runs[-1]:
        return []
    told = runs_told(await store.schedules.history(record.id, count=RECENT_LINES + len(left)))
    return [fire for fire, run in zip(left, runs, strict=True) if run not in told]


async def ran_before(
    store: Store, record: ScheduleRecord, step: Begun, old: set[str], lines: Sequence[Line]
) -> set[Fire]:
    """Times of a backfill whose runs are there, but for those that it started itself and could not say so."""
    fires = {fire: record.schedule.run_id(fire) for fire in step.starts if fire.origin is Origin.BACKFILL}
    there = {fire: run for fire, run in fires.items() if run in old}
    if not there:
        return set()
    told = runs_told(lines)
    # Who could not say it did so after the oldest line that is kept, or all lines are kept.
    since_ms = lines[-1].at_ms if len(lines) >= HISTORY_LINES else 0
    jobs = await store.get(list(there.values()))
    return {
        fire
        for (fire, run), job in zip(there.items(), jobs, strict=True)
        if run in told or fire.at_ms > record.progress.after_ms or (job.created_ms if job else 0) < since_ms
    }


async def up_to_date(store: Store, record: ScheduleRecord, now_ms: int) -> tuple[ScheduleRecord, tuple[Note, ...]]:
    """A schedule that is to be changed, with the runs that somebody started who could not say so, and what to tell."""
    asked = perhaps_started(record.progress, now_ms)
    there = await store.were_submitted([run_of(record, fire) for fire in asked])
    untold = await not_told(store, record, {fire for fire, is_there in zip(asked, there, strict=True) if is_there})
    if not untold:
        return record, ()
    started = [fire for fire in asked if fire in untold]
    progress, notes = recalled(record.schedule, record.progress, started)
    return replace(record, progress=progress), notes
