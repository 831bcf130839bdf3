"""The heart's deputy: a small process that renews the worker's leases while the worker is busy beyond measure.

A thread can be starved: C code that holds the interpreter for a minute keeps the heart from beating for a minute.  The
deputy sees that from outside, and renews in its place, as long as the worker uses its CPU.  For a worker that was
stopped, or hangs, nobody renews, and its jobs go to others.  It ends with the worker, however that ends.
"""

import asyncio
import json
import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import setproctitle

from taskflow_worker.ledger import Ledger

LOOKS_PER_BEAT = 5
SILENT_BEATS = 1.2  # without one for so long, the heart is late
RESTART_S = 5.0


@dataclass(frozen=True, slots=True)
class Charge:
    """What a deputy must know.  It is told through a pipe: a password may be among it."""

    worker: str
    redis_url: str
    namespace: str
    every_s: float
    rows: int


class Deputy:
    """The worker's side: starts the process, again if it died, and ends it."""

    def __init__(self, charge: Charge, ledger: Ledger) -> None:
        self._charge, self._ledger = charge, ledger
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0

    def ensure(self) -> None:
        """See to it that there is one."""
        alive = self._process is not None and self._process.poll() is None
        if not alive and Path("/proc/self/stat").exists() and time.monotonic() - self._started_at > RESTART_S:
            self.close()
            self._start()

    def close(self) -> None:
        """End it."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
            process.kill()
            process.wait()

    def _start(self) -> None:
        self._started_at = time.monotonic()
        command = [sys.executable, "-P", "-m", "taskflow_worker.deputy", str(os.getpid()), str(self._ledger.fd)]
        self._process = process = subprocess.Popen(
            command, stdin=subprocess.PIPE, pass_fds=[self._ledger.fd], start_new_session=True
        )
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.write(json.dumps(asdict(self._charge)).encode() + b"\n")
            process.stdin.flush()


class Watch:
    """Whether a worker is starved: its heart is late, and yet it computes."""

    def __init__(self, late_s: float) -> None:
        self._late_s = late_s
        self._before: int | None = None

    def starved(self, silence_s: float, cpu_ticks: int) -> bool:
        """Look, again and again: it takes two looks to see that something moves."""
        if silence_s < self._late_s:
            self._before = None
            return False
        before, self._before = self._before, cpu_ticks
        return before is not None and cpu_ticks > before


def cpu_ticks(pid: int) -> int:
    """What a process has computed so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def watch(pid: int, ledger_fd: int) -> None:
    """Look and renew until the worker is gone."""
    setproctitle.setproctitle("taskflow deputy")
    charge = Charge(**json.loads(sys.stdin.buffer.readline()))
    ledger = Ledger.of(ledger_fd, charge.rows)
    worker = Watch(SILENT_BEATS * charge.every_s)
    next_at = 0.0
    while not select.select([sys.stdin.buffer], [], [], charge.every_s / LOOKS_PER_BEAT)[0]:
        if worker.starved(ledger.silence_s(), cpu_ticks(pid)) and time.monotonic() >= next_at:
            next_at = time.monotonic() + charge.every_s / 2
            try:
                asyncio.run(renew(charge, ledger))
            except Exception as error:  # the next one may succeed, and nobody could start another deputy now
                sys.stderr.write(f"The heart's deputy could not renew the leases: {error!r}\n")


async def renew(charge: Charge, ledger: Ledger) -> None:
    """One heartbeat in the worker's place.  What it learns it cannot tell: the worker does not listen."""
    from taskflow_streams import Store, Unavailable  # not before it is needed, which is hardly ever: it is large

    held = list(ledger.held())
    with suppress(Unavailable):  # of which the worker tells
        store = await Store.connect(charge.redis_url, namespace=charge.namespace)
        try:
            for partition in store.partitions:
                tokens = [token for index, token in held if index == partition.index]
                await partition.leases.renew(charge.worker, tokens, {"status": "degraded"})
        finally:
            await store.close()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, FileNotFoundError, ProcessLookupError):
        watch(int(sys.argv[1]), int(sys.argv[2]))
