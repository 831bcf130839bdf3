"""Every Redis key TaskFlow owns: its type, its lifetime, and how partitions are named.

No other module spells a key.  The scripts do not either: `lua_names` writes the same table at the head of each of
them.  A partition is one hash slot, so that every script is legal on a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

from redis.crc import key_slot

MAX_PARTITIONS = 1024  # the ids have 10 bits for it
SLOTS = 16_384

# name -> (how it is spelt after the partition's prefix, type, what it holds).  A trailing colon takes a suffix.
NAMES: dict[str, tuple[str, str, str]] = {
    "meta": (
        "meta",
        "hash",
        "version, partitions, depver, vclock, bytes; always exists, KEYS[1] of every script",
    ),
    "job": ("job:", "hash", "a job's lifecycle, short fields only; until retention or deletion"),
    "spec": ("spec:", "string", "what to run, msgpack; as long as the job"),
    "result": ("result:", "string", "result or last error, msgpack; as long as the job"),
    "needs": ("needs:", "set", "all dependencies of a job; as long as the job"),
    "waits": ("waits:", "set", "its dependencies that have not ended; gone when it leaves PENDING"),
    "waited": ("waited:", "set", "jobs that wait for this one; emptied after it ended"),
    "deps": ("deps:", "set", "all jobs that name this one, also after it ended"),
    "gone": ("gone:", "string", "mark of a removed job that had an idempotency key, or of a deleted schedule; expires"),
    "ran": ("ran:", "zset", "the latest of a schedule's runs that were removed, by their creation; expires"),
    "ready": ("ready:", "zset", "READY and due, by score; one per <queue>:<handler>, a lane"),
    "lanes": ("lanes:", "set", "handlers of a queue's lanes that hold jobs and that a live worker can run"),
    "laned": ("laned:", "set", "queues in which a handler's lane holds jobs, runnable or parked"),
    "able": ("able:", "set", "pools whose workers have a handler"),
    "delayed": ("delayed", "zset", "READY but due later, by due time"),
    "work": (
        "work:",
        "stream",
        "leased jobs of a queue and nothing else, group `workers`: XLEN is the number in flight",
    ),
    "active": ("active", "zset", "queues with something to lease, by virtual time"),
    "queue": ("queue:", "hash", "a queue's settings and its virtual time while it is not active"),
    "queues": ("queues", "set", "known queues"),
    "worker": ("worker:", "hash", "a worker's registration; removed some time after it went offline"),
    "workers": ("workers", "zset", "workers by last heartbeat"),
    "pools": ("pools", "hash", "pool -> the queues it wants"),
    "members": ("members:", "set", "live workers of a pool"),
    "skills": ("skills:", "set", "handlers of a pool"),
    "bell": ("bell:", "zset", "wake-up for one idle worker of a pool"),
    "inbox": ("inbox:", "zset", "cancels and other orders for one worker"),
    "graph": (
        "graph",
        "stream",
        "endings that somebody waits for, subscriptions, new due times; group `scheduler`",
    ),
    "events": (
        "events",
        "stream",
        "the append-only history; trimmed by bytes and age, never past `projected`",
    ),
    "projected": ("projected", "string", "id of the last event applied by the projector"),
    "projector": ("projector", "string", "which projector is active; expires"),
    "deadlines": ("deadlines", "zset", "jobs that expire if they have not started, by time"),
    "ended": ("ended", "zset", "ended jobs by finish time, for retention"),
    "log": ("log:", "stream", "stdout and stderr chunks; as long as the job, or until its end if it is short"),
    "printed": (
        "printed:",
        "string",
        "a short log after the job's end, msgpack: a stream is 4 KB at least; as long as the job",
    ),
    "progress": ("progress:", "stream", "the last progress of a job that somebody follows; expires after an hour"),
    "over": ("over:", "stream", "the end of a job that somebody follows; expires a minute later"),
    "index": (
        "ix:",
        "zset",
        "<scope>:<status>:<priority>, score -created_ms; written by the projector alone",
    ),
    "totals": ("totals", "hash", "events counted by type and queue; written by the projector alone"),
    "minute": ("minute:", "hash", "the same, per minute; expires"),
    "claim": (
        "claim:",
        "string",
        "idempotency key -> job id and fingerprint of the body; control tag only; expires",
    ),
    "schedule": (
        "schedule:",
        "hash",
        "a schedule: rev, spec and progress (msgpack); control tag only, as all of these; until it is deleted",
    ),
    "schedules": ("schedules", "zset", "schedules that something is to be done about, by the time of that"),
    "calendar": ("calendar", "zset", "all schedules, by the time of their creation"),
    "names": ("names", "hash", "a schedule's name -> its id"),
    "fires": ("fires:", "stream", "what happened to a schedule; its last lines, as long as the schedule"),
    "alarm": ("alarm", "stream", "tells cron that something is to be done earlier than it knew; the last word only"),
}


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one partition (or, with the control tag, those that belong to none)."""

    prefix: str

    def __call__(self, name: str, suffix: str = "") -> str:
        """The key called `name` in the table above: `keys("job", job_id)`, `keys("events")`."""
        return f"{self.prefix}{NAMES[name][0]}{suffix}"

    def all(self) -> Iterator[tuple[str, str, str]]:
        """Rows of (key pattern, type, what it holds), for documentation."""
        for spelling, kind, holds in NAMES.values():
            yield f"{self.prefix}{spelling}{'<…>' if spelling.endswith(':') else ''}", kind, holds


def partition_keys(namespace: str, partition: int) -> Keys:
    """The keys of partition `partition` of a namespace."""
    return Keys(f"{namespace}:{{{partition_tag(partition)}}}:")


def control_keys(namespace: str) -> Keys:
    """The keys that belong to no partition."""
    return Keys(f"{namespace}:{{control}}:")


@lru_cache(maxsize=MAX_PARTITIONS)
def partition_tag(partition: int) -> str:
    """A hash tag for the partition, so that any number of partitions spreads evenly over a cluster's slots.

    The index's bits are reversed (0, 1/2, 1/4, 3/4, …), and a suffix is sought that hashes into that part of the slots.
    """
    if not 0 <= partition < MAX_PARTITIONS:
        raise ValueError(f"partition must be 0 to {MAX_PARTITIONS - 1}, not {partition}")
    wanted = int(f"{partition:010b}"[::-1], 2)
    width = SLOTS // MAX_PARTITIONS
    for suffix in count():
        tag = f"p{partition}" if suffix == 0 else f"p{partition}.{suffix}"
        if key_slot(tag.encode()) // width == wanted:
            return tag
    raise AssertionError("unreachable")


def lua_names() -> str:
    """The same table as Lua source; the prefix is that of KEYS[1], the partition's meta key."""
    rows = ", ".join(f"{name} = P .. '{spelling}'" for name, (spelling, _, _) in NAMES.items())
    return f"local P = string.sub(KEYS[1], 1, -{len('meta') + 1})\nlocal K = {{{rows}}}\n"
