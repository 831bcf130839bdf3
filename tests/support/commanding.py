"""The command line, called in this process as a shell would call it."""

from __future__ import annotations

import sys
from typing import NamedTuple

import pytest

from taskflow.cli import main


class Done(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


class Terminal:
    """Calls `taskflow` with arguments, and reads what it printed."""

    def __init__(self, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self._patch = patch
        self._capture = capture

    def __call__(self, *arguments: str) -> Done:
        self._patch.setattr(sys, "argv", ["taskflow", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = self._capture.readouterr()
        return Done(int(end.value.code or 0), out, err)
