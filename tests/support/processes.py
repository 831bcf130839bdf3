"""The words of tests that run executors alone, without a worker around them."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from taskflow.executor import Kit, Stream, Work
from taskflow_worker.processes import Nursery
from tests.support.working import until

_fences = count(1)


class Heard:
    """A report that remembers."""

    def __init__(self, grace_s: float = 0.5) -> None:
        self.grace_s = grace_s
        self.out, self.err = b"", b""
        self.told: list[tuple[float, str]] = []

    def write(self, stream: Stream, data: bytes) -> None:
        if stream == "stdout":
            self.out += data
        else:
            self.err += data

    def progress(self, fraction: float, note: str = "") -> None:
        self.told.append((fraction, note))

    def redact(self, secret: str) -> None:
        """Not looked at here."""


def work(payload: dict[str, Any]) -> Work:
    """An attempt."""
    job_id = "01234567-89ab-7000-8000-0123456789ab"
    return Work(job_id, 1, next(_fences), "q", "n", "t", "w", json.dumps(payload).encode())


def kit(nursery: Nursery, **options: Any) -> Kit:
    """What executors get."""
    return Kit(env_allowlist=("PATH",), services={"nursery": nursery}, **options)


def titled(pid: int, title: str) -> list[psutil.Process]:
    """The descendants of a process whose titles begin so, among others that come and go."""
    found = []
    for each in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):
            if " ".join(each.cmdline()).startswith(title):
                found.append(each)
    return found


def gone(pid: int) -> bool:
    """Whether no such process runs."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def end_of(*pids: int) -> None:
    """Wait until none of these runs."""

    async def all_gone() -> bool:
        return all(map(gone, pids))

    await until(all_gone, f"end of {pids}")


def written(path: Path) -> str:
    """A whole line that a command has written there."""
    text = path.read_text() if path.exists() else ""
    return text if text.endswith("\n") else ""


async def read_pid(path: Path) -> int:
    """The pid that a command writes there."""

    async def there() -> bool:
        return bool(written(path))

    await until(there, f"pid in {path}")
    return int(written(path))
