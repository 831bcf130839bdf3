"""What a worker and the processes of its jobs use: CPU and memory."""

import time
from contextlib import suppress

import psutil


class Usage:
    """Read now and then, from one thread."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._at, self._cpu_s = time.monotonic(), self._sums()[0]

    def read(self) -> tuple[float, int]:
        """Percent of one core since the last read, and bytes in memory now: the worker, and all that it started."""
        at, (cpu_s, rss) = time.monotonic(), self._sums()
        percent = 100 * (cpu_s - self._cpu_s) / max(at - self._at, 0.001)
        self._at, self._cpu_s = at, cpu_s
        return max(0.0, percent), rss  # less than before: what a process used went with it

    def _sums(self) -> tuple[float, int]:
        cpu_s, rss = 0.0, 0
        members = [self._process]
        with suppress(psutil.Error):
            members += self._process.children(recursive=True)
        for member in members:
            with suppress(psutil.Error):  # it has just ended
                used = member.cpu_times()
                cpu_s += used.user + used.system
                rss += member.memory_info().rss
        return cpu_s, rss
