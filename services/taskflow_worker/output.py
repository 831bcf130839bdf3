"""What an attempt tells while it runs: output and progress, kept here until it is shipped.

Bounded whatever happens: of each stream LOG_BYTES and one byte more are taken, by which the server knows that
something was cut; the rest is counted and dropped.  Chunks carry their offset, so sending them twice does no harm.

An attempt that writes byte by byte, now here, now there, would make an entry of the log of each.  So what waits to be
shipped is joined, stream by stream, once there is more than a little of it; and who has shipped much lately waits.
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import get_args

from taskflow.context import progress_of
from taskflow.executor import Stream
from taskflow_domain import Redactor
from taskflow_streams import LOG_BYTES, Token

STREAMS = frozenset(get_args(Stream))
CHUNK_BYTES = 32 << 10  # of one entry in the log: small enough to page through

APART = 8  # chunks that keep the order in which two streams were written; further ones join the last of their stream
BURST = 500.0  # chunks that an attempt may ship at once
STEADY_PER_S = 50.0  # and in the long run: no reader sees the difference, and the log stays short

Chunk = tuple[str, bytes, int]  # stream, data, how many bytes of that stream came before


@dataclass(frozen=True, slots=True)
class Discretion:
    """What must not be seen in any output: regular expressions for it, and texts."""

    patterns: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


OPEN = Discretion()
_lock = threading.Lock()  # one for all, as most attempts never write: a lock for each would cost more than it saves


class Output:
    """One attempt's output.  `write` may be called from any thread; it never blocks and never fails."""

    __slots__ = (
        "_credit", "_credit_at", "_discretion", "_guards", "_note", "_offsets", "_on_news", "_pending", "_secrets",
        "_then", "grace_s", "shipping", "token",
    )  # fmt: skip

    def __init__(
        self,
        token: Token,
        on_news: Callable[["Output"], None],
        note: Callable[[Token, float, str], None],
        grace_s: float = 10.0,
        discretion: Discretion = OPEN,
    ) -> None:
        self.token = token
        self.grace_s = grace_s
        self.shipping = False  # chunks are on their way
        self._on_news, self._note, self._discretion = on_news, note, discretion
        self._pending: list[Chunk] = []
        self._offsets: dict[str, int] | None = None  # until something is written
        self._secrets = discretion.secrets
        self._guards: dict[str, Redactor] | None = None
        self._then: Callable[[], None] | None = None
        self._credit, self._credit_at = BURST, 0.0

    def write(self, stream: Stream, data: bytes) -> None:
        """Add to the output."""
        data = data.encode(errors="replace") if isinstance(data, str) else bytes(data)
        stream = stream if stream in STREAMS else "stdout"
        with _lock:
            if self._offsets is not None and self._offsets.get(stream, 0) > LOG_BYTES:
                return
            self._add(stream, self._guarded(stream, data))
        self._on_news(self)

    def progress(self, fraction: float, note: str = "") -> None:
        """Say how far the attempt is."""
        with suppress(TypeError, ValueError):  # nonsense is no progress
            self._note(self.token, *progress_of(fraction, note))

    def redact(self, secret: str) -> None:
        """Never let this text be seen in the output from now on."""
        with _lock:
            self._secrets += (secret,)
            for guard in (self._guards or {}).values():
                guard.add(secret)

    def may_ship(self, now_s: float) -> bool:
        """Whether it has not shipped too much lately."""
        self._credit = min(BURST, self._credit + (now_s - self._credit_at) * STEADY_PER_S)
        self._credit_at = now_s
        return self._credit >= 1

    def take(self) -> list[Chunk]:
        """What is to be shipped; it counts as shipping until `shipped` or `keep`."""
        with _lock:
            chunks, self._pending = self._pending, []
        self._credit -= len(chunks)
        self.shipping = bool(chunks)
        return chunks

    def take_rest(self) -> tuple[Chunk, ...]:
        """All that is left, when the attempt has ended; also what was held back to see whether it is a secret."""
        if self._offsets is None:
            return ()
        with _lock:
            for stream, guard in (self._guards or {}).items():
                self._add(stream, guard.flush())
            chunks, self._pending = self._pending, []
        return tuple(chunks)

    def shipped(self, back: Iterable[Chunk] = ()) -> None:
        """What was taken has arrived; or it has not, and is back."""
        with _lock:
            self._pending[:0] = back
        self.shipping = False
        then, self._then = self._then, None
        if then is not None:
            then()

    def when_shipped(self, action: Callable[[], None]) -> None:
        """Call it once nothing is on its way: what comes after the last word would be refused."""
        if self.shipping:
            self._then = action
        else:
            action()

    def _guarded(self, stream: str, data: bytes) -> bytes:
        if not self._secrets and not self._discretion.patterns:
            return data
        if self._guards is None:
            self._guards = {}
        guard = self._guards.get(stream)
        if guard is None:
            guard = self._guards[stream] = Redactor(self._secrets, self._discretion.patterns)
        return guard.feed(data)

    def _add(self, stream: str, data: bytes) -> None:
        if self._offsets is None:
            self._offsets = {}
        offset = self._offsets.get(stream, 0)
        data = data[: max(0, LOG_BYTES + 1 - offset)]
        for start in range(0, len(data), CHUNK_BYTES):
            self._append(stream, data[start : start + CHUNK_BYTES], offset + start)
        self._offsets[stream] = offset + len(data)

    def _append(self, stream: str, data: bytes, offset: int) -> None:
        """Neighbours of one stream that are short become one chunk; among many, those that are not neighbours, too."""
        pending = self._pending
        for i in range(len(pending) - 1, max(-1, len(pending) - 1 - APART), -1):
            last_stream, last, at = pending[i]
            if last_stream == stream:
                if len(last) + len(data) > CHUNK_BYTES:
                    break
                pending[i] = (stream, last + data, at)
                return
            if len(pending) < APART:
                break
        pending.append((stream, data, offset))
