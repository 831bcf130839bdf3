"""GET /api/v1/workers: who works, and who did until lately; POST /api/v1/workers/{id}/drain."""

import asyncio
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
from taskflow_api.present import answer
from taskflow_api.query import read_query
from taskflow_domain import iso_of_ms
from taskflow_streams import WorkerRecord

router = APIRouter(prefix=PREFIX, tags=["workers"])

_WORKER_ID: Final[dict[str, Any]] = {
    "name": "worker_id",
    "in": "path",
    "required": True,
    "description": "The worker's id, as the list has it.",
    "schema": {"type": "string", "minLength": 1},
}


@router.get(
    "/workers",
    summary="List workers",
    responses=answers({200: (shapes.WorkerList, "All workers, by id.")}, 400, 503),
    openapi_extra=takes(),
)
async def list_workers(request: Request) -> Response:
    """All workers.  One that was silent for longer than the visibility time-out is `offline`."""
    api = api_of(request)
    read_query(request, {})
    lists = await asyncio.gather(*(partition.workers.list() for partition in api.store.partitions))
    latest: dict[str, WorkerRecord] = {}
    for worker in (worker for found in lists for worker in found):
        known = latest.get(worker.id)
        if known is None or worker.last_heartbeat_ms > known.last_heartbeat_ms:
            latest[worker.id] = worker
    now_ms, silence_ms = await api.store.now_ms(), int(api.settings.visibility_timeout_s * 1000)
    return answer({"items": [_show(latest[name], now_ms, silence_ms) for name in sorted(latest)]})


@router.post(
    "/workers/{worker_id}/drain",
    summary="Let a worker take no more jobs",
    responses=answers({200: (shapes.Worker, "The worker, which has the order.")}, 400, 404, 503, about={
        404: "There is no such worker.",
    }),
    openapi_extra=takes(path=[_WORKER_ID]),
)  # fmt: skip
async def drain_worker(request: Request) -> Response:
    """Order a worker to take nothing new.  What it runs goes on, and it stays until it is stopped."""
    api, worker_id = api_of(request), request.path_params["worker_id"]
    read_query(request, {})
    found = await asyncio.gather(*(partition.workers.get(worker_id) for partition in api.store.partitions))
    known = [worker for worker in found if worker is not None]
    if not known:
        raise NotFound(f"There is no worker {printable(worker_id)}.")
    await asyncio.gather(*(partition.workers.order(worker_id, "drain") for partition in api.store.partitions))
    now_ms, silence_ms = await api.store.now_ms(), int(api.settings.visibility_timeout_s * 1000)
    return answer(_show(max(known, key=lambda worker: worker.last_heartbeat_ms), now_ms, silence_ms))


def is_online(worker: WorkerRecord, now_ms: int, silence_ms: int) -> bool:
    """Whether a worker was heard of lately."""
    return now_ms - worker.last_heartbeat_ms <= silence_ms and "buried" not in worker.fields


def takes_from(worker: WorkerRecord, queue: str) -> bool:
    """Whether a worker takes jobs from a queue."""
    queues = queues_of(worker)
    return queues is None or queue in queues


def queues_of(worker: WorkerRecord) -> list[str] | None:
    """The queues that a worker takes jobs from; None is all."""
    named = worker.fields.get("queues", "*")
    return None if named == "*" else [queue for queue in named.split(",") if queue]


def _show(worker: WorkerRecord, now_ms: int, silence_ms: int) -> dict[str, Any]:
    fields = worker.fields
    started_ms = _number(fields.get("started_ms"))
    return {
        "id": worker.id,
        "name": fields.get("name", worker.id),
        "queues": queues_of(worker),
        "concurrency": _number(fields.get("concurrency")),
        "running": _number(fields.get("running")),
        "started_at": None if started_ms is None else iso_of_ms(started_ms),
        "last_heartbeat": iso_of_ms(worker.last_heartbeat_ms),
        "status": _status(worker, now_ms, silence_ms),
        "draining": fields.get("status") in ("draining", "stopping"),
        "running_ids": [job_id for job_id in fields.get("running_ids", "").split(",") if job_id],
        "cpu_percent": float(fields["cpu"]) if fields.get("cpu") else None,
        "memory_bytes": _number(fields.get("rss")),
    }


def _status(worker: WorkerRecord, now_ms: int, silence_ms: int) -> str:
    if not is_online(worker, now_ms, silence_ms):
        return "offline"
    return "degraded" if worker.fields.get("status") == "degraded" else "online"


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
