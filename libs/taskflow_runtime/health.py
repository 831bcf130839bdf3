"""Is the service alive, is it ready, what does it measure: `/healthz`, `/readyz`, `/metrics`.

Alive means that the event loop answers.  Ready means that the broker was read successfully not long ago: loops
call `beat` after each such read.  The answers are plain values, so the api can give them on routes of its own.
"""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import orjson

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response, whole."""

    status: int
    body: bytes
    content_type: str = JSON


class Health:
    """What one service knows about its own condition."""

    def __init__(
        self, component: str, ready_within_s: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.component = component
        self.ready_within_s = ready_within_s
        self.stopping = False  # who sends us work should turn to another
        self._clock = clock
        self._last_read: float | None = None

    def beat(self) -> None:
        """The broker was just read successfully."""
        self._last_read = self._clock()

    def alive(self) -> Answer:
        """200, always: who can ask has the event loop's answer."""
        return _json(200, {"status": "alive", "component": self.component})

    def ready(self) -> Answer:
        """200, or 503 and the reason."""
        silence = None if self._last_read is None else round(self._clock() - self._last_read, 1)
        body: dict[str, object] = {"status": "ready", "component": self.component, "last_broker_read_s": silence}
        reason = self._why_not(silence)
        return _json(503, body | {"status": "unready", "reason": reason}) if reason else _json(200, body)

    def _why_not(self, silence: float | None) -> str | None:
        if self.stopping:
            return "stopping"
        if silence is None:
            return "the broker has not been reached yet"
        if silence > self.ready_within_s:
            return f"the broker was last read more than {self.ready_within_s:g} s ago"
        return None

    def answer(self, path: str, accept: str = "") -> Answer | None:
        """The answer for one of the three paths; None for any other."""
        match path:
            case "/healthz":
                return self.alive()
            case "/readyz":
                return self.ready()
            case "/metrics":
                return metrics(accept)
            case _:
                return None

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The three paths as an ASGI application."""
        accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
        answer = self.answer(scope["path"], accept)
        if answer is None:
            answer = self._elsewhere()
        elif scope["method"] not in ("GET", "HEAD"):
            answer = _error(405, "METHOD_NOT_ALLOWED", "Only GET and HEAD are understood here.")
        headers = [(b"content-type", answer.content_type.encode()), (b"content-length", b"%d" % len(answer.body))]
        if answer.status == 503:
            headers.append((b"retry-after", b"1"))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else answer.body
        await send({"type": "http.response.body", "body": body})

    def _elsewhere(self) -> Answer:
        """A path that is not ours may be the service's, which has not come up as long as we answer for it."""
        if self._last_read is None:
            return _error(503, "UNAVAILABLE", "The service is starting.")
        return _error(404, "NOT_FOUND", "Only /healthz, /readyz and /metrics are here.")


def metrics(accept: str = "") -> Answer:
    """All metrics of this process, in the format the scraper asks for."""
    from prometheus_client import REGISTRY, exposition  # not before somebody scrapes

    encode, content_type = exposition.choose_encoder(accept)
    return Answer(200, encode(REGISTRY), content_type)


def _json(status: int, body: dict[str, object]) -> Answer:
    return Answer(status, orjson.dumps(body))


def _error(status: int, code: str, message: str) -> Answer:
    return _json(status, {"error": {"code": code, "message": message, "details": []}})
