"""How long to wait before a process that ended is started again."""

from dataclasses import dataclass

FIRST_S = 0.2  # a process that was killed once is back before anyone notices
LONGEST_S = 15.0  # one that cannot start neither fills the log nor has to be restarted by hand
STEADY_S = 20.0  # after so long a life, an end is a new mishap, not the same one again


@dataclass(slots=True)
class Backoff:
    """Twice as long after each end, and from the beginning after a steady life."""

    ends: int = 0

    def after(self, lived_s: float) -> float:
        """The pause, in seconds, after a process that lived so long."""
        self.ends = 1 if lived_s >= STEADY_S else self.ends + 1
        doublings = min(self.ends - 1, 16)  # enough to pass the longest pause; 2**n must not grow for ever
        return float(min(FIRST_S * 2**doublings, LONGEST_S))
