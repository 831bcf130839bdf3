"""The client that `fn.delay(…)` uses."""

import os
import threading

from taskflow.client import Client

_lock = threading.Lock()
_client: Client | None = None


def configure(url: str | None = None, *, token: str | None = None, namespace: str | None = None) -> Client:
    """Say where `fn.delay(…)` enqueues its jobs; the client, for other uses.

    Without it, the server is found as `Client()` finds it.
    """
    global _client
    client = Client(url, token=token, namespace=namespace)
    with _lock:
        old, _client = _client, client
    if old is not None:
        old.close()
    return client


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that is not here may have held it


os.register_at_fork(after_in_child=_after_fork)


def default_client() -> Client:
    """The client that was configured, or else one that finds the server by itself."""
    global _client
    with _lock:
        if _client is None:
            _client = Client()
        return _client
