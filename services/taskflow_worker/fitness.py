"""Whether a worker does what it is there for.  One that only looks alive must not pass for healthy.

Written by the worker's event loop, read by the heart's thread.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

from taskflow_runtime.loops import name_of

TICK_S = 0.2
BUSY_LOOP_S = 1.0  # an event loop that ticks later than this runs something that blocks it

Step = Callable[[], Awaitable[None]]


class Fitness:
    """What fails, whether the event loop runs, and whether the rounds that must come again and again do come.

    A round is a step that takes no longer than `round_s`, such as a look at the server; one that hangs fails nowhere.
    """

    def __init__(self, round_s: float) -> None:
        self.failing: set[Step] = set()  # steps that did not succeed when they were last taken
        self._longest_s = 3 * round_s + BUSY_LOOP_S  # with time for a slow server, and for a busy machine
        self._rounds: dict[Step, float] = {}
        self._ticked_at = time.monotonic()

    def expect(self, rounds: Iterable[Step]) -> None:
        """From now on these must come round."""
        self._rounds = dict.fromkeys(rounds, time.monotonic())

    def went_well(self, step: Step) -> None:
        """A step was taken."""
        self.failing.discard(step)
        if step in self._rounds:
            self._rounds[step] = time.monotonic()

    def is_round(self, step: Step) -> bool:
        """Whether it is one of those that must come round."""
        return step in self._rounds

    async def tick(self) -> None:
        """Show that the event loop runs: a step, to be taken again and again."""
        self._ticked_at = time.monotonic()
        await asyncio.sleep(TICK_S)

    def complaint(self) -> str | None:
        """What is wrong, in a few words; None: nothing."""
        now = time.monotonic()
        if now - self._ticked_at > BUSY_LOOP_S:
            return "a job blocks the event loop"
        if failing := [name_of(step) for step in tuple(self.failing)]:
            return f"{', '.join(sorted(failing))} failing"
        if stuck := [name_of(step) for step, at in self._rounds.items() if now - at > self._longest_s]:
            return f"{', '.join(sorted(stuck))} stuck"
        return None
