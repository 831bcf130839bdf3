"""One pass of cron: settle the schedules whose time has come, then sleep until the next one's, or until one changes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from taskflow_domain import What
from taskflow_domain.rhythm import GRACE_MS
from taskflow_runtime.logs import Log, get_log
from taskflow_runtime.standing import StandingRead
from taskflow_streams import Firing, ScheduleRecord, Settled, Store, Unavailable, Write

AHEAD_MS = 100  # reading a thousand schedules takes some 20 ms
TAKE = 1000  # schedules in one pass: all their runs are started before the first record is written
MISSED = 10  # of them those that were missed: to count what each missed takes some 10 ms, and others fire in time
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
    They stay in hand until they are settled: after an outage, this one goes on where it was.
    """

    def __init__(self, store: Store, catchup_limit: int, hold_s: float) -> None:
        self._schedules = store.schedules
        self._firing = Firing(store, catchup_limit)
        self._hold_ms = int(hold_s * 1000)
        self._in_hand: dict[str, tuple[int, ScheduleRecord]] = {}
        self._failing: dict[str, str] = {}
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
        for schedule_id, error in taken.unreadable.items():
            self._fails(schedule_id, error)
        self._in_hand |= {record.id: (look_ms, record) for look_ms, record in taken.records}
        due = [record for look_ms, record in self._in_hand.values() if look_ms <= taken.now_ms]
        due = _at_once(due, taken.now_ms)
        if due:
            fresh = {record.id for _, record in taken.records}
            same = await self._schedules.unchanged([record for record in due if record.id not in fresh])
            ticked = await self._settle([*(record for record in due if record.id in fresh), *same], taken.now_ms)
            for record in due:
                del self._in_hand[record.id]
            return ticked, 0
        waits = [look_ms - taken.now_ms for look_ms, _ in self._in_hand.values()]
        return Ticked(), min([*waits, LONGEST_SLEEP_MS if taken.wait_ms is None else taken.wait_ms])

    async def close(self) -> None:
        """Listen no more, and leave to others at once what is in hand."""
        await self._listening.close()
        with suppress(Unavailable):
            await self._schedules.write(
                [Write(record.id, record.rev, look_ms, ring=True) for look_ms, record in self._in_hand.values()]
            )

    async def _listen(self) -> None:
        """Until a schedule changes, so that there is something to be done sooner."""
        if self._alarm is not None:
            self._alarm = await self._schedules.alarm(self._alarm, LONGEST_BLOCK_MS)

    async def _settle(self, due: Sequence[ScheduleRecord], now_ms: int) -> Ticked:
        """All together, but for those that failed before, which are tried again when nobody holds them any more."""
        sound = [record for record in due if record.id not in self._failing]
        suspect = [[record] for record in due if record.id in self._failing]
        return self._told([one for group in (sound, *suspect) for one in await self._try(group, now_ms)])

    async def _try(self, records: Sequence[ScheduleRecord], now_ms: int) -> list[Settled]:
        """If it fails, each half by itself, until those are alone that fail: the others do not wait for them."""
        try:
            settled = await self._firing.settle(records, now_ms)
        except Unavailable:
            raise
        except Exception as error:
            if len(records) == 1:
                self._fails(records[0].id, error)
                return []
            middle = len(records) // 2
            return await self._try(records[:middle], now_ms) + await self._try(records[middle:], now_ms)
        for record in records:
            self._failing.pop(record.id, None)
        return settled

    def _fails(self, schedule_id: str, error: Exception) -> None:
        """Log it, but not again and again."""
        why = repr(error)
        if self._failing.get(schedule_id) != why:
            self._log.error("schedule.failed", schedule=schedule_id, exc_info=error)
        self._failing[schedule_id] = why

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


def _at_once(due: Sequence[ScheduleRecord], now_ms: int) -> list[ScheduleRecord]:
    """Those to settle in this pass: all that have just come, and some that were missed; the rest stays in hand."""
    missed = [record for record in due if (record.progress.due_ms or now_ms) < now_ms - GRACE_MS]
    later = {record.id for record in missed[MISSED:]}
    return [record for record in due if record.id not in later]
