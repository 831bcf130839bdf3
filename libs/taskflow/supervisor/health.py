"""Whether a service says that it is ready."""

import asyncio
import contextlib

from taskflow.supervisor import ports

ANSWER_S = 2.0


async def is_ready(host: str, port: int) -> bool:
    """One GET of /readyz: True if the answer is 200."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(ANSWER_S):
            return b" 200" in await _status_line(ports.reachable(host), port)
    return False


async def _status_line(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET /readyz HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        return await reader.readline()
    finally:
        writer.close()
