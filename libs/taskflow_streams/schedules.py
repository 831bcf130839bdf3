"""Schedules: their records, who is to look at them when, and their history.  All under the control tag.

A record changes only by compare-and-set on its revision: whoever computed a change from an older one does it again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

import msgpack

from taskflow_domain import Backfill, Fire, Note, Origin, Over, Overlap, Pause, Progress, Schedule, What
from taskflow_streams.connection import Client
from taskflow_streams.errors import translated
from taskflow_streams.history import id_key
from taskflow_streams.keys import Keys
from taskflow_streams.records import NewJob, pack_retry, unpack_retry
from taskflow_streams.scripts import Scripts

MOST_SCHEDULES = 100_000
MARK_MS = 7 * 24 * 3600 * 1000  # as long as the key of the request that made it is remembered
HISTORY_LINES = 1000  # of one schedule; some 80 KB when all are there
MOST_REMEMBERED_BYTES = 4096  # of a definition once it was read; with its payload it may be a hundred times as long
NO_ALARM = "0-0"


class Written(StrEnum):
    """What became of a change."""

    OK = "ok"
    CHANGED = "changed"  # since it was read
    MISSING = "missing"
    EXISTING = "existing"
    GONE = "gone"  # it was made before, and deleted
    TAKEN = "taken"  # another schedule has the name
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Definition:
    """All that somebody said of a schedule, and what follows from it."""

    schedule: Schedule
    template: NewJob  # its runs, but for their ids and times
    body: bytes = b"{}"  # JSON, as it was sent
    owner: str | None = None

    def job(self, fire: Fire, *, tells_end: bool, is_one_of_many: bool = False) -> NewJob:
        """The run of a fire.  Once it is removed, a mark remains: the same fire never runs twice."""
        is_run = fire.origin is Origin.SCHEDULE and not is_one_of_many
        return replace(
            self.template,
            id=self.schedule.run_id(fire),
            due_ms=None if self.template.delay_ms else fire.at_ms,
            schedule_id=self.schedule.id,
            tells_schedule=tells_end,
            has_key=not is_run,
            is_run=is_run,  # the schedule itself remembers the latest of these
        )


# What a template holds of a job: not what each run has of its own.
TEMPLATE_FIELDS = (
    "name", "queue", "handler", "payload", "order", "type", "task", "retry", "timeout_ms", "delay_ms", "ttl_ms",
    "owner",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A schedule as it is at one revision."""

    id: str
    rev: int
    definition: Definition
    progress: Progress
    name: str | None = None
    created_ms: int = 0
    updated_ms: int = 0

    @property
    def schedule(self) -> Schedule:
        """Its times and rules."""
        return self.definition.schedule


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a schedule's history."""

    id: str
    at_ms: int
    note: Note


@dataclass(frozen=True, slots=True)
class Write:
    """A change of one schedule, computed from a revision (0: it is new).  What is None stays."""

    id: str
    rev: int
    look_ms: int | None  # when something is to be done; None: not before the next change
    progress: Progress | None = None
    definition: Definition | None = None
    name: str | None = None  # "" takes it away
    created_ms: int = 0
    notes: Sequence[Note] = ()
    ring: bool = False  # wake cron if that is sooner than all it knows

    def pack(self) -> dict[str, object]:
        """As write_schedules.lua takes it."""
        packed: dict[str, object] = {
            "id": self.id,
            "rev": self.rev,
            "look": self.look_ms if self.look_ms is not None else False,
            "notes": [_pack_note(note) for note in self.notes],
            "ring": self.ring,
            "created": self.created_ms,
        }
        if self.progress is not None:
            packed["progress"] = _pack_progress(self.progress)
        if self.definition is not None:
            packed["spec"] = _pack_definition(self.definition)
        if self.name is not None:
            packed["name"] = self.name
        return packed


@dataclass(frozen=True, slots=True)
class Taken:
    """Schedules that something is to be done about, and when; how long until there are more (None: there are none)."""

    now_ms: int
    records: list[tuple[int, ScheduleRecord]]
    wait_ms: int | None
    unreadable: dict[str, Exception] = field(default_factory=dict)  # such as those that a later version has written


