"""One sweep over a partition: end lost leases, bury dead workers, expire, and forget what is old."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from taskflow_reaper.settings import ReaperSettings
from taskflow_reaper.watch import Watch
from taskflow_runtime.logs import Log, get_log
from taskflow_streams import BATCH, Partition, Store

QUEUES_PER_CALL = 100
REAP_WITHIN_MS = 1_000  # of the tick: a call that a stalled server gets to later must not judge
RETENTION_EVERY_S = 5.0
RETENTION_ROUNDS = 20  # so that one pass never holds up the leases


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep did."""

    reaped: int = 0
    failed: int = 0
    expired: int = 0
    buried: int = 0
    retired: int = 0
    trimmed: int = 0


class Sweeper:
    """Sweeps one partition.  Any number of replicas may do so: each step is one script that checks first."""

    def __init__(
        self, store: Store, partition: Partition, settings: ReaperSettings, clock: Callable[[], float] = monotonic
    ) -> None:
        self._store = store
        self._partition = partition
        self._settings = settings
        self._clock = clock
        self._watch = Watch(longest_gap_s=max(3.0, 3 * settings.reap_interval_s))
        self._retire_at = 0.0
        self._log: Log = get_log()

    async def run_once(self) -> Swept:
        """One sweep.  An error starts the watch again, for it may have been an outage."""
        try:
            return await self._sweep()
        except BaseException:
            self._watch.interrupt()
            raise

    async def _sweep(self) -> Swept:
        expired = await self._expire()
        reaped = failed = buried = 0
        server_ms = await self._store.now_ms()
        if self._watch.tick(self._clock(), server_ms / 1000) >= self._settings.visibility_timeout_s:
            reaped, failed = await self._reap(server_ms + REAP_WITHIN_MS)
            buried = await self._bury()
        retired = trimmed = 0
        if self._clock() >= self._retire_at:
            retired = await self._retire()
            trimmed = await self._trim()
            self._retire_at = self._clock() + RETENTION_EVERY_S
        return Swept(reaped, failed, expired, buried, retired, trimmed)

    async def _expire(self) -> int:
        total = 0
        while (expired := await self._partition.upkeep.expire()) > 0:
            total += expired
        return total

    async def _reap(self, by_ms: int) -> tuple[int, int]:
        visibility_ms = int(self._settings.visibility_timeout_s * 1000)
        names = await self._partition.queues.names()
        total = total_failed = 0
        for start in range(0, len(names), QUEUES_PER_CALL):
            chunk = names[start : start + QUEUES_PER_CALL]
            while True:
                reaped, failed = await self._partition.upkeep.reap(*chunk, visibility_ms=visibility_ms, by_ms=by_ms)
                total, total_failed = total + reaped, total_failed + failed
                if reaped < BATCH:
                    break
        return total, total_failed

    async def _bury(self) -> int:
        """Workers that stopped sending heartbeats leave their pool; later the list forgets them."""
        now_ms = await self._store.now_ms()
        silent_ms = now_ms - int(self._settings.visibility_timeout_s * 1000)
        forget_ms = now_ms - int(self._settings.worker_forget_s * 1000)
        buried = 0
        for worker, seen_ms, already in await self._partition.workers.silent_since(silent_ms):
            forget = seen_ms < forget_ms
            if not already or forget:
                word = await self._partition.workers.bury(worker, silent_ms, forget=forget)
                if word != "alive" and not already:
                    buried += 1
                    self._log.warning("worker.lost", worker_id=worker, silent_s=round((now_ms - seen_ms) / 1000, 1))
        return buried

    async def _retire(self) -> int:
        before_ms = await self._store.now_ms() - int(self._settings.retention_s * 1000)
        total = 0
        for _ in range(RETENTION_ROUNDS):
            removed, kept = await self._partition.upkeep.retire(
                before_ms, self._settings.retention_count, self._settings.retention_bytes
            )
            total += removed
            if removed + kept < BATCH:
                break
        return total

    async def _trim(self) -> int:
        before_ms = await self._store.now_ms() - int(self._settings.events_retention_s * 1000)
        return await self._partition.upkeep.trim_events(before_ms, self._settings.events_max_bytes)
