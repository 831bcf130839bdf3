"""Ports: whether one can be had, and which ones are free."""

import errno
import socket

from taskflow.commands.errors import CommandFailed
from taskflow_streams.embedded import free_port

LOOPBACK = "127.0.0.1"
_ANYWHERE = {"0.0.0.0": LOOPBACK, "::": "::1"}


def check(host: str, port: int) -> None:
    """Fail with a sentence unless a server could listen here."""
    try:
        with _listen(host, port):
            return
    except OSError as error:
        raise CommandFailed(_explain(host, port, error)) from None


def find_free(count: int) -> list[int]:
    """So many different free ports of the loopback address."""
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)


def reachable(host: str) -> str:
    """The address to connect to for a server that listens on `host`."""
    return _ANYWHERE.get(host, host)


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1)
    except BaseException:
        listener.close()
        raise
    return listener


def _explain(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is taken by another program; stop that one, or choose another with --port."
    if error.errno == errno.EACCES:
        return f"Port {port} is not for ordinary users; choose one above 1023 with --port."
    return f"Cannot listen on {host} port {port} ({error.strerror or error}); choose another with --host and --port."
