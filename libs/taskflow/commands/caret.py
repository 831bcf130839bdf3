"""Where a cron expression is wrong, shown below the sentence that says what is wrong."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from taskflow.commands.http import Refused

INDENT: Final = "  "
AROUND: Final = 35  # characters on either side that are shown: a narrow screen has 80
_PLACE: Final = re.compile(r"\(at character (\d+)\)")


@contextmanager
def pointed_out(expression: str | None) -> Iterator[None]:
    """A refusal that names a character of the expression also shows it."""
    try:
        yield
    except Refused as refusal:
        place = _PLACE.search(str(refusal))
        if not expression or not place:
            raise
        raise Refused(f"{refusal}\n{_pointed(expression, int(place[1]))}", refusal.status) from None


def _pointed(expression: str, position: int) -> str:
    from rich.cells import cell_len

    from taskflow.commands.render import in_line

    line = re.sub(r"\s", " ", expression)  # one line, and each character where it was
    place = max(min(position, len(line)) - 1, 0)
    first = max(place - AROUND, 0)
    before = ("…" if first else "") + in_line(line[first:place])
    after = in_line(line[place : place + AROUND]) + ("…" if place + AROUND < len(line) else "")
    return f"{INDENT}{before}{after}\n{INDENT}{' ' * cell_len(before)}^"
