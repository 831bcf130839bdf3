"""How things look on a terminal: tables, colours by status, ages, progress; and JSON for programs.

Text of others is shown, never obeyed: what would move the cursor or colour the screen is spelled out.  Without a
terminal nothing is coloured or cut; NO_COLOR is respected.
"""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

PIPE_WIDTH: Final = 100_000  # programs get whole lines
BAR_CELLS: Final = 10
GAP: Final = 2  # cells between two columns
LEAST: Final = 8  # cells of a column that gives way
_STYLES: Final = {
    "PENDING": "magenta",
    "READY": "blue",
    "RUNNING": "cyan",
    "COMPLETED": "green",
    "FAILED": "red",
    "BLOCKED": "red",
    "CANCELED": "yellow",
    "EXPIRED": "yellow",
    "QUEUED": "blue",
    "SUCCEEDED": "green",
    "ONLINE": "green",
    "DRAINING": "yellow",
    "DEGRADED": "yellow",
    "OFFLINE": "red",
    "ACTIVE": "green",
    "PAUSED": "yellow",
    "ENDED": "bright_black",
}
_AGES: Final = ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h"), (float("inf"), 86400, "d"))


def console(*, stderr: bool = False) -> Console:
    """The screen, or whatever stands in for it."""
    file = sys.stderr if stderr else sys.stdout
    reconfigure = getattr(file, "reconfigure", None)
    if reconfigure:
        reconfigure(errors="backslashreplace")  # a terminal of the last century still gets an answer
    return Console(
        file=file,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
        width=None if file.isatty() else PIPE_WIDTH,
    )


def show_json(value: object) -> None:
    """One JSON document; what a terminal would obey, or not show, is escaped in it as JSON has it."""
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(value, indent=2, ensure_ascii=not is_unicode)
    shown = "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)
    sys.stdout.write(f"{shown}\n")
    sys.stdout.flush()


def table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], *, flexible: int) -> Table:
    """A table without lines.  Only its flexible column is cut when the screen is narrow."""
    cells = [[cell if isinstance(cell, Text) else plain(cell) for cell in row] for row in rows]
    widths = [max(cell_len(name), *(row[index].cell_len for row in cells)) for index, name in enumerate(columns)]
    others = sum(widths) - widths[flexible] + GAP * len(columns)
    widths[flexible] = min(widths[flexible], max(console().width - others, LEAST))
    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for name, width in zip(columns, widths, strict=True):
        made.add_column(name, no_wrap=True, overflow="ellipsis", width=width)
    for row in cells:
        made.add_row(*row)
    return made


def show(what: RenderableType) -> None:
    """Put something on the screen; a table that is wider goes on in the next line, so that ids stay whole."""
    for part in what.renderables if isinstance(what, Group) else [what]:
        screen = console()
        if isinstance(part, Table) and all(column.width for column in part.columns):
            wide = screen.options.update(width=PIPE_WIDTH)
            screen.width = max(screen.width, screen.measure(part, options=wide).maximum)
        if screen.is_terminal:
            screen.print(part, crop=False)
        else:
            _print_bare(screen, part)


def _print_bare(screen: Console, what: RenderableType) -> None:
    """Without the blanks that fill up the lines of a table, and would run over the edge of a screen behind a pipe."""
    with screen.capture() as captured:
        screen.print(what, crop=False)
    screen.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def facts(pairs: Sequence[tuple[str, RenderableType | None]]) -> Table:
    """Names and values; what is None is left out."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            made.add_row(name, plain(value) if isinstance(value, str) else value)
    return made


def plain(text: object, style: str = "") -> Text:
    """Text in which nothing is a command to the terminal; lines and tabs stay."""
    return Text(harmless(str(text)), style=style)


def harmless(text: str) -> str:
    """The same with control characters spelled out."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else _spelled(char) for char in text)


def in_line(text: str) -> str:
    """The same for a place in a line of our own: ends of lines are spelled out too."""
    return text if text.isprintable() else "".join(char if char.isprintable() else _spelled(char) for char in text)


def one_line(text: object, most: int = 200) -> Text:
    """The first line, cut if it is long."""
    first, *more = str(text).strip().splitlines() or [""]
    return plain(f"{first[: most - 1]}…" if len(first) > most or more else first)


def _spelled(char: str) -> str:
    return char.encode("unicode_escape").decode()


def status(word: str) -> Text:
    """A status in its colour."""
    return plain(word, _STYLES.get(word.upper(), ""))


def age(iso: str | None, now: datetime | None = None) -> str:
    """How long ago a time was, or how far ahead it is; a dash for none."""
    if not iso:
        return "–"
    seconds = ((now or datetime.now(UTC)) - datetime.fromisoformat(iso)).total_seconds()
    return f"in {span(-seconds)}" if seconds < -1 else f"{span(max(seconds, 0))} ago"


def span(seconds: float) -> str:
    """A length of time in one unit."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    for below, unit_s, unit in _AGES:
        if seconds < below:
            return f"{int(seconds / unit_s)} {unit}"
    return f"{seconds:g} s"


def length(job: dict[str, Any]) -> str | None:
    """How long the last attempt of a job took; None unless it has run to an end."""
    start, end = job.get("started_at"), job.get("finished_at")
    if not start or not end:
        return None
    return span(max((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds(), 0))


def bar(progress: dict[str, Any] | None) -> Text:
    """How far a job is."""
    if not progress or progress.get("fraction") is None:
        return Text()
    fraction = min(max(float(progress["fraction"]), 0.0), 1.0)
    full = round(fraction * BAR_CELLS)
    shown = Text.assemble(("━" * full, "cyan"), ("─" * (BAR_CELLS - full), "bright_black"))
    shown.append(f" {fraction:.0%}")
    if note := progress.get("message"):
        shown.append(" ").append_text(one_line(note, 60))
    return shown
