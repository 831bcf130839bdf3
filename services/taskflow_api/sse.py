"""Responses that wait: server-sent events, and answers that come when something has happened.

Each holds a connection to the broker while it waits.  It lets go as soon as the client is gone or the service stops,
so that neither a closed browser nor a restart is held up.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any, Final, TypeVar

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from taskflow_api.logs import START, item_of, resumed
from taskflow_domain import TERMINAL, iso_of_ms
from taskflow_streams import JobRecord, Partition, Store, Unavailable, id_key

KEEP_ALIVE_S: Final = 15.0
KEEP_ALIVE: Final = b": keep-alive\n\n"
GREETING: Final = b"retry: 1000\n\n"  # a client whose stream broke off comes back after a second
PIECES: Final = 100  # in one read

T = TypeVar("T")


async def follow(
    store: Store,
    home: Partition,
    job_id: str,
    after: str,
    end: Callable[[JobRecord], dict[str, Any]],
    keep_alive_s: float | None = None,
) -> AsyncGenerator[bytes, None]:
    """The events of a job's output after a piece, its progress, and at last its end.  It also waits for it to begin."""
    block_ms = int((KEEP_ALIVE_S if keep_alive_s is None else keep_alive_s) * 1000)
    texts = await resumed(home, job_id, after)
    state = await home.logs.follow(job_id)
    heard = START
    yield GREETING
    while True:
        if state is None or state in TERMINAL:
            chunks, over, progress = await home.logs.read(job_id, after, PIECES), True, None
        else:
            chunks, over, progress = await home.logs.tail(job_id, after, PIECES, block_ms, heard)
        if chunks:
            after = chunks[-1].id
            yield b"".join(_event("log", item_of(chunk, texts), chunk.id) for chunk in chunks)
        if progress:
            heard = progress.id
            yield _event("progress", {"fraction": progress.fraction, "message": progress.note})
        elif chunks:
            continue
        elif over:
            break
        else:
            state = await home.logs.follow(job_id)  # its end may have come while the broker was away
            yield KEEP_ALIVE
    for stream, attempt, text in texts.rests():
        at = iso_of_ms(id_key(after)[0])
        yield _event("log", {"id": after, "stream": stream, "at": at, "attempt": attempt, "text": text}, after)
    job = (await store.get([job_id]))[0]
    gone = {"id": job_id, "status": None, "result": None, "error": None}
    yield _event("end", gone if job is None else end(job))


def _event(kind: str, fields: dict[str, Any], event_id: str = "") -> bytes:
    head = f"id: {event_id}\nevent: {kind}\n" if event_id else f"event: {kind}\n"
    return head.encode() + b"data: " + orjson.dumps(fields) + b"\n\n"


class EventStream(Response):
    """A stream of events, until they end, the client goes, or the service stops.  HEAD is told its headers alone."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None], stopping: asyncio.Event, over: Callable[[], None]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._stopping = stopping
        self._over = over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if scope["method"] != "HEAD":
                await _first_of(self._pour(send), disconnected(receive), self._stopping.wait())
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._over()

    async def _pour(self, send: Send) -> None:
        # Without the broker the stream breaks off, and the client comes back to go on where it was.
        with suppress(Unavailable):
            async with aclosing(self._events) as events:
                async for event in events:
                    await send({"type": "http.response.body", "body": event, "more_body": True})


async def until_gone(request: Request, waiting: Coroutine[Any, Any, T], stopping: asyncio.Event) -> T | None:
    """What is waited for; None if the client has gone, or the service stops, before it came."""
    return await _first_of(waiting, disconnected(request.receive), stopping.wait())


async def _first_of(wanted: Coroutine[Any, Any, T], *others: Coroutine[Any, Any, object]) -> T | None:
    """What `wanted` gives, unless one of the others ends first; whatever is left is cancelled."""
    task = asyncio.create_task(wanted)
    rivals = [asyncio.create_task(other) for other in others]
    try:
        await asyncio.wait([task, *rivals], return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for left in (task, *rivals):
            left.cancel()
        await asyncio.gather(task, *rivals, return_exceptions=True)


async def disconnected(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
