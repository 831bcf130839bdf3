"""An api that answers what a test tells it to, and writes down what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit


class Asked(NamedTuple):
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


class Reply(NamedTuple):
    """One answer: JSON, or text as it is, or a stream in pieces."""

    status: int = 200
    json: Any = None
    text: str | None = None
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed
    pieces: Iterable[bytes] | None = None


Answer = Reply | Callable[[Asked], Reply]


def stream(*pieces: bytes | str) -> Reply:
    """A stream of events."""
    return Reply(pieces=[piece.encode() if isinstance(piece, str) else piece for piece in pieces])


def event(kind: str, data: object, event_id: str = "") -> str:
    """One event of a stream."""
    return (f"id: {event_id}\n" if event_id else "") + f"event: {kind}\ndata: {json.dumps(data)}\n\n"


def log(event_id: str, text: str, of: str = "stdout", attempt: int = 1) -> str:
    """A piece of output."""
    return event("log", {"id": event_id, "stream": of, "at": None, "attempt": attempt, "text": text}, event_id)


def end(status: str, result: object = None, error: object = None) -> str:
    """The end of a job."""
    return event("end", {"id": "j", "status": status, "result": result, "error": error})


class FakeApi:
    """Give answers as `api["GET /api/v1/jobs"] = Reply(...)`; a list is answered one by one."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer | list[Answer]] = {}
        self.asked: list[Asked] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __setitem__(self, what: str, answer: Answer | list[Answer]) -> None:
        self.answers[what] = answer

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def find(self, asked: Asked) -> Reply:
        """What to say to a request."""
        self.asked.append(asked)
        found = self.answers.get(f"{asked.method} {asked.path}")
        if isinstance(found, list):
            found = found.pop(0) if found else None
        if found is None:
            error = {"code": "NOT_FOUND", "message": f"There is no {asked.path}.", "details": []}
            return Reply(404, {"error": error})
        return found(asked) if callable(found) else found

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def _answer(self) -> None:
                parts = urlsplit(self.path)
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = fake.find(Asked(self.command, parts.path, dict(parse_qsl(parts.query)), body, headers))
                text = reply.text if reply.text is not None else json.dumps(reply.json)
                kind = "application/json" if reply.pieces is None else "text/event-stream"
                self.send_response(reply.status)
                for name, value in {"Content-Type": kind, **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                for piece in [text.encode()] if reply.pieces is None else reply.pieces:
                    self.wfile.write(piece)
                    self.wfile.flush()

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names that http.server looks for

        return Handler
