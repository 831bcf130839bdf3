"""Refusals, and the one envelope they all leave in.

Problem             status  code
├── Invalid         400     VALIDATION_ERROR
├── Unauthorized    401     UNAUTHORIZED
├── NotFound        404     NOT_FOUND
├── WrongMethod     405     METHOD_NOT_ALLOWED
├── Conflict        409     CONFLICT
├── TooLarge        413     PAYLOAD_TOO_LARGE
├── Internal        500     INTERNAL             a bug of ours; it is logged where it is caught
└── Busy            503     UNAVAILABLE          with Retry-After

Whatever happens, a client gets `{"error": {"code", "message", "details": [{"field", "message"}]}}`.
"""

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import orjson
from starlette.responses import Response

RETRY_AFTER_S: Final = 1  # a broker that restarts is back within seconds
FULL_RETRY_AFTER_S: Final = 5  # memory is freed by jobs that end and by retention, which takes longer
MAX_DETAILS: Final = 100  # a batch of a thousand bad jobs needs no thousand complaints


class Detail(NamedTuple):
    """One fault: the field, as a path such as `jobs[2].retry_policy.max_attempts`, and what is wrong with it."""

    field: str
    message: str


class Problem(Exception):
    """A request that is answered with an error."""

    status: ClassVar[int]
    code: ClassVar[str]

    def __init__(self, message: str, details: Sequence[Detail] = (), headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = tuple(details[:MAX_DETAILS])
        self.headers = headers or {}

    def response(self) -> Response:
        """The answer."""
        details = [{"field": detail.field, "message": detail.message} for detail in self.details]
        body = {"error": {"code": self.code, "message": self.message, "details": details}}
        return Response(orjson.dumps(body), self.status, self.headers, "application/json")


class Invalid(Problem):
    """The request itself is wrong; sent again it would be refused again."""

    status, code = 400, "VALIDATION_ERROR"

    @classmethod
    def of(cls, details: Sequence[Detail]) -> "Invalid":
        """A refusal whose message is the first of its faults."""
        first = details[0]
        more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
        return cls(f"{first.field}: {first.message}{more}" if first.field else first.message + more, details)

    @classmethod
    def field(cls, field: str, message: str) -> "Invalid":
        """A refusal of one field."""
        return cls.of([Detail(field, message)])


class Unauthorized(Problem):
    """The token is missing or wrong."""

    status, code = 401, "UNAUTHORIZED"


class NotFound(Problem):
    """There is no such job, queue or page."""

    status, code = 404, "NOT_FOUND"


class WrongMethod(Problem):
    """The page exists, but not for this method."""

    status, code = 405, "METHOD_NOT_ALLOWED"


class Conflict(Problem):
    """The request is fine, but not in the state that things are in."""

    status, code = 409, "CONFLICT"


class TooLarge(Problem):
    """The body is over its limit."""

    status, code = 413, "PAYLOAD_TOO_LARGE"


class Internal(Problem):
    """A bug."""

    status, code = 500, "INTERNAL"

    def __init__(self) -> None:
        super().__init__("Something went wrong here; the server's log has more.")


class Busy(Problem):
    """Not now: the broker is away, or full."""

    status, code = 503, "UNAVAILABLE"

    def __init__(self, message: str, retry_after_s: int = RETRY_AFTER_S) -> None:
        super().__init__(message, headers={"Retry-After": str(retry_after_s)})
