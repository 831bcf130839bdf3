"""The two-stage stop: the first SIGTERM or SIGINT asks, the second insists."""

import contextlib
import os
import signal
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)
ECHO_S = 0.2  # a wrapper passes on the Ctrl-C that the terminal has sent us already; no hand is that fast


@contextlib.contextmanager
def two_stage(loop: AbstractEventLoop, ask: Callable[[str], None], arm: Callable[[], None]) -> Iterator[None]:
    """At the first signal call `arm` at once and `ask` on the loop; end the process at the second.

    The loop may be stuck and never ask; both the second signal and what was armed work all the same.
    """
    asked_at: float | None = None

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal asked_at
        if asked_at is None:
            asked_at = time.monotonic()
            arm()
            loop.call_soon_threadsafe(ask, signal.Signals(number).name)
        elif time.monotonic() - asked_at > ECHO_S:
            os._exit(128 + number)

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
