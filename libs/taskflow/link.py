"""A client's connection, made when it is first needed, and what tests put in its place."""

import asyncio
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from taskflow.broker import find_server
from taskflow.portal import CLOSED
from taskflow_streams import Unavailable

if TYPE_CHECKING:
    from taskflow.transport import Transport

DIRECT = ("redis", "rediss", "unix")
HTTP = ("http", "https")
NOT_TOLD = (
    "start `taskflow up` in this directory, or say where the server is: set TASKFLOW_REDIS_URL or TASKFLOW_API_URL, "
    "or call taskflow.configure(url=…) or Client(url)"
)
NO_ADDRESS = (
    "what this client was given is no address of a server; one begins with redis://, rediss://, unix:// or http(s):// "
    "and looks like redis://127.0.0.1:6379/0 or http://127.0.0.1:8000"
)
OTHER_LOOP = "this AsyncClient belongs to another event loop; make one for each loop, or use Client"


class StandIn(Protocol):
    """What answers in the place of every server, whatever address a client has."""

    @property
    def awaited(self) -> "Transport":
        """For clients on an event loop."""

    @property
    def blocking(self) -> "Transport":
        """For others: its methods never wait."""


_stand_in: StandIn | None = None


def stand_in() -> StandIn | None:
    """What answers in the place of servers, if anything does."""
    return _stand_in


def put_in_place(new: StandIn | None) -> StandIn | None:
    """Let it answer for all clients of this process, until it is replaced; what did so before."""
    global _stand_in
    old, _stand_in = _stand_in, new
    return old


class Link:
    """The way from a client to the server."""

    def __init__(
        self, url: str | None, token: str | None, namespace: str | None, transport: "Transport | None" = None
    ) -> None:
        self._where = (url, namespace, token)
        self._opening = asyncio.Lock()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None  # the one that its connections live on
        self.transport = transport

    async def open(self) -> "Transport":
        """The transport, connected."""
        if self._closed:
            raise RuntimeError(CLOSED)
        if _stand_in is not None:
            return _stand_in.blocking if self.transport is _stand_in.blocking else _stand_in.awaited
        if self._is_foreign():
            raise RuntimeError(OTHER_LOOP)
        if self.transport is None:
            async with self._opening:
                if self.transport is None:
                    self.transport = await _open(*self._where)
        return self.transport

    async def close(self) -> None:
        """Close the connections, for good."""
        self._closed = True
        if self.transport is not None and not self._is_foreign():  # else they went with their loop
            await self.transport.close()

    def _is_foreign(self) -> bool:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        return self._loop is not loop


async def _open(url: str | None, namespace: str | None, token: str | None) -> "Transport":
    server = find_server(url, namespace, token)
    scheme = _checked(server.url)
    if scheme in DIRECT:
        from taskflow.transport.direct import RedisTransport

        try:
            return await RedisTransport.connect(server.url, server.namespace)
        except Unavailable as error:
            hint = NOT_TOLD if server.guessed else "check the address, and that it runs"
            raise type(error)(f"{error}; {hint}") from None
    if scheme in HTTP:
        from taskflow.transport.http import HttpTransport

        if server.token and not (server.token.isascii() and server.token.isprintable()):
            raise ValueError("the token has characters that no token can have, such as the end of a line; give another")
        return HttpTransport(server.url, server.token)
    raise ValueError(NO_ADDRESS)


def _checked(url: str) -> str:
    """The scheme of an address.  Raises ValueError for what is none; it may hold a password, and is not repeated."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme == "unix" or ((parts.hostname or parts.scheme in DIRECT) and parts.port != 0)
    except ValueError:  # such as a port that is no number, or too large
        usable = False
    if not usable or any(char.isspace() for char in url):
        raise ValueError(NO_ADDRESS)
    return parts.scheme
