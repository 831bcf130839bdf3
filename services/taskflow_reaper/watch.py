"""A reaper judges only what it has watched.

Idle time of a lease runs on while Redis is down or the reaper itself is frozen.  If it reaped right afterwards,
an outage would cost every running job an attempt.  So it reaps only after a whole visibility time-out of its own
uninterrupted ticks: in that time every living worker had the chance to renew.
"""

from __future__ import annotations

CLOCK_JUMP_S = 2.0  # by which the two clocks may drift apart between two ticks, a busy machine included


class Watch:
    """How long the reaper has watched without a gap, by its own clock and by the server's."""

    def __init__(self, longest_gap_s: float) -> None:
        self._longest_gap_s = longest_gap_s
        self._since: float | None = None
        self._last = (0.0, 0.0)

    def tick(self, now_s: float, server_s: float) -> float:
        """Note a tick; the seconds watched without interruption.

        Idle time is measured by the server's wall clock.  If that jumps (it was set, or the machine slept), leases
        look older than they are, and every worker gets the chance to renew before anything is judged.
        """
        passed_s, server_passed_s = now_s - self._last[0], server_s - self._last[1]
        jumped = abs(passed_s - server_passed_s) > CLOCK_JUMP_S
        if self._since is None or passed_s > self._longest_gap_s or jumped:
            self._since = now_s
        self._last = (now_s, server_s)
        return now_s - self._since

    def interrupt(self) -> None:
        """Something went wrong: start over."""
        self._since = None
