"""How long a client asks again while the server is away, and how it pauses in between.

Who waits for a job goes on until his own deadline; one without a deadline gives up after WAITING_S without a word.
Everything else is asked again for ASKING_S.  A server that never answered this client is given up after FIRST_S: the
address may be wrong.
"""

import asyncio
from math import inf
from time import monotonic
from typing import Final

FIRST_S: Final = 1.0
ASKING_S: Final = 10.0
WAITING_S: Final = 120.0  # a server that is started anew with much to load takes a minute
LEAST_S: Final = 0.5  # of a wait that is shorter: a connection that died unnoticed is no reason to fail
FIRST_PAUSE_S: Final = 0.1  # doubles with each try
LONGEST_PAUSE_S: Final = 1.0


class Patience:
    """One caller's patience; `heard` renews it, but for its deadline."""

    def __init__(self, silence_s: float | None = None, deadline: float = inf) -> None:
        self._silence_s = ASKING_S if silence_s is None else silence_s
        self._deadline = deadline
        self._silent_since: float | None = None
        self._pause_s = FIRST_PAUSE_S

    @classmethod
    def until(cls, deadline: float) -> "Patience":
        """That of one who waits for a job; inf is no deadline."""
        if deadline == inf:
            return cls(WAITING_S)
        return cls(inf, max(deadline, monotonic() + LEAST_S))

    def heard(self) -> None:
        """The server answered."""
        self._silent_since, self._pause_s = None, FIRST_PAUSE_S

    def greeted(self) -> None:
        """The server is there, but what it has to say is still to come: if that breaks off, the pauses grow on."""
        self._silent_since = None

    async def rest(self, told_s: float | None = None, *, most_s: float = inf) -> bool:
        """Pause before the next try, for as long as was told; False, at once, when there shall be none.

        `most_s` is the most silence that is borne this time, whatever the caller would bear.
        """
        now = monotonic()
        if self._silent_since is None:
            self._silent_since = now
        left_s = min(self._silent_since + min(self._silence_s, most_s), self._deadline) - now
        if left_s <= 0:
            return False
        await asyncio.sleep(min(self._pause_s if told_s is None else told_s, left_s))
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        return True
