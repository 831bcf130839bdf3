"""The leases a worker holds, in memory that another process can read while the worker itself is starved.

One writer.  A reader may see a row that is half written: renewing what is no lease does nothing.
"""

import mmap
import os
import struct
import tempfile
import time
from collections.abc import Iterator
from typing import Self

Token = tuple[str, int]  # as taskflow_streams has it, which whoever reads this need not load

_HEAD = struct.Struct("=Q")  # when the heart last ran, in ns of the clock that all processes share
_ROW = struct.Struct("=?xHxxxxQ36s")  # in use, partition, fence, job id
_HEAD_BYTES = 64


class Ledger:
    """Rows for as many leases as a worker can hold.  Made by the worker; `of` opens the same one elsewhere."""

    def __init__(self, rows: int, fd: int | None = None) -> None:
        size = _HEAD_BYTES + rows * _ROW.size
        self.rows = rows
        self.fd = _memory(size) if fd is None else fd
        self._map = mmap.mmap(self.fd, size)
        self._free = list(range(rows - 1, -1, -1))
        self._places: dict[tuple[int, Token], int] = {}

    @classmethod
    def of(cls, fd: int, rows: int) -> Self:
        """The one that another process has made, to read it."""
        return cls(rows, fd)

    def add(self, partition: int, token: Token) -> None:
        """From now on it is held.  What does not fit is not written; there are more rows than leases."""
        if self._free:
            place = self._places[partition, token] = self._free.pop()
            job_id, fence = token
            _ROW.pack_into(self._map, _HEAD_BYTES + place * _ROW.size, True, partition, fence, job_id.encode())

    def remove(self, partition: int, token: Token) -> None:
        """It is not held any more."""
        place = self._places.pop((partition, token), None)
        if place is not None:
            self._map[_HEAD_BYTES + place * _ROW.size] = 0
            self._free.append(place)

    def close(self) -> None:
        """Nobody else is to open it any more."""
        os.close(self.fd)

    def touch(self) -> None:
        """The heart runs."""
        _HEAD.pack_into(self._map, 0, time.monotonic_ns())

    def silence_s(self) -> float:
        """For how long it has not run."""
        (at_ns,) = _HEAD.unpack_from(self._map, 0)
        return (time.monotonic_ns() - int(at_ns)) / 1e9

    def held(self) -> Iterator[tuple[int, Token]]:
        """All that is held, as (partition, token)."""
        for place in range(self.rows):
            used, partition, fence, job_id = _ROW.unpack_from(self._map, _HEAD_BYTES + place * _ROW.size)
            if used:
                yield partition, (job_id.decode(errors="replace"), fence)


def _memory(size: int) -> int:
    """A descriptor of memory that can be shared, and is gone with the last who has it."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("taskflow-leases")
    else:
        fd, path = tempfile.mkstemp()
        os.unlink(path)
    os.ftruncate(fd, size)
    return fd
