"""How far a job is, in the last line of a terminal, and out of the way of all that is printed."""

import sys
from typing import Any, Final

ERASE: Final = "\r\x1b[2K"


class Bar:
    """A line on stderr.  Where that is no terminal there is none."""

    def __init__(self) -> None:
        self._is_on = sys.stderr.isatty()
        self._progress: dict[str, Any] | None = None
        self._is_drawn = False

    def set(self, progress: dict[str, Any] | None) -> None:
        """How far it is now; None: nothing is known.  To be drawn."""
        self.hide()
        self._progress = progress

    def draw(self) -> None:
        """Show it.  The cursor must stand at the beginning of a line."""
        if not self._is_on or self._progress is None:
            return
        from rich.console import Console

        from taskflow.commands import render

        screen = Console(stderr=True, highlight=False)
        line = render.bar(self._progress)
        line.truncate(max(screen.width - 1, 1), overflow="ellipsis")
        screen.print(line, end="")
        self._is_drawn = True

    def hide(self) -> None:
        """Give the line free."""
        if self._is_drawn:
            sys.stderr.write(ERASE)
            sys.stderr.flush()
            self._is_drawn = False
