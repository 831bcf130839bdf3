"""The bar that tells how far a job is: in a terminal only, and never among what the job prints."""

import io
import sys

import pytest

from taskflow.commands.follow import Output


class Screen(io.StringIO):
    """A terminal, or not."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def output(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> tuple[Output, Screen, io.BytesIO]:
    """Where a job's output goes, with stderr as the screen."""
    screen, out = Screen(is_terminal), io.BytesIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "30")
    return Output(out, io.BytesIO()), screen, out


def test_a_bar_makes_way_for_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is erased before each piece, drawn again after a whole line, and gone at the end."""
    shown, screen, out = output(monkeypatch, is_terminal=True)

    shown.progress({"fraction": 0.5, "message": "halfway there, and a note that is too long"})
    drawn = screen.getvalue()
    shown.show({"stream": "stdout", "text": "a line\n"})
    shown.show({"stream": "stdout", "text": "no end"})
    shown.progress({"fraction": 0.75})
    among = screen.getvalue()
    shown.show({"stream": "stdout", "text": "\n"})
    shown.progress(None)

    assert "50%" in drawn
    assert "\n" not in drawn
    assert (among.count("50%"), among.count("75%"), among.count("\r\x1b[2K")) == (2, 0, 2)
    assert screen.getvalue().count("75%") == 1
    assert screen.getvalue().endswith("\r\x1b[2K")
    assert out.getvalue() == b"a line\nno end\n"


def test_there_is_no_bar_outside_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file gets the output alone."""
    shown, screen, out = output(monkeypatch, is_terminal=False)

    shown.progress({"fraction": 0.5, "message": None})
    shown.show({"stream": "stdout", "text": "a line\n"})

    assert (screen.getvalue(), out.getvalue()) == ("", b"a line\n")
