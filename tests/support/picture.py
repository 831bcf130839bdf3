"""All that one partition holds in Redis, read at once and sorted by the names of keys.py."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from taskflow_streams.keys import NAMES, Keys
from taskflow_streams.store import Partition

Fields = dict[str, str]
Scores = dict[str, float]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a stream, and the consumer that holds it."""

    id: str
    fields: Fields
    consumer: str | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """Every key of a partition: by name and suffix (empty for a key without one)."""

    index: int
    strings: dict[str, dict[str, bytes]] = field(default_factory=lambda: defaultdict(dict))
    hashes: dict[str, dict[str, Fields]] = field(default_factory=lambda: defaultdict(dict))
    sets: dict[str, dict[str, set[str]]] = field(default_factory=lambda: defaultdict(dict))
    zsets: dict[str, dict[str, Scores]] = field(default_factory=lambda: defaultdict(dict))
    streams: dict[str, dict[str, list[Entry]]] = field(default_factory=lambda: defaultdict(dict))
    mortal: set[str] = field(default_factory=set)  # keys that expire, spelt without the prefix
    strange: set[str] = field(default_factory=set)  # keys that keys.py does not know, or of another type

    @property
    def jobs(self) -> dict[str, Fields]:
        """The records."""
        return self.hashes["job"]


async def take(partition: Partition) -> Picture:
    """Read a partition."""
    redis, prefix = partition.redis, partition.keys.prefix
    names = sorted(await redis.keys(f"{prefix}*"))
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.type(name)
            pipe.pttl(name)
        facts = await pipe.execute()
    picture = Picture(partition.index)
    readable = []
    for name, kind, ttl in zip(names, facts[::2], facts[1::2], strict=True):
        short = name.decode().removeprefix(prefix)
        known = _known(short)
        if ttl >= 0:
            picture.mortal.add(short)
        if known is None or NAMES[known[0]][1] != kind.decode():
            picture.strange.add(short)
        else:
            readable.append((name, kind.decode(), *known))
    shelves: dict[str, Any] = {
        "string": picture.strings,
        "hash": picture.hashes,
        "set": picture.sets,
        "zset": picture.zsets,
        "stream": picture.streams,
    }
    for (_, kind, name, suffix), value in zip(readable, await _values(redis, readable), strict=True):
        shelves[kind][name][suffix] = value
    await _note_consumers(redis, partition.keys, picture)
    return picture


def _known(short: str) -> tuple[str, str] | None:
    for name, (spelling, _, _) in NAMES.items():
        if spelling == short:
            return name, ""
        if spelling.endswith(":") and short.startswith(spelling):
            return name, short.removeprefix(spelling)
    return None


async def _values(redis: Any, readable: list[tuple[bytes, str, str, str]]) -> list[Any]:
    async with redis.pipeline(transaction=False) as pipe:
        for key, kind, _, _ in readable:
            match kind:
                case "string":
                    pipe.get(key)
                case "hash":
                    pipe.hgetall(key)
                case "set":
                    pipe.smembers(key)
                case "zset":
                    pipe.zrange(key, 0, -1, withscores=True)
                case _:
                    pipe.xrange(key)
        rows = await pipe.execute()
    return [_decoded(kind, row) for (_, kind, _, _), row in zip(readable, rows, strict=True)]


def _decoded(kind: str, row: Any) -> Any:
    match kind:
        case "string":
            return row
        case "hash":
            return {name.decode(): value.decode(errors="replace") for name, value in row.items()}
        case "set":
            return {member.decode() for member in row}
        case "zset":
            return {member.decode(): score for member, score in row}
    return [
        Entry(entry.decode(), {name.decode(): value.decode(errors="replace") for name, value in fields.items()})
        for entry, fields in row
    ]


async def _note_consumers(redis: Any, keys: Keys, picture: Picture) -> None:
    """Leases are pending entries: who holds each entry of the work streams."""
    for queue, entries in picture.streams["work"].items():
        pending = await redis.xpending_range(keys("work", queue), "workers", "-", "+", 10_000)
        holders = {row["message_id"].decode(): row["consumer"].decode() for row in pending}
        held = [Entry(entry.id, entry.fields, holders.pop(entry.id, None)) for entry in entries]
        picture.streams["work"][queue] = held + [Entry(entry, {}, holder) for entry, holder in holders.items()]
