"""GET /workers: who works, in the columns of the second door."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import s2_shapes
from taskflow_api.context import api_of
from taskflow_api.describe import answers, takes
from taskflow_api.present import answer, iso
from taskflow_api.query import read_query
from taskflow_api.roster import Silence, latest, number, queues_of, running_ids, status_of
from taskflow_domain import iso_of_ms
from taskflow_streams import WorkerRecord

router = APIRouter(tags=["workers"])


@router.get(
    "/workers",
    summary="List workers with the jobs they run",
    responses=answers({200: (s2_shapes.ListedWorkers, "All workers, by id.")}, 400, 503),
    openapi_extra=takes(),
)
async def list_roster(request: Request) -> Response:
    """All workers, also those that speak HTTP.

    `offline` was silent for longer than the visibility time-out, `degraded` is late with its heartbeat or says that
    something is wrong.  `running` is what it named at its last heartbeat, 50 jobs at most.
    """
    api = api_of(request)
    read_query(request, {})
    workers, silence = await latest(api.store), Silence.of(api.settings)
    now_ms = await api.store.now_ms()
    return answer({"items": [_show(worker, now_ms, silence) for worker in workers]})


def _show(worker: WorkerRecord, now_ms: int, silence: Silence) -> dict[str, Any]:
    fields, queues = worker.fields, queues_of(worker)
    return {
        "id": worker.id,
        "name": fields.get("name", worker.id),
        "queues": ["*"] if queues is None else queues,
        "concurrency": number(fields.get("concurrency")),
        "last_heartbeat": iso_of_ms(worker.last_heartbeat_ms),
        "started_at": iso(number(fields.get("started_ms"))),
        "status": status_of(worker, now_ms, silence),
        "running": running_ids(worker),
    }
