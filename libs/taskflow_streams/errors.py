"""What can go wrong between us and the server.

StreamsError
├── Unavailable        no answer, or not now; try again
│   └── Full           the server's memory is used up; what shrinks still works
└── Unfit              this server must not be used: too old, or it evicts
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions as redis_errors

# A script that runs too long, a disk or a background save that fails, too few replicas, a server that became a replica
# while we waited for it: errors to wait out.
NOT_NOW = ("BUSY ", "MISCONF", "NOREPLICAS", "MASTERDOWN", "UNBLOCKED")


class StreamsError(Exception):
    """Anything this library raises on purpose."""


class Unavailable(StreamsError):
    """The server did not answer, or cannot serve now."""


class Full(Unavailable):
    """The server refuses to grow: its memory limit is reached."""


class Unfit(StreamsError):
    """The server's version or configuration would break our promises."""


@contextmanager
def translated() -> Iterator[None]:
    """Turn the client's connection errors into ours; a script's own error stays what it is: a bug."""
    try:
        yield
    except redis_errors.OutOfMemoryError as error:
        raise Full("the Redis server has reached its maxmemory") from error
    except (
        redis_errors.ConnectionError,
        redis_errors.TimeoutError,
        redis_errors.BusyLoadingError,
        redis_errors.ReadOnlyError,
        redis_errors.TryAgainError,
        redis_errors.ClusterDownError,
        redis_errors.InvalidResponse,  # something answers there that is no Redis
        OSError,
    ) as error:
        raise Unavailable(str(error) or type(error).__name__) from error
    except RuntimeError as error:
        if "handler is closed" not in str(error):  # uvloop's word for a connection that ended while we wrote to it
            raise
        raise Unavailable(str(error)) from error
    except redis_errors.ResponseError as error:
        if "OOM" in str(error)[:80]:
            raise Full(str(error)) from error
        if str(error).startswith(NOT_NOW):
            raise Unavailable(str(error)) from error
        raise
