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
    With `most` no more than so many jobs are taken, over all the time.
    """

    def __init__(self, total: int, most: int | None = None) -> None:
        self.total = total
        self.free = total
        self.taken = 0  # jobs
        self._most = most
        self._asked = 0  # reserved, and not yet known whether a job comes
        self._takers: list[Taker] = []
        self._waiting: list[Taker] = []  # those for whom no slot was left, the longest wait first

    def share_among(self, takers: Iterable[Taker]) -> None:
        """Say who takes slots."""
        self._takers = list(takers)

    @property
    def spent(self) -> bool:
        """Whether all the jobs were taken that ever shall be."""
        return self._most is not None and self.taken >= self._most

    def reserve(self, taker: Taker) -> int:
        """As many slots as the taker may fill now; then it says how many it has filled."""
        left = self.free - self._ahead_of(taker)
        count = max(0, min(left, self._share(taker) - taker.using, CHUNK))
        if self._most is not None:
            count = max(0, min(count, self._most - self.taken - self._asked))
        if count > 0 and taker in self._waiting:
            self._waiting.remove(taker)
        elif left <= 0 and taker not in self._waiting:
            self._waiting.append(taker)
        self.free -= count
        self._asked += count
        taker.using += count
        return count

    def fill(self, taker: Taker, asked: int, filled: int) -> None:
        """Of the slots reserved so many have a job now; the others are free again."""
        self._asked -= asked
        self.taken += filled
        if asked > filled:
            self.give_back(taker, asked - filled)

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
