"""The output of a job as entries."""

from taskflow.job import LogEntry
from taskflow_domain import datetime_of_ms
from taskflow_streams import LogChunk, Texts


class Output:
    """Pieces in order, as entries."""

    def __init__(self) -> None:
        self._texts = Texts()
        self._last: LogChunk | None = None

    def entry(self, chunk: LogChunk) -> LogEntry:
        """A piece as text."""
        self._last = chunk
        return _entry(chunk, chunk.stream, chunk.attempt, self._texts.text(chunk))

    def rests(self) -> list[LogEntry]:
        """The marks for all characters that nothing completed, in the place of the last piece."""
        last = self._last
        return [] if last is None else [_entry(last, *rest) for rest in self._texts.rests()]


def _entry(place: LogChunk, stream: str, attempt: int, text: str) -> LogEntry:
    return LogEntry(place.id, stream, attempt, datetime_of_ms(place.at_ms), text)
