"""Job ids: UUIDs of version 7 that sort by time and carry their partition.

    48 bits ms | version 7 | 12 bits counter | variant | 10 bits partition | 52 bits random

The counter carries into the milliseconds, so one factory never repeats or goes back, whatever its clock does.
The variant and the partition fill three hex digits exactly; `partition_of` reads them and parses no more.
"""

import re
import secrets
import threading
from collections.abc import Callable
from hashlib import sha256
from typing import Final

MAX_PARTITIONS: Final = 1 << 10

_COUNTER_BITS: Final = 12
_COUNTER_MASK: Final = (1 << _COUNTER_BITS) - 1
_RANDOM_BITS: Final = 52
_RANDOM_DIGITS: Final = _RANDOM_BITS // 4
_END_OF_TIME_MS: Final = 1 << 48
_VARIANT: Final = 0x800

_ANY_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_JOB_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class IdFactory:
    """Makes job ids.  Thread-safe; ids of one factory and partition rise strictly.

    `now_ms` is the clock and `random_bits(k)` yields k random bits.  The default source is the system's,
    because a seeded generator would repeat itself in both halves of a fork.
    """

    def __init__(self, now_ms: Callable[[], int], random_bits: Callable[[int], int] = secrets.randbits) -> None:
        self._now_ms = now_ms
        self._random_bits = random_bits
        self._lock = threading.Lock()
        self._next_tick = 0  # milliseconds and counter as one number: the carry is plain addition

    def new(self, partition: int = 0) -> str:
        """One id of the given partition."""
        head = _partition_digits(partition)
        return _spell(self._take_ticks(1), head, f"{self._random_bits(_RANDOM_BITS):013x}")

    def new_many(self, count: int, partition: int = 0) -> list[str]:
        """`count` ids of the given partition, in rising order."""
        if count < 1:
            return []
        head, first = _partition_digits(partition), self._take_ticks(count)
        noise = f"{self._random_bits(count * _RANDOM_BITS):0{count * _RANDOM_DIGITS}x}"
        return [_spell(first + i, head, noise[i * _RANDOM_DIGITS : (i + 1) * _RANDOM_DIGITS]) for i in range(count)]

    def _take_ticks(self, count: int) -> int:
        with self._lock:
            first = max(self._now_ms() << _COUNTER_BITS, self._next_tick)
            self._next_tick = first + count
        return first


def derived_id(seed: str, ms: int, partition: int = 0) -> str:
    """The id that belongs to (seed, ms, partition): the same for everyone who asks, however often."""
    digest = int.from_bytes(sha256(seed.encode()).digest()[:8])
    if not 0 <= ms < _END_OF_TIME_MS:
        raise ValueError(f"a job id holds milliseconds from 0 to 2^48 - 1, not {ms}")
    tick = ms << _COUNTER_BITS | digest >> _RANDOM_BITS
    return _spell(tick, _partition_digits(partition), f"{digest & ((1 << _RANDOM_BITS) - 1):013x}")


def index_id(seed: str, ms: int, index: int, sibling: str) -> str:
    """The id that belongs to a seed, in the partition of another id; of the same `ms`, a higher index sorts later."""
    digest = int.from_bytes(sha256(seed.encode()).digest()[:8])
    head = _partition_digits(partition_of(sibling) or 0)
    return _spell((ms << _COUNTER_BITS) + index, head, f"{digest & ((1 << _RANDOM_BITS) - 1):013x}")


def ms_of_id(job_id: str) -> int:
    """The milliseconds that an id of version 7 begins with; of a derived one, those it was derived from."""
    return int(job_id[:8] + job_id[9:13], 16)


def canonical_id(text: str) -> str | None:
    """The lower-case spelling of a hyphenated UUID of any version, or None if `text` is none."""
    lowered = text.lower()
    return lowered if _ANY_UUID.fullmatch(lowered) else None


def partition_of(job_id: str) -> int | None:
    """The partition a job id carries, or None if `job_id` is not a job id in its canonical spelling."""
    if _JOB_ID.fullmatch(job_id) is None:
        return None
    return int(job_id[19:22], 16) - _VARIANT


def _partition_digits(partition: int) -> str:
    if not 0 <= partition < MAX_PARTITIONS:
        raise ValueError(f"a partition is a number from 0 to {MAX_PARTITIONS - 1}, not {partition}")
    return f"{_VARIANT | partition:03x}"


def _spell(tick: int, partition_digits: str, noise: str) -> str:
    ms = f"{tick >> _COUNTER_BITS:012x}"
    return f"{ms[:8]}-{ms[8:]}-7{tick & _COUNTER_MASK:03x}-{partition_digits}{noise[0]}-{noise[1:]}"