class Schedules:
    """All schedules of a deployment."""

    def __init__(self, redis: Client, blocking: Client, keys: Keys, scripts: Scripts) -> None:
        self._redis = redis
        self._blocking = blocking
        self._keys = keys
        self._scripts = scripts

    async def write(self, writes: Sequence[Write]) -> list[Written]:
        """Make or change schedules, each by itself."""
        if not writes:
            return []
        args = {"rows": [write.pack() for write in writes], "history": HISTORY_LINES, "most": MOST_SCHEDULES}
        return [Written(word.decode()) for word in await self._scripts.run("write_schedules", args)]

    async def delete(self, schedule_id: str) -> bool:
        """Remove a schedule and its history; False if there is none."""
        return bool(await self._scripts.run("delete_schedule", {"id": schedule_id, "keep_ms": MARK_MS}) == b"deleted")

    async def take(self, limit: int, hold_ms: int, ahead_ms: int = 0) -> Taken:
        """Schedules whose time comes within `ahead_ms`; nobody else is given them for `hold_ms`, unless they change."""
        args = {"limit": limit, "hold_ms": hold_ms, "ahead_ms": ahead_ms}
        now_ms, rows, wait_ms = await self._scripts.run("take_schedules", args)
        taken = Taken(int(now_ms), [], None if wait_ms is False else int(wait_ms))
        for raw_id, look_ms, fields in rows:
            schedule_id = raw_id.decode()
            try:
                record = _read(schedule_id, dict(zip(fields[::2], fields[1::2], strict=True)))
            except Exception as error:  # whatever it is: the others are not to wait for this one
                taken.unreadable[schedule_id] = error
            else:
                taken.records.append((int(look_ms), record))
        return taken

    async def unchanged(self, records: Sequence[ScheduleRecord]) -> list[ScheduleRecord]:
        """Those of these that are still what they were."""
        if not records:
            return []
        same = await self._scripts.run("unchanged_schedules", [(record.id, record.rev) for record in records])
        return [record for record, is_same in zip(records, same, strict=True) if is_same]

    async def poke(self, schedule_ids: Collection[str]) -> None:
        """A run that these schedules wait for has ended: somebody is to look at them."""
        if schedule_ids:
            await self._scripts.run("poke_schedules", sorted(schedule_ids))

    async def last_alarm(self) -> str:
        """Where `alarm` goes on from."""
        with translated():
            rows = await self._redis.xrevrange(self._keys("alarm"), count=1)
        return str(rows[0][0].decode()) if rows else NO_ALARM

    async def alarm(self, after: str, block_ms: int) -> str:
        """Wait until something is to be done sooner than was known, but not longer than this; where to go on from."""
        with translated():
            reply = await self._blocking.xread({self._keys("alarm"): after}, block=max(1, block_ms))
        return str(reply[0][1][-1][0].decode()) if reply else after

    async def get(self, schedule_ids: Sequence[str]) -> list[ScheduleRecord | None]:
        """These schedules; None for what does not exist."""
        if not schedule_ids:
            return []
        with translated():
            async with self._redis.pipeline(transaction=False) as pipe:
                for schedule_id in schedule_ids:
                    pipe.hgetall(self._keys("schedule", schedule_id))
                rows = await pipe.execute()
        return [_read(one, row) if row else None for one, row in zip(schedule_ids, rows, strict=True)]

    async def crons(self, schedule_ids: Collection[str]) -> dict[str, str | None]:
        """The cron expressions of those of these schedules that exist."""
        if not schedule_ids:
            return {}
        with translated():
            async with self._redis.pipeline(transaction=False) as pipe:
                for schedule_id in schedule_ids:
                    pipe.hget(self._keys("schedule", schedule_id), "spec")
                rows = await pipe.execute()
        found = zip(schedule_ids, rows, strict=True)
        return {one: _read_definition(packed).schedule.cron for one, packed in found if packed is not None}

    async def find(self, ref: str) -> ScheduleRecord | None:
        """The schedule of this id or name."""
        [record] = await self.get([ref])
        if record is None:
            with translated():
                found: bytes | None = await self._redis.hget(self._keys("names"), ref)
            if found is not None:
                [record] = await self.get([found.decode()])
        return record

    async def ids(self, after: tuple[int, str] | None = None, count: int = 500) -> list[tuple[int, str]]:
        """Ids by creation, the newest first, each with its time; those after a place."""
        key, most = self._keys("calendar"), "+inf" if after is None else after[0]
        places: list[tuple[int, str]] = []
        offset = 0
        while len(places) < count:
            with translated():
                rows = await self._redis.zrevrangebyscore(key, most, "-inf", start=offset, num=count, withscores=True)
            found = [(int(score), member.decode()) for member, score in rows]
            places += [place for place in found if after is None or place < after]
            offset += len(rows)
            if len(rows) < count:
                break
        return places[:count]

    async def count(self) -> int:
        """How many there are."""
        with translated():
            return int(await self._redis.zcard(self._keys("calendar")))

    async def history(self, schedule_id: str, before: str | None = None, count: int = 100) -> list[Line]:
        """What happened to a schedule, the newest first; what was before a line."""
        if before is not None and id_key(before) == (0, 0):  # the server takes no range that can hold nothing
            return []
        newest = "+" if before is None else f"({before}"
        with translated():
            rows = await self._redis.xrevrange(self._keys("fires", schedule_id), newest, "-", count=count)
        return [Line(entry.decode(), int(fields[b"at"]), _read_note(fields[b"note"])) for entry, fields in rows]


