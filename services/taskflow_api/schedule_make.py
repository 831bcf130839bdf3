"""Make a schedule, once, however often the request is sent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from taskflow_api.context import Api, api_of
from taskflow_api.errors import Conflict, Invalid
from taskflow_api.parse import read_object
from taskflow_api.query import read_query
from taskflow_api.schedule_bodies import CreateSchedule
from taskflow_api.schedule_build import define, read_schedule, refuse_without_times
from taskflow_api.schedule_change import name_taken
from taskflow_api.submit import KEY_HEADER, Keyed, fingerprint, header_key, tie, untie
from taskflow_domain import Note, Progress, Schedule, What, partition_of
from taskflow_domain.changing import first_progress
from taskflow_domain.firing import look_at
from taskflow_streams import MOST_SCHEDULES, NewJob, ScheduleRecord, Store, Write, Written


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody wants: as it was read, as it was said, and the job that follows from it."""

    body: CreateSchedule
    said: Mapping[str, Any]
    template: NewJob


async def make_from(request: Request) -> tuple[ScheduleRecord, bool]:
    """The schedule that a request asks for, and whether it is new."""
    api = api_of(request)
    read_query(request, {})
    raw = await read_object(request, api.settings.body_limit_bytes)
    body, template = read_schedule(raw, api.settings)
    key = header_key(request)
    keyed = None if key is None else Keyed(key, fingerprint(raw), KEY_HEADER)
    return await make(api, Asked(body, raw, template), keyed)


async def make(api: Api, asked: Asked, keyed: Keyed | None = None) -> tuple[ScheduleRecord, bool]:
    """The schedule, and whether it is new: a request that is sent again finds what it made."""
    store = api.store
    await api.headroom.check(store)
    fresh = store.new_id()
    [schedule_id] = await tie(store, [fresh], [keyed])
    if schedule_id != fresh and (known := await _existing(store, schedule_id)):
        return known, False
    try:
        word = await _write(store, schedule_id, asked)
        await _refuse(store, word, asked.body.name)
    except (Invalid, Conflict):
        await untie(store, [schedule_id], [keyed])
        raise
    if word is Written.GONE:
        raise Conflict(f"Schedule {schedule_id}, which this request made when it was first sent, was deleted since.")
    record = await _existing(store, schedule_id)
    if record is None:
        raise Conflict(f"Schedule {schedule_id} was deleted as soon as it was made.")
    return record, word is Written.OK


async def _write(store: Store, schedule_id: str, asked: Asked) -> Written:
    now_ms = await store.now_ms()
    body = asked.body
    birth = Schedule(schedule_id, now_ms, partition=partition_of(schedule_id) or 0)
    definition = define(body, asked.said, asked.template, birth)
    refuse_without_times(definition.schedule, now_ms - 1)
    progress = first_progress(definition.schedule, now_ms, paused=body.paused, reason=body.reason)
    look_ms = look_at(progress, now_ms)
    write = Write(schedule_id, 0, look_ms, progress, definition, body.name, now_ms, _notes(progress), ring=True)
    [word] = await store.schedules.write([write])
    return word


async def _refuse(store: Store, word: Written, name: str | None) -> None:
    if word is Written.TAKEN:
        raise await name_taken(store, name or "")
    if word is Written.FULL:
        raise Conflict(f"There are {MOST_SCHEDULES:,} schedules, and no more can be; delete some.")


def _notes(progress: Progress) -> list[Note]:
    rests = [] if progress.pause is None else [Note(What.PAUSED, why=progress.pause.reason)]
    return [Note(What.CREATED), *rests]


async def _existing(store: Store, schedule_id: str) -> ScheduleRecord | None:
    return (await store.schedules.get([schedule_id]))[0]
