"""What worker, nursery and children tell one another: msgpack values, each behind its length."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgpack

LONGEST = 8 << 20  # bytes of one value; the longest that is meant is a result
_LENGTH = struct.Struct("!I")


@dataclass(frozen=True, slots=True)
class Order:
    """A process to start.  Its descriptors 1 and 2 are its output; 3, if it gets one, is a line to the worker."""

    kind: Literal["exec", "call", "serve"]
    env: Mapping[str, str]
    argv: tuple[str, ...] = ()  # exec
    job: Mapping[str, Any] = field(default_factory=dict)  # call: what to call, and as what
    modules: tuple[str, ...] = ()  # serve: to import first
    path: tuple[str, ...] = ()  # sys.path of call and serve
    cwd: str | None = None
    mark: str = ""  # names the job in the environment of all its processes
    limits: Mapping[str, int | None] = field(default_factory=dict)

    def pack(self, number: int, fds: int) -> bytes:
        """As the nursery takes it, with so many descriptors."""
        return frame(
            {
                "number": number, "fds": fds, "kind": self.kind, "env": self.env, "argv": self.argv, "job": self.job,
                "modules": self.modules, "path": self.path, "cwd": self.cwd, "mark": self.mark, "limits": self.limits,
            }
        )  # fmt: skip


def frame(value: Any) -> bytes:
    """One value, behind its length."""
    packed: bytes = msgpack.packb(value)
    return _LENGTH.pack(len(packed)) + packed


class Frames:
    """Values out of a stream of bytes, however it is cut."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """The values that are whole by now.  Raises ValueError for what was never one of ours."""
        self._rest += data
        while len(self._rest) >= _LENGTH.size:
            length = _LENGTH.unpack_from(self._rest)[0]
            if length > LONGEST:
                raise ValueError(f"a value of {length:,} bytes was announced")
            end = _LENGTH.size + length
            if len(self._rest) < end:
                return
            value = msgpack.unpackb(self._rest[_LENGTH.size : end])
            del self._rest[:end]
            yield value
