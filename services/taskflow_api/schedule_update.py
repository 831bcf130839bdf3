"""PUT /api/v1/schedules/{ref}: change a schedule, or make the one of that name.

What is sent is merged into what was said before, and the whole is read anew.  The change is computed from one
revision and applied only if that is still the schedule's; else it is computed again.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import schedule_shapes
from taskflow_api.context import Api, api_of
from taskflow_api.describe import answers, takes
from taskflow_api.errors import Detail, Invalid, NotFound
from taskflow_api.parse import printable, read_object
from taskflow_api.paths import PREFIX, SCHEDULE
from taskflow_api.schedule_bodies import (
    IGNORED,
    IMMUTABLE,
    LONGEST_NAME,
    TIMING,
    CreateSchedule,
    UpdateSchedule,
    schedule_name,
)
from taskflow_api.schedule_build import NOT_SAID, define, read_schedule, refuse_without_times
from taskflow_api.schedule_change import (
    NO_SCHEDULE,
    REF,
    TRIES,
    NameTaken,
    change_of,
    change_schedule,
    look_up,
    ref_of,
    refuse_canceled,
    too_busy,
)
from taskflow_api.schedule_make import Asked, make
from taskflow_api.schedule_present import show_schedule
from taskflow_api.settings import ApiSettings
from taskflow_domain import Note, Progress, Schedule, What, canonical_id, ms_of_iso
from taskflow_domain.changing import paused, redefined, resumed
from taskflow_streams import NewJob, ScheduleRecord, Write

router = APIRouter(prefix=PREFIX, tags=["schedules"])

Given = Mapping[str, Any]


@router.put(
    SCHEDULE,
    summary="Change a schedule, or make it",
    responses=answers(
        {
            200: (schedule_shapes.Schedule, "The schedule as it is now."),
            201: (schedule_shapes.Schedule, "The new schedule; there was none of that name."),
        },
        400, 404, 409, 413, 503,
        about={404: NO_SCHEDULE, 409: "Another schedule has the name, or it was cancelled."},
    ),
    openapi_extra=takes(UpdateSchedule, path=[REF]),
)  # fmt: skip
async def update_schedule(request: Request) -> Response:
    """Change a schedule: send the fields to change, or the whole schedule as it was read.

    What cannot be changed (`id`, `created_at`) must then be the same, and what only the server sets is ignored.
    `cron` takes the place of `interval_s`, and the other way round; a `job` takes the place of the one before as a
    whole; `paused` pauses and resumes.  Other times count from now.  Jobs that it has started are left alone.

    If there is no schedule of that name, and all that one needs is sent, it is made: the same request can be sent
    again and again.
    """
    api, ref = api_of(request), ref_of(request)
    raw = await read_object(request, api.settings.body_limit_bytes)
    given = {name: value for name, value in raw.items() if name not in (*IMMUTABLE, *IGNORED)}
    for _ in range(TRIES):
        if await look_up(api.store, ref) is None:
            try:
                return show_schedule(await _make(api, ref, raw, given), 201)
            except NameTaken:  # just now
                continue
        record = await change_schedule(
            api.store, ref, lambda record, now_ms: _change(record, raw, given, api.settings, now_ms)
        )
        return show_schedule(record)
    raise too_busy(ref)


async def _make(api: Api, name: str, raw: Given, given: Given) -> ScheduleRecord:
    if not _may_be_name(name):
        hint = "" if canonical_id(name) else ", and none can have that name"
        raise NotFound(f"There is no schedule {printable(name)}{hint}.")
    if given.get("job") is None or all(given.get(field) is None for field in TIMING):
        hint = "to make it, send at least a job, and cron or interval_s"
        raise NotFound(f"There is no schedule {printable(name)}; {hint}.")
    found = [Detail(field, "is set by the server; leave it out of a new one") for field in IMMUTABLE if field in raw]
    if given.get("name") not in (None, name):
        found.append(Detail("name", "differs from the one in the path, which no schedule has"))
    body, template = _read({**given, "name": name}, api.settings, None, found)
    record, _ = await make(api, Asked(body, given, template))
    return record


def _change(record: ScheduleRecord, raw: Given, given: Given, settings: ApiSettings, now_ms: int) -> Write | None:
    """What to write; None if there is nothing to change."""
    refuse_canceled(record)
    found = [
        Detail(field, "cannot be changed") for field in IMMUTABLE if field in raw and not _is_same(record, field, raw)
    ]
    old = record.definition
    before = json.loads(old.body)
    said = _merged(before, given)
    stays = "job" in said and _text(said["job"]) == _text(before.get("job"))
    spoken = {field: given[field] for field in NOT_SAID if field in given}
    body, template = _read(said | spoken, settings, old.template if stays else None, found)

    new = define(body, said, template, record.schedule)
    name = None if "name" not in given or body.name == record.name else body.name or ""
    progress, notes = record.progress, tuple[Note, ...]()
    is_new = replace(new, body=old.body) != old
    if is_new:
        if not old.schedule.same_times(new.schedule):
            refuse_without_times(new.schedule, max(progress.after_ms, now_ms))
        progress, notes = redefined(old.schedule, new.schedule, progress, now_ms)
    elif name is not None:
        notes = (Note(What.UPDATED),)
    progress, more = _rested(body, given, new.schedule, progress, now_ms)
    if not notes and not more:
        return None
    write = change_of(record, progress, (*notes, *more), now_ms)
    return replace(write, definition=new if is_new else None, name=name)


def _may_be_name(ref: str) -> bool:
    try:
        return len(schedule_name(ref)) <= LONGEST_NAME
    except ValueError:  # it is an id, or cannot be in a path
        return False


def _merged(before: Given, given: Given) -> dict[str, Any]:
    """What is said in all; of the two that say when, the new one."""
    said = dict(before)
    for name, rival in (TIMING, TIMING[::-1]):
        if given.get(name) is not None and given.get(rival) is None:
            said.pop(rival, None)
    said |= {name: value for name, value in given.items() if name not in NOT_SAID}
    return {name: value for name, value in said.items() if value is not None}


def _read(
    said: Given, settings: ApiSettings, kept: NewJob | None, found: list[Detail]
) -> tuple[CreateSchedule, NewJob]:
    """What was said, read; `Invalid` with everything that is wrong, also what was found before."""
    try:
        read = read_schedule(said, settings, kept)
    except Invalid as error:
        raise Invalid.of([*found, *error.details]) from None
    if found:
        raise Invalid.of(found)
    return read


def _rested(
    body: CreateSchedule, given: Given, schedule: Schedule, progress: Progress, now_ms: int
) -> tuple[Progress, tuple[Note, ...]]:
    """Paused or resumed, if that was said and changes anything."""
    pause = progress.pause
    if not (body.paused if "paused" in given else pause is not None):
        return resumed(schedule, progress, now_ms)
    if pause is None:
        return paused(progress, now_ms, body.reason)
    reason = body.reason if "reason" in given else pause.reason
    if pause.reason == reason:
        return progress, ()
    return paused(progress, now_ms, reason)


def _is_same(record: ScheduleRecord, field: str, raw: Given) -> bool:
    value = raw[field]
    if not isinstance(value, str):
        return False
    if field == "id":
        return canonical_id(value) == record.id
    try:
        return ms_of_iso(value) == record.created_ms
    except ValueError:
        return False


def _text(value: object) -> str:
    """The same for what is the same JSON: 1 is neither 1.0 nor true."""
    return json.dumps(value, sort_keys=True)
