"""What the client raises becomes what our callers expect."""

from __future__ import annotations

import pytest
from redis import exceptions as redis_errors

from taskflow_streams import Full, Unavailable
from taskflow_streams.errors import translated


@pytest.mark.parametrize(
    "error",
    [
        redis_errors.ConnectionError("gone"),
        redis_errors.TimeoutError("slow"),
        redis_errors.BusyLoadingError("LOADING"),
        redis_errors.ReadOnlyError("READONLY"),
        redis_errors.ResponseError("UNBLOCKED force unblock from blocking operation, instance state changed"),
        redis_errors.InvalidResponse('Protocol error, got "<" as reply type byte'),
        ConnectionResetError(),
        RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed"),
    ],
)
def test_a_server_that_is_away_is_unavailable(error: Exception) -> None:
    """However the client or the event loop words it."""
    with pytest.raises(Unavailable), translated():
        raise error


def test_a_full_server_is_full() -> None:
    """Out of memory is told apart, for what shrinks still works."""
    with pytest.raises(Full), translated():
        raise redis_errors.OutOfMemoryError("OOM command not allowed")


@pytest.mark.parametrize(
    "error", [redis_errors.ResponseError("ERR wrong number"), RuntimeError("a bug"), KeyError("x")]
)
def test_a_bug_stays_a_bug(error: Exception) -> None:
    """What is not the server's absence is not hidden."""
    with pytest.raises(type(error)), translated():
        raise error
