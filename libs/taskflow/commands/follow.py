"""A job's output as it comes, and how the job ended.

A connection that breaks is made again, and goes on after the last piece that was shown.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, Final, NamedTuple

from taskflow.commands.bar import Bar
from taskflow.commands.errors import CommandFailed
from taskflow.commands.http import PAUSES_S, Api, Unavailable, Unreachable, job_path

PATIENCE_S: Final = 60.0  # without a word from the api

Say = Callable[[str], None]


class Message(NamedTuple):
    """One message of a stream of events."""

    id: str
    event: str
    data: str


class Output:
    """Where pieces of output go: each to the stream it came from, byte by byte as it was sent."""

    def __init__(self, stdout: BinaryIO, stderr: BinaryIO) -> None:
        self._streams = {"stdout": stdout, "stderr": stderr}
        self.attempt = 0
        self.bar = Bar()
        self.ends_open = False  # in the midst of a line

    def show(self, piece: dict[str, Any]) -> None:
        """Write one piece."""
        text = piece["text"]
        self.bar.hide()
        stream = self._streams.get(piece.get("stream", ""), self._streams["stderr"])
        stream.write(text.encode("utf-8", "surrogateescape"))
        stream.flush()
        if text:
            self.ends_open = not text.endswith("\n")
        if not self.ends_open:
            self.bar.draw()

    def progress(self, word: dict[str, Any] | None) -> None:
        """Show how far the job is; in the midst of a line, once that has ended."""
        self.bar.set(word)
        if not self.ends_open:
            self.bar.draw()


def follow(api: Api, job_id: str, output: Output, say: Say, *, door: str, patience_s: float = PATIENCE_S) -> Any:
    """Show all output of a job until it has ended; what the api says of its end: `status`, `result`, `error`."""
    path = f"{job_path(job_id, door)}/logs/stream"
    ear = _Ear()
    last_id, failures = "", 0
    while True:
        problem = "The output stopped coming."
        try:
            with api.stream(path, {"Last-Event-ID": last_id} if last_id else {}) as chunks:
                for message in messages(ear.listen(chunks)):
                    failures = 0
                    if message.event == "end":
                        output.progress(None)
                        return _read(message)
                    if message.event == "progress":
                        output.progress(_read(message))
                    if message.event == "log":
                        piece = _read(message)
                        if output.attempt < (attempt := piece.get("attempt") or 0):
                            if output.attempt:
                                say(f"Attempt {attempt}")
                                output.progress(None)
                            output.attempt = attempt
                        output.show(piece)
                        last_id = message.id or last_id
        except (Unreachable, Unavailable) as error:
            problem = str(error)
            if not failures:
                say(f"{problem}  The job goes on; trying to connect again.")
        if ear.silence_s() > patience_s:
            raise CommandFailed(f"{problem}  The job goes on; see how it ended with `taskflow jobs show {job_id}`.")
        time.sleep(PAUSES_S[min(failures, len(PAUSES_S) - 1)])
        failures += 1


class _Ear:
    """Knows when the api was last heard of."""

    def __init__(self) -> None:
        self._at = time.monotonic()

    def listen(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._at = time.monotonic()
            yield chunk

    def silence_s(self) -> float:
        return time.monotonic() - self._at


def _read(message: Message) -> dict[str, Any]:
    try:
        value = json.loads(message.data)
    except ValueError:
        value = None
    if not isinstance(value, dict) or (message.event == "log" and not isinstance(value.get("text"), str)):
        raise CommandFailed("The api sent output in a form that this version does not know; update the older of both.")
    return value


def messages(chunks: Iterable[bytes]) -> Iterator[Message]:
    """The messages of a stream of events.  A line ends with \\n or \\r\\n, and nowhere else: JSON may hold U+2028."""
    message_id, event, data = "", "message", list[str]()
    for line in _lines(chunks):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield Message(message_id, event, "\n".join(data))
            message_id, event, data = "", "message", []
        elif field == "id":
            message_id = value
        elif field == "event":
            event = value
        elif field == "data":
            data.append(value)


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
