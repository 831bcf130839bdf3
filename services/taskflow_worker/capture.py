"""What tasks in this process print and log goes to their jobs; everything else goes where it went before.

For tasks on the event loop and in threads.  Those in processes of their own are read from their pipes.
"""

import io
import logging
import sys
from typing import Any, Literal, TextIO

from taskflow.context import running


class Router(io.TextIOBase):
    """A sys.stdout or sys.stderr that knows in which attempt it is written to."""

    def __init__(self, stream: Literal["stdout", "stderr"], elsewhere: TextIO) -> None:
        self.buffer = Bytes(stream, elsewhere)
        self._stream = stream
        self._elsewhere = elsewhere

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._elsewhere.fileno()

    def write(self, text: str) -> int:
        context = running()
        if context is None or not context.write(self._stream, text.encode(errors="replace")):
            return self._elsewhere.write(text)
        return len(text)

    def flush(self) -> None:
        self._elsewhere.flush()


class Bytes(io.RawIOBase):
    """What is below it, for those who print bytes."""

    def __init__(self, stream: Literal["stdout", "stderr"], elsewhere: TextIO) -> None:
        self._stream = stream
        self._elsewhere = elsewhere

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._elsewhere.fileno()

    def write(self, data: Any) -> int:
        context = running()
        if context is None or not context.write(self._stream, bytes(data)):
            self._elsewhere.buffer.write(data)
        return len(data)

    def flush(self) -> None:
        self._elsewhere.flush()


class JobLog(logging.Handler):
    """Log records of a task's code, as lines of its job's stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        context = running()
        if context is not None:
            context.write("stderr", f"{self.format(record)}\n".encode(errors="replace"))


def capture() -> None:
    """From now on."""
    sys.stdout = Router("stdout", sys.stdout)
    sys.stderr = Router("stderr", sys.stderr)
    handler = JobLog(logging.INFO)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
