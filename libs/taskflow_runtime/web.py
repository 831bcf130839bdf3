"""One HTTP server on the service's own event loop.

It leaves signals alone, for the service has a stop of its own, and the application behind it can be exchanged
while it listens: health answers from the first moment, the api takes over when it is connected.
"""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterator

import uvicorn

from taskflow_runtime.errors import AddressTaken
from taskflow_runtime.health import App, Receive, Scope, Send
from taskflow_runtime.settings import Address

_REASONS = {
    errno.EADDRINUSE: "another program has it",
    errno.EACCES: "this user may not have it",
    errno.EADDRNOTAVAIL: "this machine has no such address",
}


def listen(address: Address) -> socket.socket:
    """A listening socket, or `AddressTaken` with the setting to change."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # `localhost` is often ::1 first, while most clients mean 127.0.0.1
        family, kind, protocol, _, where = min(found, key=lambda each: each[0] != socket.AF_INET)
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise AddressTaken(f"Cannot listen on {address.host}: {error.strerror}.") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(where)
        bound.listen(2048)
    except OSError as error:
        bound.close()
        reason = _REASONS.get(error.errno or 0, str(error.strerror))
        raise AddressTaken(
            f"Cannot listen on {address.host}:{address.port}: {reason}. Change {address.setting} (0 finds a free port)."
        ) from None
    return bound


class Web:
    """The server.  `start`, then `stop`; `mount` in between as often as needed."""

    def __init__(self, bound: socket.socket, app: App, grace_s: float = 1.0) -> None:
        self._bound = bound
        self._app = app
        host, self.port = bound.getsockname()[:2]
        self.url = f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"
        config = uvicorn.Config(
            self._dispatch,
            interface="asgi3",
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=max(1, int(grace_s * 0.8)),  # before the service itself is cut short
        )
        self._server = _Server(config)
        self._serving: asyncio.Task[None] | None = None

    def mount(self, app: App) -> None:
        """Answer with this application from now on."""
        self._app = app

    def start(self) -> None:
        """Begin to answer."""
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._bound]), name="web")

    async def stop(self) -> None:
        """Accept nothing new, finish the requests in hand, close.  A second call changes nothing."""
        self._server.should_exit = True
        if self._serving is not None:
            await asyncio.wait([self._serving])

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: `lifecycle` has the signals."""
        yield
