"""A line to the server that is cut now and then: after a request was delivered, before its answer is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from taskflow_streams.scripts import source


class Cutter:
    """A proxy.  `cuts` is asked for each call of the script whether its answer shall be lost."""

    def __init__(self, socket_path: str, script: str, cuts: Callable[[int], bool]) -> None:
        self.calls = 0
        self.cut = 0
        self._socket_path, self._cuts = socket_path, cuts
        self._sha = source(script)[1].encode()
        self._open: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until either end closes it, or it is cut."""
        to_server = await asyncio.open_unix_connection(self._socket_path)
        doomed = asyncio.Event()
        ways = [
            asyncio.create_task(self._carry(reader, to_server[1], doomed)),
            asyncio.create_task(self._bring_back(to_server[0], writer, doomed)),
        ]
        self._open.update(ways)
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
            self._open.discard(way)
        for end in (writer, to_server[1]):
            end.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: asyncio.Event) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 20):
                if self._sha in data:
                    self.calls += 1
                    if self._cuts(self.calls):
                        doomed.set()
                writer.write(data)
                await writer.drain()

    async def _bring_back(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 20):
                if doomed.is_set():
                    self.cut += 1
                    return
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def cut_line(unix_url: str, script: str, cuts: Callable[[int], bool]) -> AsyncIterator[tuple[str, Cutter]]:
    """A URL that leads to the same server, over a line that may be cut at this script's answers."""
    cutter = Cutter(unix_url.removeprefix("unix://"), script, cuts)
    server = await asyncio.start_server(cutter.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"redis://127.0.0.1:{port}/0", cutter
    finally:
        server.close()
