"""Log lines as people read them."""

import json

from taskflow.supervisor.pretty import render


def shown(colors: bool = False, **fields: object) -> list[str]:
    """The lines for an event."""
    return [line.decode() for line in render(json.dumps(fields).encode(), colors=colors)]


def test_time_level_and_event_come_first_and_then_the_fields() -> None:
    """The component is left to the prefix; values with spaces keep their quotes."""
    (line,) = shown(
        ts="2026-01-02T03:04:05.678Z", level="info", component="api", event="job.started", n=1, why="so it is", url="x"
    )

    time_of_day, rest = line.split(" ", 1)
    assert len(time_of_day) == len("03:04:05")
    assert rest == 'info     job.started          n=1 why="so it is" url=x'


def test_a_traceback_stands_below_its_event() -> None:
    """Line by line, so that each can have the prefix."""
    lines = shown(event="service.crashed", level="error", exception={"type": "E", "message": "m", "stack": "a\n  b"})

    assert lines[1:] == ["a", "  b"]


def test_trouble_has_a_color() -> None:
    """Only where colours are wanted."""
    assert "\x1b[31merror" in shown(colors=True, event="x", level="error")[0]
    assert "\x1b" not in shown(colors=False, event="x", level="error")[0]


def test_anything_else_is_shown_as_it_is() -> None:
    """Text, broken JSON, JSON that is no event, and bytes that are no text."""
    for line in (b"Traceback", b'{"event": ', b'{"a": 1}', b"[1]", b"\xff", b""):
        assert render(line, colors=True) == [line]


def test_nobody_steers_the_terminal_through_a_log_line() -> None:
    """Escape sequences come out as text, wherever they stand."""
    evil = "\x1b[2J\x9b31m\x07"

    lines = shown(event=evil, level=evil, ts=evil, field=evil, spaced=f"a {evil}", many=[evil], exception=evil)

    assert all(line.isprintable() for line in lines)
    assert "\\x1b[2J" in lines[0]
