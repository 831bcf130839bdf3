"""What a handler can know about the attempt it runs in: `current()`."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

NOTE_CHARS = 200  # as the server keeps it

Progress = Callable[[float, str], None]
Write = Callable[[Literal["stdout", "stderr"], bytes], None]


@dataclass(slots=True)
class Context:
    """One attempt of one job.

    `fence` grows with every attempt of a job: whoever stores it beside what the handler writes elsewhere can refuse
    the late writes of an attempt that was taken for lost.
    """

    job_id: str
    attempt: int  # 1 is the first
    fence: int
    queue: str
    name: str
    worker: str
    deadline: datetime | None  # when it is stopped for taking too long
    canceled: bool = False  # it shall stop; a thread cannot be stopped from outside, so long loops look here
    _progress: Progress | None = field(default=None, repr=False)
    _write: Write | None = field(default=None, repr=False)

    def progress(self, fraction: float, note: str = "") -> None:
        """Say how far the attempt is, from 0 to 1.  Costs nothing: the latest word is sent about once a second."""
        told = progress_of(fraction, note)
        if self._progress is not None:
            self._progress(*told)

    def write(self, stream: Literal["stdout", "stderr"], data: bytes) -> bool:
        """Add to the job's output; False where that goes another way."""
        if self._write is None:
            return False
        self._write(stream, data)
        return True


def progress_of(fraction: float, note: str) -> tuple[float, str]:
    """The same, as it can be sent and stored.  Raises ValueError or TypeError for what is no progress."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"progress is a fraction from 0 to 1, not {fraction!r}")
    if not isinstance(note, str):
        raise TypeError(f"the note beside a progress is a text, not {type(note).__name__}")
    return float(fraction), storable(note[:NOTE_CHARS])


def storable(text: str) -> str:
    """The text, without halves of surrogate pairs, which UTF-8 cannot hold."""
    return text.encode(errors="replace").decode()


_current: ContextVar[Context] = ContextVar("taskflow_current")


def running() -> Context | None:
    """The attempt that this code runs in, if it does."""
    return _current.get(None)


def current() -> Context:
    """The attempt that this code runs in.  Raises RuntimeError outside of one."""
    try:
        return _current.get()
    except LookupError:
        raise RuntimeError("current() is for code that runs inside a job") from None


def enter(context: Context) -> None:
    """Make it the current attempt of this asyncio task, or of this thread until it enters the next."""
    _current.set(context)
