"""What stands before every request: the token, the clock, and the net under what nobody expected."""

import hmac
import time
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taskflow_api.errors import Internal, Unauthorized
from taskflow_runtime.logs import get_log

PATIENT: Final = "taskflow.patient"  # in the scope of a request that is meant to wait
OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})  # for those who watch over the process; they tell no secrets


class Front:
    """An application behind a token (None asks for none).  Whatever it raises is logged and answered."""

    def __init__(self, app: ASGIApp, token: str | None, slow_request_s: float) -> None:
        self._app = app
        self._expected = None if token is None else token.encode()
        self._slow_s = slow_request_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif not self._may_pass(scope):
            refusal = Unauthorized(
                "Send the token, in the header Authorization: Bearer <token>.", headers={"WWW-Authenticate": "Bearer"}
            )
            await refusal.response()(scope, receive, send)
        else:
            await self._handle(scope, receive, send)

    def _may_pass(self, scope: Scope) -> bool:
        if self._expected is None or scope["path"] in OPEN_PATHS:
            return True
        given: bytes = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = given.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._expected)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 0

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        started = time.monotonic()
        try:
            await self._app(scope, receive, watch)
        except ClientDisconnect:
            return
        except Exception:
            get_log().exception("request.failed", method=scope["method"], path=scope["path"])
            if not status:
                await Internal().response()(scope, receive, send)
        took_s = time.monotonic() - started
        if took_s > self._slow_s and PATIENT not in scope:
            get_log().warning(
                "request.slow", method=scope["method"], path=scope["path"], status=status, took_s=round(took_s, 3)
            )
