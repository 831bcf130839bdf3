"""Many processes on one stream: names for people, JSON for programs."""

import io
import json

from taskflow.supervisor.console import Console


def a_console(*, pretty: bool, colors: bool = False) -> tuple[Console, io.BytesIO]:
    out = io.BytesIO()
    return Console(out, ["up", "worker"], pretty=pretty, colors=colors), out


def test_people_see_who_said_what() -> None:
    """Each line begins with a name, and the names are aligned."""
    console, out = a_console(pretty=True)

    console.line("up", b"hello")
    console.line("worker", b"world")

    assert out.getvalue().decode() == "up     │ hello\nworker │ world\n"


def test_each_name_has_a_color_of_its_own_on_a_terminal() -> None:
    """The colour ends with the prefix, so it cannot leak into the line."""
    console, out = a_console(pretty=True, colors=True)

    console.line("up", b"hello")
    console.line("worker", b"world")

    first, second = out.getvalue().decode().splitlines()
    assert first == "\x1b[36mup     │ \x1b[0mhello"
    assert second == "\x1b[33mworker │ \x1b[0mworld"


def test_programs_get_the_services_lines_untouched() -> None:
    """JSON goes through byte by byte."""
    console, out = a_console(pretty=False)
    line = b'{"event":"job.started",  "n": 1e3}'

    console.line("worker", line)
    console.plain("not for programs")

    assert out.getvalue() == line + b"\n"


def test_programs_get_json_even_from_those_who_do_not_write_it() -> None:
    """A traceback or a stray print becomes an event that names its process; empty lines vanish."""
    console, out = a_console(pretty=False)

    console.line("worker", b"Traceback \xff")
    console.line("worker", b"")

    (line,) = out.getvalue().splitlines()
    said = json.loads(line)
    assert (said["component"], said["event"], said["line"]) == ("worker", "output", "Traceback \\xff")


def test_a_stream_brings_its_lines_under_a_name() -> None:
    """What our own logger writes looks like the rest."""
    console, out = a_console(pretty=True)

    console.stream("up").write(b"one\ntwo\n")

    assert out.getvalue().decode() == "up     │ one\nup     │ two\n"


def test_a_reader_who_went_away_is_no_error() -> None:
    """`taskflow up | head` goes on without output."""

    class Broken(io.BytesIO):
        def write(self, _data: object) -> int:
            raise BrokenPipeError

    console = Console(Broken(), ["up"], pretty=True, colors=False)

    console.line("up", b"nobody reads this")
    console.line("up", b"nor this")
