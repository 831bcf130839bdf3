"""POST /api/v1/schedules/{ref}/trigger: run a schedule now, beside its times.

What is asked for is written down first, among what waits: from then on it is not lost, for whoever settles the
schedule, this api or cron, starts it.  Its job's id derives from the schedule, the moment and a key, so that it is
one job however often it is started, and the same one for a request that is sent again.
"""

import secrets
from dataclasses import replace
from hashlib import sha256
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import schedule_shapes
from taskflow_api.body import validate
from taskflow_api.context import Api, api_of
from taskflow_api.describe import IDEMPOTENCY_HEADER, answers, takes
from taskflow_api.errors import Conflict
from taskflow_api.parse import read_any_object
from taskflow_api.paths import PREFIX, SCHEDULE
from taskflow_api.present import answer
from taskflow_api.schedule_bodies import TriggerSchedule
from taskflow_api.schedule_change import (
    NO_SCHEDULE,
    REF,
    find_schedule,
    ref_of,
    refuse_canceled,
    too_busy,
    tries,
    write_change,
)
from taskflow_api.schedule_present import reason_of
from taskflow_api.submit import KEY_HEADER, Keyed, header_key, tie
from taskflow_domain import Fire, Origin, Overlap, What, iso_of_ms, ms_of_id
from taskflow_domain.schedules import MAX_WAITING
from taskflow_streams import Firing, ScheduleRecord, Store, Write, Written

router = APIRouter(prefix=PREFIX, tags=["schedules"])

KEY_CHARS: Final = 16
RECENT_LINES: Final = 100  # of the history, in which to look for what somebody else has just written


@router.post(
    f"{SCHEDULE}/trigger",
    summary="Run a schedule now",
    responses=answers(
        {200: (schedule_shapes.Triggered, "It runs, or will when the run before it ends.")},
        400, 404, 409, 413, 503,
        about={
            404: NO_SCHEDULE,
            409: "It did not run: a run is active and the overlap policy passes this one over, too many wait, it was "
            "cancelled, or the key was used before.",
        },
    ),
    openapi_extra=takes(TriggerSchedule, path=[REF], headers=[IDEMPOTENCY_HEADER], is_required=False),
)  # fmt: skip
async def trigger_schedule(request: Request) -> Response:
    """Start a schedule's job now, beside its times, which go on as they are; also while it is paused or has ended.

    The overlap policy counts, unless another is given for this once.  If it passes the run over, the answer is 409
    with the reason; sent again with the same key, the request tries again.
    """
    api, ref, key = api_of(request), ref_of(request), header_key(request)
    body = validate(TriggerSchedule, await read_any_object(request, api.settings.body_limit_bytes))
    record = await find_schedule(api.store, ref)
    await api.headroom.check(api.store)
    fire = await _fire(api.store, record, key, body.overlap)
    outcome = await _carry_out(api, record.id, fire)
    return answer({"outcome": outcome, "job_id": record.schedule.run_id(fire), "fire_at": iso_of_ms(fire.at_ms)})


async def _fire(store: Store, record: ScheduleRecord, key: str | None, overlap: Overlap | None) -> Fire:
    """What is asked for: with a key, what was asked for when that was first sent."""
    now_ms = await store.now_ms()
    if key is None:
        return Fire(now_ms, Origin.TRIGGER, secrets.token_hex(KEY_CHARS // 2), overlap)
    fire = Fire(now_ms, Origin.TRIGGER, sha256(key.encode()).hexdigest()[:KEY_CHARS], overlap)
    keyed = Keyed(key, f"trigger:{record.id}:{overlap or ''}", KEY_HEADER)
    [run] = await tie(store, [record.schedule.run_id(fire)], [keyed])
    return replace(fire, at_ms=ms_of_id(run))


async def _carry_out(api: Api, schedule_id: str, fire: Fire) -> str:
    """Write it down, and settle the schedule until it is known what became of it.

    Once it is written down it is cron's too: when others change the schedule all the time, that is the answer.
    """
    store, firing = api.store, Firing(api.store, api.settings.catchup_limit)
    is_asked = False
    async for _ in tries():
        record = await find_schedule(store, schedule_id)
        if fire not in record.progress.waiting:
            [has_run] = await store.were_submitted([(record.id, record.schedule.run_id(fire))])
            if has_run:  # also for a request that came before
                return "fired"
            if is_asked:
                raise Conflict(await _why_not(store, record, fire))
            asked = await _ask(store, record, fire)
            if asked is None:
                continue
            record = asked
        is_asked = True
        [settled] = await firing.settle([record], await store.now_ms())
        if settled.word is Written.OK and fire in settled.record.progress.waiting:
            return "buffered"
    if is_asked:
        return "buffered"
    raise too_busy(schedule_id)


async def _ask(store: Store, record: ScheduleRecord, fire: Fire) -> ScheduleRecord | None:
    """The schedule with this among what waits; None if it changed meanwhile."""
    refuse_canceled(record)
    if len(record.progress.waiting) >= MAX_WAITING:
        raise Conflict(f"Schedule {record.id} did not run: {MAX_WAITING:,} fires wait for a run to end already.")
    progress = replace(record.progress, waiting=(*record.progress.waiting, fire))
    # Cron is not woken: this request is about to settle it, and else it would come to it within a second.
    write = Write(record.id, record.rev, await store.now_ms(), progress)
    if not await write_change(store, write):
        return None
    return replace(record, rev=record.rev + 1, progress=progress)


async def _why_not(store: Store, record: ScheduleRecord, fire: Fire) -> str:
    for line in await store.schedules.history(record.id, count=RECENT_LINES):
        note = line.note
        if (note.what, note.origin, note.fire_ms) == (What.SKIPPED, Origin.TRIGGER, fire.at_ms):
            return f"Schedule {record.id} did not run: {reason_of(note)}."
    return f"Schedule {record.id} did not run; its history says why."
