"""While attempts run, what they print and log is in their jobs' output, and also where it goes without them.

Only then: between two jobs the streams are those of the test, which pytest changes from one phase to the next.
"""

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal, TextIO

from taskflow.context import running

STREAMS: Final[tuple[Literal["stdout", "stderr"], ...]] = ("stdout", "stderr")
LEVEL: Final = logging.INFO  # and format: as in a worker
FORMAT: Final = "%(levelname)s %(name)s: %(message)s"


class Tee:
    """A standard stream whose words are also in the output of the job that says them."""

    def __init__(self, name: Literal["stdout", "stderr"], stream: TextIO) -> None:
        self._name: Literal["stdout", "stderr"] = name
        self.stream = stream

    def write(self, text: str) -> int:
        """Write to both."""
        context = running()
        if context is not None:
            context.write(self._name, text.encode(errors="replace"))
        return self.stream.write(text)

    def writelines(self, lines: list[str]) -> None:
        """Write to both."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


class JobLog(logging.Handler):
    """Log records of a task's code, as lines of its job's stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Add one to the output of the job that runs here, if one does."""
        context = running()
        if context is not None:
            context.write("stderr", f"{self.format(record)}\n".encode(errors="replace"))


_lock = threading.Lock()
_attempts = 0  # that are heard now, in any thread
_level_before = logging.NOTSET
_log = JobLog(LEVEL)
_log.setFormatter(logging.Formatter(FORMAT))


@contextmanager
def heard() -> Iterator[None]:
    """For the length of an attempt."""
    global _attempts
    with _lock:
        _begin()
        _attempts += 1
    try:
        yield
    finally:
        with _lock:
            _attempts -= 1
            if not _attempts:
                _end()


def _begin() -> None:
    global _level_before
    for name in STREAMS:
        stream = getattr(sys, name)
        if not isinstance(stream, Tee):
            setattr(sys, name, Tee(name, stream))
    if not _attempts:
        root = logging.getLogger()
        root.addHandler(_log)
        _level_before = root.level
        root.setLevel(min(root.level, LEVEL))


def _end() -> None:
    for name in STREAMS:
        stream = getattr(sys, name)
        if isinstance(stream, Tee):  # else somebody else's by now
            setattr(sys, name, stream.stream)
    root = logging.getLogger()
    root.removeHandler(_log)
    if root.level == min(_level_before, LEVEL):  # else somebody else's by now
        root.setLevel(_level_before)
