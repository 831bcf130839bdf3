"""What makes a loop patient: pauses that grow, outages told once, and results turned into log fields."""

import dataclasses
import math
import random
import re
import time
from collections.abc import Callable
from typing import Any

from taskflow_runtime.logs import Log

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0  # a broker that is back is noticed within this


class Backoff:
    """Pauses that double from 0.1 s to 5 s, each shortened by chance so that services do not come back in step."""

    def __init__(self) -> None:
        self._ceiling = FIRST_PAUSE_S

    def pause(self) -> float:
        """The next pause, in seconds."""
        ceiling, self._ceiling = self._ceiling, min(self._ceiling * 2, LONGEST_PAUSE_S)
        return random.uniform(ceiling / 2, ceiling)

    def reset(self) -> None:
        """Things went well: start small again."""
        self._ceiling = FIRST_PAUSE_S


class Outage:
    """Tells of a broker that is away when it goes and when it is back, and in between only every `remind_s`."""

    def __init__(self, log: Log, remind_s: float = math.inf, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._remind_s, self._clock = log, remind_s, clock
        self._since: float | None = None
        self._told = 0.0

    def failed(self, error: BaseException) -> None:
        """One more attempt did not reach the broker."""
        now = self._clock()
        if self._since is None:
            self._since = now
        elif now - self._told < self._remind_s:
            return
        self._told = now
        self._log.warning("broker.unavailable", error=str(error), for_s=round(now - self._since, 1))

    def passed(self) -> None:
        """The broker answered."""
        if self._since is not None:
            self._log.info("broker.recovered", after_s=round(self._clock() - self._since, 1))
            self._since = None


def name_of(step: Callable[..., Any]) -> str:
    """What to call a step in the logs: `Reclaimer.run_once`."""
    target = getattr(step, "func", step)  # a functools.partial
    return str(getattr(target, "__qualname__", type(target).__qualname__)).replace("<locals>.", "")


def summary(step: Callable[..., Any], result: object) -> tuple[str, dict[str, Any]]:
    """The event and the fields that tell what a step did; no fields when there is nothing to tell.

    `Swept(reclaimed=3)` becomes ("swept", {"reclaimed": 3}).
    """
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        fields = {each.name: getattr(result, each.name) for each in dataclasses.fields(result)}
        event = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(result).__name__).lower()
        return event, {name: value for name, value in fields.items() if value}
    if isinstance(result, bool) or not result:
        return "", {}
    return name_of(step), {"result": result}
