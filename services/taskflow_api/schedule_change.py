"""Schedules as requests name them, and changes of them by compare-and-set: computed again if another came first."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request

from taskflow_api.errors import Busy, Conflict, NotFound
from taskflow_api.parse import printable
from taskflow_api.query import read_query
from taskflow_domain import Note, Over, Progress, canonical_id
from taskflow_domain.firing import look_at
from taskflow_streams import ScheduleRecord, Store, Write, Written, up_to_date

TRIES: Final = 30  # each lost race means that somebody else's change went through
FIRST_PAUSE_S: Final = 0.001
LONGEST_PAUSE_S: Final = 0.2
NO_SCHEDULE: Final = "There is no such schedule."
REF: Final[dict[str, Any]] = {
    "name": "ref",
    "in": "path",
    "required": True,
    "description": "The schedule's id or name.  What can be neither names no schedule: 404.",
    "schema": {"type": "string", "minLength": 1},
}

Change = Callable[[ScheduleRecord, int], Write | None]


class NameTaken(Conflict):
    """Another schedule has the name."""


def ref_of(request: Request) -> str:
    """The schedule a request's path names, for requests without a query."""
    read_query(request, {})
    return path_ref(request)


def path_ref(request: Request) -> str:
    """The schedule a request's path names."""
    return str(request.path_params["ref"])


async def look_up(store: Store, ref: str) -> ScheduleRecord | None:
    """The schedule of this id or name; None if there is none."""
    return await store.schedules.find(canonical_id(ref) or ref)


async def find_schedule(store: Store, ref: str) -> ScheduleRecord:
    """The schedule of this id or name, or `NotFound`."""
    record = await look_up(store, ref)
    if record is None:
        raise NotFound(f"There is no schedule {printable(ref)}.")
    return record


async def change_schedule(store: Store, ref: str, change: Change) -> ScheduleRecord:
    """The schedule after a change.  What gives no `Write` changes nothing."""
    async for _ in tries():
        record = await find_schedule(store, ref)
        now_ms = await store.now_ms()
        with telling_times(record):
            fresh, told = await up_to_date(store, record, now_ms)
            write = change(fresh, now_ms)
        if write is None:
            return record
        if await write_change(store, replace(write, notes=(*told, *write.notes))):
            return await find_schedule(store, record.id)
    raise too_busy(ref)


async def tries() -> AsyncIterator[int]:
    """Tries of a change, with a pause before each but the first: the more that lost, the longer, and never in step."""
    for i in range(TRIES):
        if i:
            await asyncio.sleep(random.uniform(0, min(FIRST_PAUSE_S * 2**i, LONGEST_PAUSE_S)))
        yield i


async def write_change(store: Store, write: Write) -> bool:
    """Write a change; False if the schedule changed meanwhile."""
    [word] = await store.schedules.write([write])
    if word is Written.TAKEN:
        raise await name_taken(store, write.name or "")
    return word is Written.OK


def change_of(
    record: ScheduleRecord, progress: Progress, notes: Sequence[Note], now_ms: int, *, ring: bool = True
) -> Write:
    """What to write of a change in progress."""
    return Write(record.id, record.rev, look_at(progress, now_ms), progress, notes=notes, ring=ring)


def refuse_canceled(record: ScheduleRecord) -> None:
    """What was cancelled does not come back."""
    if record.progress.over is Over.CANCELED:
        raise Conflict(f"Schedule {record.id} was cancelled; make another.")


@contextmanager
def telling_times(record: ScheduleRecord) -> Iterator[None]:
    """Work with a schedule's times, which was possible when it was made."""
    try:
        yield
    except ValueError as error:  # such as of a zone that was abolished
        raise Conflict(f"The times of schedule {record.id} cannot be told: {error}.  Change it first.") from None


async def name_taken(store: Store, name: str) -> NameTaken:
    """The refusal that says who has a name."""
    holder = await store.schedules.find(name)
    whose = f"Schedule {holder.id}" if holder else "Another schedule"
    return NameTaken(f"{whose} has the name {printable(name)}.")


def too_busy(ref: str) -> Busy:
    """The refusal after many lost races."""
    return Busy(f"Schedule {printable(ref)} is being changed by others; try again soon.")
