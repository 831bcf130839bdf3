"""CPU time by process: on a noisy machine the steadiest figure there is."""

from __future__ import annotations

import os
from collections import defaultdict

import psutil


class Meter:
    """CPU seconds used by this process and all its descendants since the last reading."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self.read()

    def read(self) -> dict[str, float]:
        """Seconds since the last reading, by process name (`valkey`, `worker`, `client`, …)."""
        now: dict[str, float] = defaultdict(float)
        own = psutil.Process()
        for process in [own, *own.children(recursive=True)]:
            try:
                times = process.cpu_times()
                name = "client" if process.pid == os.getpid() else _name(process)
            except psutil.Error:
                continue
            now[name] += times.user + times.system
        used = {name: seconds - self._last.get(name, 0.0) for name, seconds in now.items()}
        self._last = now
        return used


def _name(process: psutil.Process) -> str:
    words = " ".join(process.cmdline()).split()
    return words[1] if len(words) > 1 and words[0] == "taskflow" else process.name()


def per_job(used: dict[str, float], jobs: int) -> str:
    """The largest users, in microseconds a job."""
    parts = [
        f"{name} {seconds / jobs * 1e6:.0f}" for name, seconds in sorted(used.items(), key=lambda row: -row[1])[:4]
    ]
    return "CPU µs a job: " + ", ".join(parts)
