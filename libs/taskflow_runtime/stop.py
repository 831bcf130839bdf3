"""The stop, from the request to the last resort."""

import asyncio
import contextlib
import faulthandler

from taskflow_runtime.health import Health
from taskflow_runtime.logs import Log

HAND_BACK_S = 5.0  # after the grace, for what main does when it is cancelled: jobs go back, logs are shipped
STDERR = 2


class Stop:
    """Set once, for a reason.  From then on time runs: first for main to finish, then for the process to end."""

    def __init__(self, grace_s: float, health: Health, log: Log) -> None:
        self.event = asyncio.Event()
        self._health, self._log = health, log
        self._grace_s = grace_s
        self._armed = False
        self._limit: asyncio.Timeout | None = None
        self._allowed_s = 0.0

    def limit(self, allowed_s: float) -> asyncio.Timeout:
        """A time-out for what is done now, which begins to run when the stop is asked for."""
        self._allowed_s = allowed_s
        self._limit = asyncio.timeout(0 if self.event.is_set() else None)
        return self._limit

    def ask(self, reason: str) -> None:
        """Begin the stop; the first reason counts."""
        if self.event.is_set():
            return
        self._log.info("service.stopping", reason=reason)
        self._health.stopping = True
        self.event.set()
        self.arm()
        if self._limit is not None:
            with contextlib.suppress(RuntimeError):  # what it limited is over
                self._limit.reschedule(asyncio.get_running_loop().time() + self._allowed_s)

    def arm(self) -> None:
        """Set the last resort: status 1, and on stderr what held us, even if that is the loop, or code in C."""
        if not self._armed:
            self._armed = True
            faulthandler.dump_traceback_later(self._grace_s + HAND_BACK_S, exit=True, file=STDERR)

    def over(self) -> None:
        """All is undone; the last resort is not needed."""
        if self._armed:
            faulthandler.cancel_dump_traceback_later()
