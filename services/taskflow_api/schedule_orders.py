"""POST /api/v1/schedules/{ref}/pause|resume: let a schedule rest, and go on."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import schedule_shapes
from taskflow_api.body import validate
from taskflow_api.context import api_of
from taskflow_api.describe import answers, takes
from taskflow_api.parse import read_any_object
from taskflow_api.paths import PREFIX, SCHEDULE
from taskflow_api.schedule_bodies import PauseSchedule
from taskflow_api.schedule_change import NO_SCHEDULE, REF, change_of, change_schedule, ref_of, refuse_canceled
from taskflow_api.schedule_present import show_schedule
from taskflow_domain.changing import paused, resumed
from taskflow_streams import ScheduleRecord, Write

router = APIRouter(prefix=PREFIX, tags=["schedules"])

ABOUT = {404: NO_SCHEDULE, 409: "It was cancelled."}


@router.post(
    f"{SCHEDULE}/pause",
    summary="Let a schedule rest",
    responses=answers({200: (schedule_shapes.Schedule, "The schedule.")}, 400, 404, 409, 413, 503, about=ABOUT),
    openapi_extra=takes(PauseSchedule, path=[REF], is_required=False),
)
async def pause_schedule(request: Request) -> Response:
    """Let a schedule rest until it is resumed; jobs that it has started are left alone.

    It can be repeated; a reason takes the place of the one before.
    """
    api, ref = api_of(request), ref_of(request)
    body = validate(PauseSchedule, await read_any_object(request, api.settings.body_limit_bytes))

    def change(record: ScheduleRecord, now_ms: int) -> Write | None:
        refuse_canceled(record)
        pause = record.progress.pause
        if pause is not None and body.reason in (None, pause.reason):
            return None
        return change_of(record, *paused(record.progress, now_ms, body.reason), now_ms)

    return show_schedule(await change_schedule(api.store, ref, change))


@router.post(
    f"{SCHEDULE}/resume",
    summary="Let a paused schedule go on",
    responses=answers({200: (schedule_shapes.Schedule, "The schedule.")}, 400, 404, 409, 503, about=ABOUT),
    openapi_extra=takes(path=[REF]),
)
async def resume_schedule(request: Request) -> Response:
    """Let a schedule go on with its next time.  Times that it rested through are not made up for, but told.

    It can be repeated.
    """

    def change(record: ScheduleRecord, now_ms: int) -> Write | None:
        refuse_canceled(record)
        if record.progress.pause is None:
            return None
        return change_of(record, *resumed(record.schedule, record.progress, now_ms), now_ms)

    return show_schedule(await change_schedule(api_of(request).store, ref_of(request), change))
