"""The output of many processes on one stream, line by line.

The processes write JSON.  For people it is made readable, and each line begins with the name of its process, in
a colour of its own.  For programs it stays as it is, and whatever else is printed gets wrapped, so that each
line is one object.  When nobody reads any more (`taskflow up | head`), output is dropped and the work goes on.
"""

import io
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import BinaryIO

from taskflow.supervisor.pretty import render

_COLORS = (36, 33, 35, 32, 34, 96, 93, 95, 92, 94)
_RESET = b"\x1b[0m"


class Console:
    """Where all lines go."""

    def __init__(self, out: BinaryIO, names: Iterable[str], *, pretty: bool, colors: bool) -> None:
        known = list(names)
        width = max(map(len, known))
        self._out = out
        self._pretty = pretty
        self._colors = colors
        self._prefixes = {name: self._prefix(index, f"{name:<{width}} │ ") for index, name in enumerate(known)}

    def line(self, name: str, line: bytes) -> None:
        """Show one line of a process, given without its end."""
        if self._pretty:
            prefix = self._prefixes[name]
            self._write(b"".join(prefix + part + b"\n" for part in render(line, colors=self._colors)))
        elif line.startswith(b"{"):
            self._write(line + b"\n")
        elif line.strip():
            self._write(_wrapped(name, line))

    def plain(self, text: str) -> None:
        """Show text to people, as it is."""
        if self._pretty:
            self._write(text.encode() + b"\n")

    def stream(self, name: str) -> BinaryIO:
        """A stream whose lines come out under a name."""
        return _Stream(self, name)  # type: ignore[return-value]  # as much of a BinaryIO as logs need

    def _prefix(self, index: int, text: str) -> bytes:
        if not self._colors:
            return text.encode()
        return b"\x1b[%dm" % _COLORS[index % len(_COLORS)] + text.encode() + _RESET

    def _write(self, data: bytes) -> None:
        try:
            self._out.write(data)
            self._out.flush()
        except (OSError, ValueError):
            self._out = io.BytesIO()
            self._out.close()  # from now on every write ends here


class _Stream(io.RawIOBase):
    def __init__(self, console: Console, name: str) -> None:
        self._console = console
        self._name = name

    def write(self, data: bytes) -> int:  # type: ignore[override]
        for line in data.splitlines():
            self._console.line(self._name, line)
        return len(data)


def _wrapped(name: str, line: bytes) -> bytes:
    ts = datetime.now(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
    text = line.decode(errors="backslashreplace")
    return json.dumps({"ts": ts, "level": "info", "component": name, "event": "output", "line": text}).encode() + b"\n"
