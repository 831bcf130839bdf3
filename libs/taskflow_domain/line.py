"""Fires of one schedule in a line, one after the other: each is started, waits for its turn, or is passed over.  Pure.

What has been put among the starts stays there.  Somebody who died may have started it already, and whoever comes
after him, perhaps with more fires in the line, has to come to the same starts.
"""

from taskflow_domain.rhythm import Why
from taskflow_domain.schedules import MAX_WAITING, ONE_AT_A_TIME, Fire, Origin, Overlap, Schedule


class Line:
    """What becomes of fires while these runs are live."""

    def __init__(self, schedule: Schedule, runs: int, live: tuple[str, ...]) -> None:
        self._schedule = schedule
        self._room = None if schedule.max_runs is None else schedule.max_runs - runs
        self.live = live
        self.starts: list[Fire] = []
        self.waiting: list[Fire] = []
        self.resting: list[Fire] = []
        self.skips: list[tuple[Fire, Why]] = []
        self.cancels: tuple[str, ...] = ()

    @property
    def is_full(self) -> bool:
        """Whether all runs that the schedule may have are started, or wait for their turn."""
        return self._room is not None and self._room <= 0

    @property
    def is_busy(self) -> bool:
        """Whether a run is active, or about to be."""
        return bool(self.live or self.starts)

    def settle(self, fire: Fire) -> None:
        """Start it, let it wait, or pass it over."""
        policy = fire.overlap or self._schedule.overlap
        if policy is Overlap.CANCEL_PREVIOUS:
            self._supersede(fire)
        elif policy is Overlap.ALLOW or not (self.is_busy or (self.waiting and policy in ONE_AT_A_TIME)):
            self.start(fire)
        elif policy is Overlap.SKIP:
            self.skips.append((fire, Why.OVERLAP))
        elif len(self.waiting) >= (1 if policy is Overlap.BUFFER_ONE else MAX_WAITING):
            self.skips.append((fire, Why.BUFFER_FULL))
        else:
            self._keep(fire)

    def start(self, fire: Fire) -> None:
        """Whatever else is active."""
        self.starts.append(fire)
        self._count(fire, -1)

    def rest(self, fire: Fire) -> None:
        """Let it wait for the end of a pause; it keeps no other from its turn."""
        self.resting.append(fire)
        self._count(fire, -1)

    def skip(self, fire: Fire, why: Why) -> None:
        """Pass it over."""
        self.skips.append((fire, why))

    def _keep(self, fire: Fire) -> None:
        self.waiting.append(fire)
        self._count(fire, -1)

    def _supersede(self, fire: Fire) -> None:
        """It takes the place of all that wait, and follows what is active once that is cancelled."""
        for earlier in self.waiting:
            self.skip(earlier, Why.SUPERSEDED)
            self._count(earlier, 1)
        self.waiting = []
        if self.is_busy:
            self.cancels = (*self.live, *(self._schedule.run_id(start) for start in self.starts))
            self._keep(fire)
        else:
            self.start(fire)

    def _count(self, fire: Fire, change: int) -> None:
        if self._room is not None and fire.origin is Origin.SCHEDULE:
            self._room += change
