"""POST /api/v1/schedules/{ref}/backfill: make up for times that are past."""

import asyncio
import secrets
from dataclasses import replace
from itertools import islice
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import schedule_shapes
from taskflow_api.body import validate
from taskflow_api.context import api_of
from taskflow_api.describe import answers, takes
from taskflow_api.errors import Conflict, Invalid
from taskflow_api.parse import read_object
from taskflow_api.paths import PREFIX, SCHEDULE
from taskflow_api.present import answer
from taskflow_api.schedule_bodies import BackfillSchedule
from taskflow_api.schedule_change import (
    NO_SCHEDULE,
    REF,
    change_of,
    change_schedule,
    find_schedule,
    ref_of,
    refuse_canceled,
    telling_times,
)
from taskflow_domain import Backfill, Overlap, Schedule, iso_of_ms
from taskflow_domain.beginning import times_of
from taskflow_domain.times import MAX_MS
from taskflow_streams import ScheduleRecord, Write

router = APIRouter(prefix=PREFIX, tags=["schedules"])

MOST_TIMES: Final = 10_000  # of one backfill: each is a job, and counting them takes half a second
MOST_BACKFILLS: Final = 10  # of one schedule under way; all of them are in its record
KEY_BYTES: Final = 8


@router.post(
    f"{SCHEDULE}/backfill",
    summary="Make up for times that are past",
    responses=answers(
        {200: (schedule_shapes.Backfilling, "It is under way.")},
        400, 404, 409, 413, 503,
        about={404: NO_SCHEDULE, 409: "It was cancelled, or has too many backfills under way."},
    ),
    openapi_extra=takes(BackfillSchedule, path=[REF]),
)  # fmt: skip
async def backfill_schedule(request: Request) -> Response:
    """Start the jobs of times that are past, at most 10,000; also while the schedule is paused or has ended.

    Those that have run are left out unless `rerun` is true, so that the request can be repeated.  Times before
    `start_at` and after `end_at` are none of the schedule's; an interval has none before it began to count.  Times that
    are about to be fired, or caught up after a downtime, are left to that: `to` in the answer is as far as this goes.
    """
    api, ref = api_of(request), ref_of(request)
    store = api.store
    body = validate(BackfillSchedule, await read_object(request, api.settings.body_limit_bytes))
    now_ms = await store.now_ms()
    if body.to < body.from_:
        raise Invalid.field("to", "must not be before from")
    if body.to > now_ms:
        raise Invalid.field("to", f"must be past; it is {iso_of_ms(now_ms)}")
    record = await find_schedule(store, ref)
    await api.headroom.check(store)
    backfill = Backfill(
        max(0, body.from_ - 1),
        min(body.to, _settled_ms(record)),
        Overlap(body.overlap) if body.overlap else _overlap_of(record.schedule),
        secrets.token_hex(KEY_BYTES) if body.rerun else "",
    )

    def change(record: ScheduleRecord, now_ms: int) -> Write | None:
        refuse_canceled(record)
        under_way = record.progress.backfills
        if backfill in under_way:
            return None
        if len(under_way) >= MOST_BACKFILLS:
            raise Conflict(f"{MOST_BACKFILLS} backfills of schedule {record.id} are under way; wait for one to end.")
        return change_of(record, replace(record.progress, backfills=(*under_way, backfill)), (), now_ms)

    count = await _count(record, backfill)
    if count:
        await change_schedule(store, record.id, change)
    else:
        refuse_canceled(record)
    return answer({
        "count": count, "from": iso_of_ms(body.from_), "to": iso_of_ms(max(backfill.to_ms, body.from_)),
        "overlap": backfill.overlap, "rerun": body.rerun,
    })  # fmt: skip


def _settled_ms(record: ScheduleRecord) -> int:
    """Up to where all times have been fired or passed over; a schedule that rests comes to none by itself."""
    progress = record.progress
    return MAX_MS if progress.pause is not None or progress.over is not None else progress.after_ms


def _overlap_of(schedule: Schedule) -> Overlap:
    return Overlap.ALLOW if schedule.overlap is Overlap.ALLOW else Overlap.BUFFER_ALL


async def _count(record: ScheduleRecord, backfill: Backfill) -> int:
    """How many times there are.  Beside other requests: it may take a while."""
    with telling_times(record):
        times = await asyncio.to_thread(lambda: list(islice(times_of(record.schedule, backfill), MOST_TIMES + 1)))
    if len(times) > MOST_TIMES:
        last = iso_of_ms(times[MOST_TIMES - 1])
        raise Invalid.field("to", f"there are more than {MOST_TIMES:,} times in that span; go up to {last} first")
    return len(times)
