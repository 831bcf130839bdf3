"""All that one partition holds in Redis, or the control tag, read in one call and sorted by the names of keys.py."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

from taskflow_streams.connection import Client
from taskflow_streams.keys import NAMES, Keys
from taskflow_streams.store import Partition, Store

Fields = dict[str, str]
Scores = dict[str, float]

CONTROL = -1  # the index of what belongs to no partition

DUMP = """#!lua flags=no-writes
local rows = {}
for i, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  local kind, value, pending = redis.call('TYPE', key).ok, nil, {}
  if kind == 'string' then value = redis.call('GET', key)
  elseif kind == 'hash' then value = redis.call('HGETALL', key)
  elseif kind == 'set' then value = redis.call('SMEMBERS', key)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  else
    value = redis.call('XRANGE', key, '-', '+')
    for _, group in ipairs(redis.call('XINFO', 'GROUPS', key)) do
      for _, row in ipairs(redis.call('XPENDING', key, group[2], '-', '+', 100000)) do pending[#pending + 1] = row end
    end
  end
  rows[i] = { key, kind, redis.call('PTTL', key), value, pending }
end
return cmsgpack.pack(rows)
"""


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

    @property
    def names(self) -> set[str]:
        """What is there, by the names of keys.py."""
        shelves = (self.strings, self.hashes, self.sets, self.zsets, self.streams)
        return {name for shelf in shelves for name, keys in shelf.items() if keys}


async def take(partition: Partition) -> Picture:
    """Read a partition."""
    return await _read(partition.redis, partition.keys, partition.index)


async def take_control(store: Store) -> Picture:
    """Read what belongs to no partition."""
    return await _read(store.redis, store._control, CONTROL)


async def _read(redis: Client, keys: Keys, index: int) -> Picture:
    rows = msgpack.unpackb(await redis.eval(DUMP, 0, keys.prefix), raw=True)
    picture = Picture(index)
    for key, kind, ttl, value, pending in rows:
        short = key.decode().removeprefix(keys.prefix)
        known = _known(short)
        if ttl >= 0:
            picture.mortal.add(short)
        if known is None or NAMES[known[0]][1] != kind.decode():
            picture.strange.add(short)
        else:
            _shelve(picture, *known, kind.decode(), value, pending)
    return picture


def _known(short: str) -> tuple[str, str] | None:
    head, colon, suffix = short.partition(":")
    for name, (spelling, _, _) in NAMES.items():
        if spelling == head + colon:
            return name, suffix
    return None


def _shelve(picture: Picture, name: str, suffix: str, kind: str, value: Any, pending: Any) -> None:
    match kind:
        case "string":
            picture.strings[name][suffix] = value
        case "hash":
            picture.hashes[name][suffix] = _pairs(value)
        case "set":
            picture.sets[name][suffix] = {member.decode() for member in value}
        case "zset":
            picture.zsets[name][suffix] = {member: float(score) for member, score in _pairs(value).items()}
        case "stream":
            holders = {entry.decode(): consumer.decode() for entry, consumer, _, _ in pending}
            entries = [(entry.decode(), _pairs(fields)) for entry, fields in value]
            held = [Entry(entry, fields, holders.pop(entry, None)) for entry, fields in entries]
            orphans = [Entry(entry, {}, consumer) for entry, consumer in holders.items()]
            picture.streams[name][suffix] = held + orphans


def _pairs(flat: Sequence[bytes]) -> Fields:
    text = [part.decode(errors="replace") for part in flat]
    return dict(zip(text[::2], text[1::2], strict=True))
