"""The command line: called in this process, on a terminal, or as a shell would call it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

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


def on_a_terminal(api_url: str, *arguments: str, typed: str = "", **variables: str) -> str:
    """What a command shows on a terminal, and what somebody typed there; it must succeed."""
    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "TERM")}
    subprocess.run(
        [sys.executable, "-m", "taskflow", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**env, "TASKFLOW_API_URL": api_url, "TERM": "xterm-256color", "COLUMNS": "160", **variables},
        timeout=60,
        check=True,
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            seen += (more := os.read(ours, 65536))
        except OSError:  # how Linux tells that the other side is closed
            break
        if not more:
            break
    os.close(ours)
    return seen.decode()


class Shell:
    """Runs `taskflow` where a stack was started, without being told where its api is."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        env = {name: value for name, value in os.environ.items() if not name.startswith("TASKFLOW_")}
        self._env = {**env, "COLUMNS": "160"}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command that goes on."""
        return subprocess.Popen(
            [sys.executable, "-m", "taskflow", *arguments],
            cwd=self._directory,
            env=self._env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __call__(self, *arguments: str, status: int = 0) -> str:
        """What a command printed."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        assert process.returncode == status, f"{arguments}: {process.returncode}\n{out}\n{err}"
        return out if status in (0, 3) else out + err

    def json(self, *arguments: str) -> Any:
        """The document that a command printed."""
        return json.loads(self(*arguments, "--json"))
