"""Workers that speak HTTP, as the engine knows them.

All that a request needs to know of one stands in its record, in every partition, so any replica of the api can serve
any of its requests.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import orjson

from taskflow_api.errors import NotFound
from taskflow_api.parse import printable
from taskflow_api.roster import find, is_draining
from taskflow_streams import Pool, Store, WorkerRecord

KIND: Final = "http"
EVERY_QUEUE: Final = "*"
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Remote:
    """A worker that is registered."""

    id: str
    pool: Pool
    concurrency: int
    draining: bool


async def register(store: Store, name: str, queues: Sequence[str], concurrency: int, handlers: Sequence[str]) -> str:
    """The id of a new worker, which every partition knows."""
    worker_id = str(uuid4())
    named = None if EVERY_QUEUE in queues else list(queues)
    fields: dict[str, str | int | float] = {
        "name": name,
        "kind": KIND,
        "queues": EVERY_QUEUE if named is None else ",".join(named),
        "concurrency": concurrency,
        "handlers": len(handlers),
        "takes": orjson.dumps([handlers, named]).decode(),
        "started_ms": await store.now_ms(),
        "status": "active",
        "running": 0,
    }
    pool = _pool(handlers, named)
    await asyncio.gather(*(partition.workers.join(worker_id, pool, fields) for partition in store.partitions))
    return worker_id


def is_id(worker_id: str) -> bool:
    """Whether a worker over HTTP may have this id: a UUID, and none of our own workers' ids looks like one.

    What is reported in the name of any other is refused without a look at its record.
    """
    return _ID.fullmatch(worker_id) is not None


async def load(store: Store, worker_id: str) -> Remote:
    """The worker; `NotFound` unless all partitions take it for alive: one that some have buried has lost its leases."""
    records = [record for _, record in await find(store, worker_id)]
    if len(records) < len(store.partitions) or not all(_is_alive(record) for record in records):
        raise unknown(worker_id)
    about = records[0].fields
    handlers, queues = orjson.loads(about["takes"])
    draining = any(is_draining(record) for record in records)
    return Remote(worker_id, _pool(handlers, queues), int(about["concurrency"]), draining)


def _is_alive(record: WorkerRecord) -> bool:
    return record.fields.get("kind") == KIND and "pool" in record.fields


def unknown(worker_id: str) -> NotFound:
    """The refusal of a worker that is not registered."""
    return NotFound(
        f"No worker {printable(worker_id)} is registered: there was none, it left, or it was silent for too long.  "
        "Register again, with POST /workers/register."
    )


async def dismiss(store: Store, worker_id: str) -> int:
    """Take a worker off the list; how many jobs it held, which go back at no cost."""
    found = await find(store, worker_id)
    if not any(record.fields.get("kind") == KIND for _, record in found):
        raise unknown(worker_id)
    released = 0
    for partition, _ in found:
        released += await partition.leases.resync(worker_id, [])
        if not await partition.workers.leave(worker_id):  # a lease of its own came in between
            released += await partition.leases.resync(worker_id, [])
            await partition.workers.leave(worker_id)
        await partition.leases.nudge(worker_id)  # a request of it that waits shall see that
    return released


def _pool(handlers: Sequence[str], queues: Sequence[str] | None) -> Pool:
    return Pool(frozenset(handlers), None if queues is None else tuple((name, None) for name in queues))
