"""What worker, nursery and children tell one another: msgpack, one value a packet or behind its length."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import msgpack

PACKET_BYTES = 1 << 20
_LENGTH = struct.Struct("!I")


@dataclass(frozen=True, slots=True)
class Order:
    """A process to start.  It gets three descriptors: its output, its errors, and a line to the worker (3)."""

    kind: Literal["exec", "call", "serve"]
    env: Mapping[str, str]
    argv: tuple[str, ...] = ()  # exec
    job: Mapping[str, Any] = field(default_factory=dict)  # call: what to call, and as what
    modules: tuple[str, ...] = ()  # serve: to import first
    path: tuple[str, ...] = ()  # sys.path of call and serve
    cwd: str | None = None
    mark: str = ""  # names the job in the environment of all its processes
    limits: Mapping[str, int | None] = field(default_factory=dict)

    def pack(self, number: int) -> bytes:
        """As the nursery takes it."""
        return pack({"number": number, **asdict(self)})


def pack(value: Any) -> bytes:
    """One value."""
    packed: bytes = msgpack.packb(value)
    return packed


def unpack(packed: bytes) -> Any:
    """One value."""
    return msgpack.unpackb(packed)


def frame(value: Any) -> bytes:
    """One value, behind its length."""
    packed = pack(value)
    return _LENGTH.pack(len(packed)) + packed


class Frames:
    """Values out of a stream of bytes, however it is cut."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """The values that are whole by now."""
        self._rest += data
        while len(self._rest) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._rest)[0]
            if len(self._rest) < end:
                return
            value = unpack(bytes(self._rest[_LENGTH.size : end]))
            del self._rest[:end]
            yield value
