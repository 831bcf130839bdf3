"""The output of a job as text.

It is kept in pieces of bytes, and a character may be cut by the seam between two of them: it comes with the piece that
completes it.  One that nothing completes becomes a mark, U+FFFD.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from taskflow_streams.logs import GIVEN_BACK, LogChunk


class Texts:
    """Pieces in order, as text; a cut character is kept for the next piece of its stream and attempt."""

    def __init__(self, seen: Iterable[LogChunk] = ()) -> None:
        self._decoders: dict[tuple[str, int], codecs.IncrementalDecoder] = {}
        for chunk in seen:
            self.text(chunk)

    def text(self, chunk: LogChunk) -> str:
        """Its text, with the character that the piece before began."""
        if chunk.stream == "system" and chunk.text == GIVEN_BACK:  # the next run completes nothing of this one
            cut = [self.rest(*key) for key in self._decoders if key[1] == chunk.attempt]
            return "".join(cut) + chunk.text.decode()
        key = chunk.stream, chunk.attempt
        decoder = self._decoders.get(key)
        if decoder is None:
            decoder = self._decoders[key] = codecs.getincrementaldecoder("utf-8")("replace")
        return decoder.decode(chunk.text)

    def rest(self, stream: str, attempt: int) -> str:
        """The mark for a character that nothing completed."""
        decoder = self._decoders.get((stream, attempt))
        return decoder.decode(b"", final=True) if decoder is not None else ""

    def rests(self) -> list[tuple[str, int, str]]:
        """All such marks, each with its stream and attempt."""
        return [(*key, text) for key in self._decoders if (text := self.rest(*key))]
