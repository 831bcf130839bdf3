"""POST /schedules, and `schedule_cron` of POST /jobs: schedules at the flat door, where they pass for jobs."""

from typing import Any, Final

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import schedule_shapes
from taskflow_api.context import Api
from taskflow_api.describe import IDEMPOTENCY_HEADER, answers, takes
from taskflow_api.errors import Conflict
from taskflow_api.fields import ms
from taskflow_api.present import answer, iso
from taskflow_api.s2_bodies import Submission
from taskflow_api.s2_build import flat_work
from taskflow_api.schedule_bodies import NOT_IN_TEMPLATE, CreateSchedule
from taskflow_api.schedule_change import change_of, change_schedule
from taskflow_api.schedule_make import Asked, make, make_from
from taskflow_api.schedule_present import next_ms, schedule_place
from taskflow_api.submit import Keyed
from taskflow_domain import Over, iso_of_ms
from taskflow_domain.changing import canceled
from taskflow_streams import NewJob, ScheduleRecord, Store, Write

router = APIRouter(tags=["submissions"])

NO_LOGS: Final[dict[str, Any]] = {"items": [], "next": None}


@router.post(
    "/schedules",
    status_code=201,
    summary="Submit a schedule",
    responses=answers(
        {
            201: (schedule_shapes.ScheduleRef, "The new schedule's id."),
            200: (schedule_shapes.ScheduleRef, "The id of the schedule that this key has made before."),
        },
        400, 409, 413, 503,
        about={409: "Another schedule has the name, there are too many, or the key was used before."},
    ),
    openapi_extra=takes(CreateSchedule, headers=[IDEMPOTENCY_HEADER]),
)  # fmt: skip
async def submit_schedule(request: Request) -> Response:
    """Make a schedule.  Everything else about it is at `/api/v1/schedules`."""
    record, is_new = await make_from(request)
    return answer({"id": record.id}, 201 if is_new else 200, schedule_place(record.id) if is_new else None)


async def make_of_job(
    api: Api, body: Submission, type_: str, fields: dict[str, Any], payload: bytes, raw: dict[str, Any],
    keyed: Keyed | None,
) -> tuple[ScheduleRecord, bool]:  # fmt: skip
    """The schedule that a job with `schedule_cron` asks for, and whether it is new."""
    job = {name: value for name, value in raw.items() if name not in NOT_IN_TEMPLATE}
    said = {"cron": body.schedule_cron, "owner": body.owner, "job": job}
    work = flat_work(body, type_, fields, payload, api.settings.retry_max_default)
    template = NewJob(id="", ttl_ms=ms(body.ttl_s), **work)
    return await make(api, Asked(CreateSchedule.model_validate(said), said, template), keyed)


async def cancel_schedule(store: Store, schedule_id: str) -> None:
    """It fires no more; what waits for its turn is not started."""

    def change(record: ScheduleRecord, now_ms: int) -> Write:
        if record.progress.is_done:
            raise Conflict(f"Schedule {record.id} has ended: it has {_ending(status_word(record))}.")
        return change_of(record, *canceled(record.progress), now_ms)

    await change_schedule(store, schedule_id, change)


def status_word(record: ScheduleRecord) -> str:
    """How a schedule is, as if it were a job."""
    if not record.progress.is_done:
        return "queued"
    return "canceled" if record.progress.over is Over.CANCELED else "succeeded"


def schedule_columns(record: ScheduleRecord) -> dict[str, Any]:
    """A schedule as if it were a job, which waits for its next time."""
    job = record.definition.template
    return {
        "id": record.id,
        "queue": job.queue,
        "type": job.type,
        "payload": orjson.Fragment(job.payload),
        "schedule_cron": record.schedule.cron,
        "priority": job.order,
        "retries_max": job.retry.max_attempts - 1,
        "retries_attempted": 0,
        "status": status_word(record),
        "created_at": iso_of_ms(record.created_ms),
        "scheduled_at": iso(next_ms(record)),
        "started_at": None,
        "finished_at": iso_of_ms(record.updated_ms) if record.progress.is_done else None,
        "result": None,
        "error": None,
        "owner": job.owner,
        "progress": None,
        "stdout": "",
        "stderr": "",
        "lease": None,
        "logs": NO_LOGS,
    }


def _ending(word: str) -> str:
    return "been canceled" if word == "canceled" else word
