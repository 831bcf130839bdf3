"""The slots of a worker, shared by all partitions: how many jobs it runs at once."""

from collections.abc import Iterable
from typing import Protocol

CHUNK = 50  # jobs asked for in one call: one chunk runs while the server, still warm, readies the next


class Taker(Protocol):
    """Who fills slots: the desk of a partition."""

    using: int  # slots it has, reserved or busy
    hungry: bool  # there may be more jobs for it

    def slot_freed(self) -> None:
        """Look again, if it waits for a slot."""


class Slots:
    """Reserve before asking for jobs, so that there are never more leases than slots.

    When several takers are hungry none takes more than its share, and a slot is kept for each who waits longer.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.free = total
        self._takers: list[Taker] = []
        self._waiting: list[Taker] = []  # those for whom no slot was left, the longest wait first

    def share_among(self, takers: Iterable[Taker]) -> None:
        """Say who takes slots."""
        self._takers = list(takers)

    def reserve(self, taker: Taker) -> int:
        """As many slots as the taker may fill now; what it does not fill it gives back."""
        left = self.free - self._ahead_of(taker)
        count = max(0, min(left, self._share(taker) - taker.using, CHUNK))
        if count > 0 and taker in self._waiting:
            self._waiting.remove(taker)
        elif left <= 0 and taker not in self._waiting:
            self._waiting.append(taker)
        self.free -= count
        taker.using += count
        return count

    def give_back(self, taker: Taker, count: int = 1) -> None:
        """Slots are free again, and all are told."""
        self.free += count
        taker.using -= count
        for other in self._takers:
            other.slot_freed()

    def _ahead_of(self, taker: Taker) -> int:
        """How many wait longer and still want a slot."""
        place = self._waiting.index(taker) if taker in self._waiting else len(self._waiting)
        return sum(1 for other in self._waiting[:place] if other.hungry)

    def _share(self, taker: Taker) -> int:
        rivals = sum(1 for other in self._takers if other.hungry and other is not taker)
        return -(-self.total // (rivals + 1))
