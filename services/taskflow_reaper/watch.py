"""A reaper judges only what it has watched.

Idle time of a lease runs on while Redis is down or the reaper itself is frozen.  If it reaped right afterwards,
an outage would cost every running job an attempt.  So it reaps only after a whole visibility time-out of its own
uninterrupted ticks: in that time every living worker had the chance to renew.
"""

from __future__ import annotations


class Watch:
    """How long the reaper has watched without a gap."""

    def __init__(self, longest_gap_s: float) -> None:
        self._longest_gap_s = longest_gap_s
        self._since: float | None = None
        self._last = 0.0

    def tick(self, now_s: float) -> float:
        """Note a tick; the seconds watched without interruption."""
        if self._since is None or now_s - self._last > self._longest_gap_s:
            self._since = now_s
        self._last = now_s
        return now_s - self._since

    def interrupt(self) -> None:
        """Something went wrong: start over."""
        self._since = None