def _read(schedule_id: str, fields: Mapping[bytes, bytes]) -> ScheduleRecord:
    name = fields.get(b"name")
    return ScheduleRecord(
        id=schedule_id,
        rev=int(fields[b"rev"]),
        definition=_read_definition(fields[b"spec"]),
        progress=_read_progress(fields[b"progress"]),
        name=None if name is None else name.decode(),
        created_ms=int(fields[b"created"]),
        updated_ms=int(fields[b"updated"]),
    )


def _pack(value: object) -> bytes:
    packed: bytes = msgpack.packb(value)
    return packed


def _pack_definition(definition: Definition) -> bytes:
    template = {name: getattr(definition.template, name) for name in TEMPLATE_FIELDS}
    template["retry"] = pack_retry(definition.template.retry)
    return _pack({
        "schedule": asdict(definition.schedule),
        "template": template,
        "body": definition.body,
        "owner": definition.owner,
    })  # fmt: skip


def _read_definition(packed: bytes) -> Definition:
    return _remembered(packed) if len(packed) <= MOST_REMEMBERED_BYTES else _parsed(packed)


@lru_cache(maxsize=20_000)  # cron reads the same ones again and again
def _remembered(packed: bytes) -> Definition:
    return _parsed(packed)


def _parsed(packed: bytes) -> Definition:
    raw: dict[str, Any] = msgpack.unpackb(packed)
    schedule, template = raw["schedule"], raw["template"]
    return Definition(
        Schedule(**{**schedule, "overlap": Overlap(schedule["overlap"])}),
        NewJob(id="", **{**template, "retry": unpack_retry(template["retry"])}),
        raw["body"],
        raw["owner"],
    )


def _pack_progress(progress: Progress) -> bytes:
    pause = progress.pause
    return _pack({
        "after_ms": progress.after_ms,
        "next_ms": progress.next_ms,
        "due_ms": progress.due_ms,
        "runs": progress.runs,
        "over": progress.over,
        "pause": pause and (pause.since_ms, pause.reason),
        "active": progress.active,
        "waiting": [(fire.at_ms, fire.origin, fire.key, fire.overlap) for fire in progress.waiting],
        "backfills": [(each.after_ms, each.to_ms, each.overlap, each.key) for each in progress.backfills],
        "last_ms": progress.last_ms,
        "last_run": progress.last_run,
    })  # fmt: skip


def _read_progress(packed: bytes) -> Progress:
    raw: dict[str, Any] = msgpack.unpackb(packed)
    raw["over"] = raw["over"] and Over(raw["over"])
    raw["pause"] = raw["pause"] and Pause(*raw["pause"])
    raw["active"] = tuple(raw["active"])
    raw["waiting"] = tuple(
        Fire(at_ms, Origin(origin), key, overlap and Overlap(overlap)) for at_ms, origin, key, overlap in raw["waiting"]
    )
    raw["backfills"] = tuple(
        Backfill(after_ms, to_ms, Overlap(overlap), key) for after_ms, to_ms, overlap, key in raw["backfills"]
    )
    return Progress(**raw)


def _pack_note(note: Note) -> bytes:
    return _pack((note.what, note.fire_ms, note.origin, note.why, note.run, note.last_ms, note.count))


def _read_note(packed: bytes) -> Note:
    what, fire_ms, origin, why, run, last_ms, count = msgpack.unpackb(packed)
    return Note(What(what), fire_ms, origin and Origin(origin), why, run, last_ms, count)
