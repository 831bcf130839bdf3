"""One stack per data directory, and where to find the one that runs.

The claim is a lock that the kernel takes back when its owner ends, however it ends; `up.json` beside it says who
the owner is and where its services are.  The file of an owner that was killed stays, so it counts only while
the lock is held.
"""

import contextlib
import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from taskflow.commands.errors import CommandFailed

LOCK_FILE = "up.lock"
STATE_FILE = "up.json"


@dataclass(frozen=True, slots=True)
class Running:
    """A stack that runs: its supervisor, its api, its broker, and where each process answers for its health."""

    pid: int
    api_url: str
    redis_url: str
    ready: bool
    health_urls: dict[str, str]


class Claim:
    """The right to run on a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.data_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise CommandFailed(
                f"Cannot use {self.data_dir} for data ({error.strerror}); choose another with --data-dir."
            ) from None
        if not _take(lock):
            os.close(lock)
            raise CommandFailed(_taken(self.data_dir))
        self._lock = lock
        (self.data_dir / STATE_FILE).unlink(missing_ok=True)  # of an owner that was killed
        return self

    def __exit__(self, *_: object) -> None:
        (self.data_dir / STATE_FILE).unlink(missing_ok=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def publish(self, running: Running) -> None:
        """Tell others what runs here.  Readers see the old file or the new one, never half of one."""
        new = self.data_dir / f"{STATE_FILE}.new"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(asdict(running), file, indent=2)
        new.replace(self.data_dir / STATE_FILE)


def find_running(data_dir: Path) -> Running | None:
    """The stack that runs on this directory; None if there is none, or it has not said yet."""
    try:
        lock = os.open(data_dir / LOCK_FILE, os.O_RDWR)
    except OSError:
        return None
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
    finally:
        os.close(lock)
    try:
        return Running(**json.loads((data_dir / STATE_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _take(lock: int) -> bool:
    """Take the lock; wait out those who only look (`find_running`), for they hold it for an instant."""
    for pause_s in (0.01, 0.05, 0.2, None):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if pause_s:
                time.sleep(pause_s)
        else:
            return True
    return False


def _taken(data_dir: Path) -> str:
    running = find_running(data_dir)
    who = f" (pid {running.pid}, {running.api_url})" if running else ""
    return f"TaskFlow already runs on {data_dir}{who}; stop that one, or give this one a --data-dir of its own."
