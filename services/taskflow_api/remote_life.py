"""POST /workers/register, POST /workers/{worker_id}/heartbeat, DELETE /workers/{worker_id}: a worker's life."""

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import remote, remote_shapes
from taskflow_api.body import validate
from taskflow_api.context import api_of
from taskflow_api.describe import answers, takes
from taskflow_api.parse import read_object
from taskflow_api.paths import WORKER
from taskflow_api.present import answer
from taskflow_api.query import read_query
from taskflow_api.remote_bodies import Heartbeat, RegisterWorker
from taskflow_api.remote_held import give_back_others, renew
from taskflow_api.workers import WORKER_ID

router = APIRouter(tags=["workers over HTTP"])

SHOWN_IDS: Final = 50  # of running jobs, in the list of workers
NOT_REGISTERED: Final = {404: "No such worker is registered: register again."}


@router.post(
    "/workers/register",
    status_code=201,
    summary="Register a worker",
    responses=answers({201: (remote_shapes.Registered, "The new worker's id.")}, 400, 413, 503),
    openapi_extra=takes(RegisterWorker),
)
async def register_worker(request: Request) -> Response:
    """Begin to work, in any language.  Do so at every start: an id is not used twice.

    A worker gets the jobs of its queues that one of its `handlers` can run.  From now on it sends heartbeats.  One
    that was silent for longer than the visibility time-out is unknown (404), its jobs are given to others, and it
    has to register again.
    """
    api = api_of(request)
    read_query(request, {})
    body = validate(RegisterWorker, await read_object(request, api.settings.body_limit_bytes))
    worker_id = await remote.register(api.store, body.name, body.queues, body.concurrency, body.handlers)
    clock = {
        "heartbeat_s": api.settings.heartbeat_s,
        "visibility_timeout_s": api.settings.visibility_timeout_s,
    }
    return answer({"id": worker_id, **clock}, 201)


@router.post(
    f"{WORKER}/heartbeat",
    summary="Keep the leases of running jobs",
    responses=answers({200: (remote_shapes.Beat, "What to know.")}, 400, 404, 413, 503, about=NOT_REGISTERED),
    openapi_extra=takes(Heartbeat, path=[WORKER_ID]),
)
async def beat(request: Request) -> Response:
    """Say which jobs are running, at every `heartbeat_s`, also while a lease request waits.

    Their leases are kept.  A lease that is not named, and is older than a heartbeat's pause, is given back at no cost:
    the answer that brought it was lost.
    """
    api, worker_id = api_of(request), request.path_params["worker_id"]
    read_query(request, {})
    body = validate(Heartbeat, await read_object(request, api.settings.body_limit_bytes))
    store = api.store
    worker = await remote.load(store, worker_id)
    renewed = await renew(store, worker_id, body.running, _fields(body))
    if not renewed.known:
        raise remote.unknown(worker_id)
    posted_ms = await store.now_ms() - int(api.settings.heartbeat_s * 1000)
    await give_back_others(store, worker_id, body.running, posted_ms)
    return answer({"lost": renewed.lost, "cancel": renewed.cancel, "draining": worker.draining})


@router.delete(
    WORKER,
    summary="Take a worker off the list",
    responses=answers({200: (remote_shapes.Dismissed, "It has left.")}, 400, 404, 503, about=NOT_REGISTERED),
    openapi_extra=takes(path=[WORKER_ID]),
)
async def dismiss_worker(request: Request) -> Response:
    """End a worker's registration.  What it holds is given back, and costs no attempt.  Only for those over HTTP."""
    read_query(request, {})
    return answer({"released": await remote.dismiss(api_of(request).store, request.path_params["worker_id"])})


def _fields(body: Heartbeat) -> dict[str, str | int | float]:
    fields: dict[str, str | int | float] = {
        "running": len(body.running),
        "running_ids": ",".join(body.running[:SHOWN_IDS]),
    }
    if body.cpu_percent is not None:
        fields["cpu"] = body.cpu_percent
    if body.memory_bytes is not None:
        fields["rss"] = body.memory_bytes
    return fields
