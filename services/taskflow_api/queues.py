"""GET /api/v1/queues, PATCH /api/v1/queues/{name}: queues as they are, and their settings.

A queue has a part in every partition.  What is counted is added up; a limit is shared out among the parts.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import shapes
from taskflow_api.bodies import UpdateQueue
from taskflow_api.body import validate
from taskflow_api.context import api_of
from taskflow_api.describe import answers, takes
from taskflow_api.errors import Conflict, NotFound
from taskflow_api.fields import ANY_QUEUE_PATTERN
from taskflow_api.parse import printable, read_object
from taskflow_api.paths import PREFIX
from taskflow_api.present import answer
from taskflow_api.query import read_query
from taskflow_streams import QueueRecord, Store

router = APIRouter(prefix=PREFIX, tags=["queues"])

AT_ONCE: Final = 16  # queues that are read at the same time, for each takes a connection
_NAME: Final = re.compile(ANY_QUEUE_PATTERN.removesuffix("$"))
_NAME_PARAMETER: Final[dict[str, Any]] = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "The queue.  One that has had no job yet can be set up too.",
    "schema": {"type": "string", "pattern": ANY_QUEUE_PATTERN},
}


@router.get(
    "/queues",
    summary="List queues",
    responses=answers({200: (shapes.QueueList, "All queues, by name.")}, 400, 503),
    openapi_extra=takes(),
)
async def list_queues(request: Request) -> Response:
    """All queues that ever had a job or a setting."""
    read_query(request, {})
    store = api_of(request).store
    found = await asyncio.gather(*(partition.queues.names() for partition in store.partitions))
    names = sorted({name for names in found for name in names})
    items: list[dict[str, Any]] = []
    for start in range(0, len(names), AT_ONCE):
        items += await asyncio.gather(*(_read(store, name) for name in names[start : start + AT_ONCE]))
    return answer({"items": items})


@router.patch(
    "/queues/{name}",
    summary="Pause, resume or limit a queue",
    responses=answers({200: (shapes.QueueState, "The queue.")}, 400, 404, 409, 413, 503, about={
        404: "That cannot be the name of a queue.",
        409: "The limit is smaller than the number of partitions, over which it would have to be spread.",
    }),
    openapi_extra=takes(UpdateQueue, path=[_NAME_PARAMETER]),
)  # fmt: skip
async def update_queue(request: Request) -> Response:
    """Change a queue's settings.  Jobs that run are left alone; what a pause held back is offered again."""
    api, name = api_of(request), request.path_params["name"]
    read_query(request, {})
    if not _NAME.fullmatch(name):
        raise NotFound(f"There is no queue {printable(name)}.")
    body = validate(UpdateQueue, await read_object(request, api.settings.body_limit_bytes))
    store = api.store
    count = len(store.partitions)
    limit = body.max_concurrent
    if limit is not None and limit < count:
        raise Conflict(f"max_concurrent is shared by {count} partitions, so it cannot be less than {count}.")
    changes, clear = _changes(body)
    for i, partition in enumerate(store.partitions):
        part = {"max_concurrent": (limit + count - 1 - i) // count} if limit is not None else {}
        await partition.queues.set(name, changes | part, clear)
    return answer(await _read(store, name))


def _changes(body: UpdateQueue) -> tuple[dict[str, str | int | float], tuple[str, ...]]:
    """What to set in each partition (but for the limit), and what to take back."""
    said = body.model_fields_set
    changes: dict[str, str | int | float] = {}
    clear: list[str] = []
    if "paused" in said:
        changes["paused"] = int(body.paused)
        if not body.paused:
            clear.append("reason")
    if "weight" in said:
        changes["weight"] = body.weight
    if "max_concurrent" in said and body.max_concurrent is None:
        clear.append("max_concurrent")
    if body.reason is not None:
        changes["reason"] = body.reason
        clear = [field for field in clear if field != "reason"]
    elif "reason" in said:
        clear.append("reason")
    return changes, tuple(clear)


async def _read(store: Store, name: str) -> dict[str, Any]:
    return _show(await asyncio.gather(*(partition.queues.get(name) for partition in store.partitions)))


def _show(parts: Sequence[QueueRecord]) -> dict[str, Any]:
    first = parts[0]
    limits = [part.max_concurrent for part in parts if part.max_concurrent is not None]
    return {
        "name": first.name,
        "waiting": sum(part.waiting for part in parts),
        "running": sum(part.running for part in parts),
        "paused": any(part.paused for part in parts),
        "max_concurrent": sum(limits) if limits else None,
        "weight": first.weight,
        "reason": first.reason,
    }
