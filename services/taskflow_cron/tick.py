"""One pass of cron: settle the schedules whose time has come, then sleep until the next one's, or until one changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

from taskflow_domain import What
from taskflow_runtime.logs import Log, get_log
from taskflow_runtime.standing import StandingRead
from taskflow_streams import Firing, ScheduleRecord, Settled, Store

AHEAD_MS = 100  # reading a thousand schedules takes some 20 ms
TAKE = 1000  # schedules in one pass: all their runs are started before the first record is written
LONGEST_SLEEP_MS = 1_000  # so that a stop is noticed
LONGEST_BLOCK_MS = 10_000  # of a read that a pass does not wait for
TOLD = {What.SKIPPED: "info", What.ENDED: "info", What.PAUSED: "warning"}  # each by itself; the others are counted


@dataclass(frozen=True, slots=True)
class Ticked:
    """What one pass did."""

    fired: int = 0
    skipped: int = 0


class Ticker:
    """Any number of these may work at once: each schedule is given to one, and to settle it twice does no harm.

    Schedules are taken a moment before their time, so that in that moment only their runs are left to be started.
    """

    def __init__(self, store: Store, catchup_limit: int, hold_s: float) -> None:
        self._schedules = store.schedules
        self._firing = Firing(store, catchup_limit)
        self._hold_ms = int(hold_s * 1000)
        self._armed: dict[str, tuple[int, ScheduleRecord]] = {}
        self._alarm: str | None = None
        self._listening = StandingRead(self._listen)
        self._log: Log = get_log()

    async def run_once(self) -> Ticked:
        """Settle what is due; if there is nothing, sleep until there is."""
        if self._alarm is None:
            self._alarm = await self._schedules.last_alarm()
        asked_s = monotonic()
        ticked, wait_ms = await self.settle()
        if wait_ms:
            await self._listening.within(min(wait_ms, LONGEST_SLEEP_MS) / 1000 - (monotonic() - asked_s))
        return ticked

    async def settle(self) -> tuple[Ticked, int]:
        """Settle what is due; what was done, and for how many milliseconds there is nothing more to do."""
        taken = await self._schedules.take(TAKE, self._hold_ms, AHEAD_MS)
        early = [record for look_ms, record in self._armed.values() if look_ms <= taken.now_ms]
        due = [record for look_ms, record in taken.records if look_ms <= taken.now_ms]
        self._armed = {one: row for one, row in self._armed.items() if row[0] > taken.now_ms}
        self._armed |= {record.id: (look_ms, record) for look_ms, record in taken.records if look_ms > taken.now_ms}
        fresh = {record.id for record in due}
        due += await self._schedules.unchanged([record for record in early if record.id not in fresh])
        if due:
            return self._told(await self._firing.settle(due, taken.now_ms)), 0
        waits = [look_ms - taken.now_ms for look_ms, _ in self._armed.values()]
        return Ticked(), min([*waits, LONGEST_SLEEP_MS if taken.wait_ms is None else taken.wait_ms])

    async def close(self) -> None:
        """Listen no more."""
        await self._listening.close()

    async def _listen(self) -> None:
        """Until a schedule changes, so that there is something to be done sooner."""
        if self._alarm is not None:
            self._alarm = await self._schedules.alarm(self._alarm, LONGEST_BLOCK_MS)

    def _told(self, settled: Sequence[Settled]) -> Ticked:
        """Log what happened, and count it."""
        fired = skipped = 0
        for one in settled:
            for note in one.notes:
                fired += note.what is What.FIRED
                skipped += (note.count or 1) if note.what is What.SKIPPED else 0
                if note.what in TOLD:
                    getattr(self._log, TOLD[note.what])(
                        f"schedule.{note.what}", schedule=one.record.id, why=note.why, run=note.run, count=note.count
                    )
        return Ticked(fired, skipped)
