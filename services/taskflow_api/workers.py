"""GET /api/v1/workers, POST /api/v1/workers/{worker_id}/drain|resume: who works, and who shall take no more."""

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import shapes
from taskflow_api.context import api_of
from taskflow_api.describe import answers, takes
from taskflow_api.errors import NotFound
from taskflow_api.parse import printable
from taskflow_api.paths import PREFIX
from taskflow_api.present import answer, iso
from taskflow_api.query import read_query
from taskflow_api.roster import Silence, decimal, find, is_draining, latest, number, queues_of, running_ids, status_of
from taskflow_domain import iso_of_ms
from taskflow_streams import WorkerRecord

router = APIRouter(prefix=PREFIX, tags=["workers"])

WORKER_ID: Final[dict[str, Any]] = {
    "name": "worker_id",
    "in": "path",
    "required": True,
    "description": "The worker's id, as the list has it.",
    "schema": {"type": "string", "minLength": 1},
}
NO_WORKER: Final = {404: "There is no such worker."}


@router.get(
    "/workers",
    summary="List workers",
    responses=answers({200: (shapes.WorkerList, "All workers, by id.")}, 400, 503),
    openapi_extra=takes(),
)
async def list_workers(request: Request) -> Response:
    """All workers.

    One that was silent for longer than the visibility time-out is `offline`; one that is late with its heartbeat, or
    says that something is wrong, is `degraded`.
    """
    api = api_of(request)
    read_query(request, {})
    workers, silence = await latest(api.store), Silence.of(api.settings)
    now_ms = await api.store.now_ms()
    return answer({"items": [_show(worker, now_ms, silence) for worker in workers]})


@router.post(
    "/workers/{worker_id}/drain",
    summary="Let a worker take no more jobs",
    responses=answers({200: (shapes.Worker, "The worker, which has the order.")}, 400, 404, 503, about=NO_WORKER),
    openapi_extra=takes(path=[WORKER_ID]),
)
async def drain_worker(request: Request) -> Response:
    """Order a worker to take nothing new.  What it runs goes on, and it stays until it is stopped or resumed.

    The order can be repeated.  A worker that speaks HTTP is told with its next heartbeat or lease.
    """
    return await _order(request, "drain", "draining")


@router.post(
    "/workers/{worker_id}/resume",
    summary="Let a drained worker take jobs again",
    responses=answers({200: (shapes.Worker, "The worker, which has the order.")}, 400, 404, 503, about=NO_WORKER),
    openapi_extra=takes(path=[WORKER_ID]),
)
async def resume_worker(request: Request) -> Response:
    """Take back the order to drain.  A worker that is stopping goes on stopping; one that takes jobs does not care."""
    return await _order(request, "resume", "active")


async def _order(request: Request, verb: str, status: str) -> Response:
    api, worker_id = api_of(request), request.path_params["worker_id"]
    read_query(request, {})
    found = await find(api.store, worker_id)
    if not found:
        raise NotFound(f"There is no worker {printable(worker_id)}.")
    for partition, _ in found:  # one that speaks HTTP has no inbox; every answer tells it what its record says
        await partition.workers.order(worker_id, verb, status)
    worker = max((record for _, record in found), key=lambda record: record.last_heartbeat_ms)
    shown = _show(worker, await api.store.now_ms(), Silence.of(api.settings))
    return answer(shown | {"draining": status == "draining"})


def _show(worker: WorkerRecord, now_ms: int, silence: Silence) -> dict[str, Any]:
    fields = worker.fields
    return {
        "id": worker.id,
        "name": fields.get("name", worker.id),
        "kind": fields.get("kind", "process"),
        "queues": queues_of(worker),
        "concurrency": number(fields.get("concurrency")),
        "running": number(fields.get("running")),
        "running_ids": running_ids(worker),
        "started_at": iso(number(fields.get("started_ms"))),
        "last_heartbeat": iso_of_ms(worker.last_heartbeat_ms),
        "status": status_of(worker, now_ms, silence),
        "draining": is_draining(worker),
        "cpu_percent": decimal(fields.get("cpu")),
        "memory_bytes": number(fields.get("rss")),
    }
