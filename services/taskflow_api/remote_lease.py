"""POST /workers/{worker_id}/lease: jobs for a worker, as soon as there are any.

Who waits sleeps in a blocking read, as our own workers do.  What can go wrong on the way orphans nothing:

- the client goes while it waits: nothing was leased for it, and a bell that rang for it rings for the others;
- it has gone when jobs were leased for it: they are given back at once;
- the answer is lost on its way, or this process dies: the worker's next request with `running`, or its next
  heartbeat, gives them back; if there is neither, the visibility time-out does.
"""

import asyncio
import random
from typing import Any, Final

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import remote, remote_shapes
from taskflow_api.body import validate
from taskflow_api.context import Api, api_of
from taskflow_api.describe import answers, takes
from taskflow_api.front import PATIENT
from taskflow_api.parse import read_object
from taskflow_api.paths import WORKER
from taskflow_api.present import answer
from taskflow_api.query import read_query
from taskflow_api.remote_bodies import AskForJobs
from taskflow_api.remote_held import give_back, give_back_others, renew
from taskflow_api.remote_life import NOT_REGISTERED
from taskflow_api.sse import disconnected
from taskflow_api.workers import WORKER_ID
from taskflow_domain import iso_of_ms
from taskflow_streams import Lease, Partition, Store, Unavailable

router = APIRouter(tags=["workers over HTTP"])

SHORTEST_SLEEP_S: Final = 0.01  # to the server, 0 is for ever
LONGEST_SLEEP_S: Final = 25.0  # of one blocking read, which may last 30


@router.post(
    f"{WORKER}/lease",
    summary="Take jobs, and wait for them",
    responses=answers({200: (remote_shapes.LeasedJobs, "The jobs.")}, 400, 404, 413, 503, about=NOT_REGISTERED),
    openapi_extra=takes(AskForJobs, path=[WORKER_ID]),
)
async def lease_jobs(request: Request) -> Response:
    """Take up to `max` jobs; if there are none, wait for the first for up to `wait_s`.

    Ask for as many as there is room for.  With `running`, no more come than the worker's concurrency leaves room for
    beside those; if that is none, the answer is empty at once.  Without it, the concurrency bounds this answer alone:
    what other answers brought is not counted.  From the answer on, name the jobs in every heartbeat until their end
    was accepted.  While this request waits, the worker counts as alive, but the leases it has are kept by heartbeats
    alone.  If no answer came, ask again with `running`.
    """
    api, worker_id = api_of(request), request.path_params["worker_id"]
    read_query(request, {})
    body = validate(AskForJobs, await read_object(request, api.settings.body_limit_bytes))
    request.scope[PATIENT] = True
    if body.running is not None:
        await remote.load(api.store, worker_id)
        await give_back_others(api.store, worker_id, body.running, await api.store.now_ms())
    gone = asyncio.create_task(disconnected(request.receive))
    stop = asyncio.create_task(api.stopping.wait())
    try:
        asking = _Asking(api, worker_id, body, [gone, stop])
        leases = await asking.leases()
        if leases and gone.done():
            await give_back(api.store, worker_id, leases)
            leases = []
    finally:
        gone.cancel()
        stop.cancel()
    return answer({"items": [_show(worker_id, lease) for lease in leases], "draining": asking.draining})


class _Asking:
    """One request for jobs.  It is over when one of the tasks `ends` is done."""

    def __init__(self, api: Api, worker_id: str, body: AskForJobs, ends: list[asyncio.Task[Any]]) -> None:
        self.draining = False
        self._api, self._store, self._worker_id, self._ends = api, api.store, worker_id, ends
        self._most, self._busy, self._wait_s = body.max, len(body.running or ()), body.wait_s
        self._full = False
        self._rung: set[Partition] = set()  # whose bell this request took, and has not looked at since

    async def leases(self) -> list[Lease]:
        """The jobs, as soon as there are any; none when the time is over, or the worker can or shall have no more."""
        if not self._wait_s:
            return await self._look()
        with self._api.patience.room(len(self._store.partitions)):
            try:
                return await self._wait()
            finally:
                for partition in self._rung:
                    await partition.leases.ring(self._pool)

    async def _wait(self) -> list[Lease]:
        clock = asyncio.get_running_loop().time
        until = clock() + self._wait_s
        while True:
            leases = await self._look()
            left_s = until - clock()
            if leases or self.draining or self._full or left_s <= 0 or any(end.done() for end in self._ends):
                return leases
            await self._listen(min(left_s, self._api.settings.heartbeat_s, LONGEST_SLEEP_S))

    async def _look(self) -> list[Lease]:
        """Show that the worker lives, and take what there is."""
        worker = await remote.load(self._store, self._worker_id)
        if not (await renew(self._store, worker.id, [], {})).known:
            raise remote.unknown(worker.id)
        room = worker.concurrency - self._busy
        self._pool, self.draining, self._full = worker.pool, worker.draining, room <= 0
        leases: list[Lease] = []
        want = 0 if worker.draining else min(self._most, room)
        for partition in _shuffled(self._store):
            if len(leases) >= want or any(end.done() for end in self._ends):
                break
            try:
                leases += await partition.leases.lease(worker.id, worker.pool, want - len(leases))
            except Unavailable:
                if leases:
                    break
                raise
            self._rung.discard(partition)
        return leases

    async def _listen(self, seconds: float) -> None:
        """Sleep until a bell rings, an order comes, or an end; a bell that was taken is remembered."""
        seconds = max(seconds, SHORTEST_SLEEP_S)
        waits = {
            asyncio.create_task(partition.leases.wait(self._worker_id, self._pool, seconds)): partition
            for partition in self._store.partitions
        }
        try:
            await asyncio.wait([*waits, *self._ends], return_when=asyncio.FIRST_COMPLETED)
            for wait, partition in waits.items():
                if not wait.done():  # a read that is broken off might take a bell with it
                    await partition.leases.nudge(self._worker_id)
            heard = await asyncio.gather(*waits, return_exceptions=True)
        finally:
            for wait in waits:
                wait.cancel()
        self._rung |= {partition for partition, word in zip(waits.values(), heard, strict=True) if word is True}
        for word in heard:
            if isinstance(word, BaseException):
                raise word


def _shuffled(store: Store) -> list[Partition]:
    """The partitions in an order that favours none."""
    return random.sample(store.partitions, len(store.partitions))


def token_of(worker_id: str, job_id: str, fence: int) -> str:
    """What a worker shows when it speaks of a job: good for this lease, and for no other job."""
    return f"{worker_id}:{job_id}:{fence}"


def _show(worker_id: str, lease: Lease) -> dict[str, Any]:
    spec = lease.spec
    return {
        "job": lease.job_id,
        "token": token_of(worker_id, lease.job_id, lease.fence),
        "type": spec.type,
        "handler": lease.handler,
        "name": spec.name,
        "task": spec.task,
        "queue": lease.queue,
        "payload": orjson.Fragment(spec.payload),
        "attempt": lease.attempt,
        "fence": lease.fence,
        "timeout_s": lease.timeout_ms / 1000 if lease.timeout_ms else None,
        "created_at": iso_of_ms(lease.created_ms),
    }
