"""Every example of docs/sdk.md runs, in the order it stands there, and prints what it says."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from taskflow.supervisor.claim import find_running
from tests.support.stack import DEADLINE_S, eventually

GUIDE = Path(__file__).parents[2] / "docs" / "sdk.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE.read_text("utf-8"), re.M | re.S)
EXPECTED = re.compile(r"^\s*print\(.*\)  # (.*)$", re.M)
FREE = ["--port", "0", "--workers", "0"]  # beside what else runs on this machine; the worker must be the example's


def environment() -> dict[str, str]:
    """That of a user who has set nothing, with our commands on the path."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TASKFLOW_")}
    return {**inherited, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{inherited['PATH']}"}


@contextmanager
def command(line: str, folder: Path, *more: str) -> Iterator[None]:
    """A command that runs until Ctrl-C."""
    argv = [*shlex.split(line), *more]
    with (folder / f"{argv[1]}.log").open("wb") as log:
        process = subprocess.Popen(
            argv, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(DEADLINE_S)


def run(folder: Path, *argv: str) -> str:
    """What a program prints, once it has ended well."""
    done = subprocess.run(
        [sys.executable, *argv], cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{argv}:\n{done.stdout}{done.stderr}"
    return done.stdout


def test_every_example_does_what_it_says(tmp_path: Path) -> None:
    """Files are written, commands started, programs run, tests passed."""
    ran = 0
    with ExitStack() as stack:
        for kind, code in BLOCKS:
            if kind == "sh":
                up, worker = code.splitlines()
                stack.enter_context(command(up, tmp_path, *FREE))
                eventually(lambda: (found := find_running(tmp_path / ".taskflow")) and found.ready, "ready stack")
                stack.enter_context(command(worker, tmp_path))
                continue
            assert kind == "python", f"no way to run {kind}"
            if name := re.match(r"# (\w+\.py)\n", code):
                (tmp_path / name[1]).write_text(code)
                continue
            (tmp_path / "example.py").write_text(code)
            assert run(tmp_path, "example.py").splitlines() == EXPECTED.findall(code)
            ran += 1
        assert "3 passed" in run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", ".")
    assert ran == 5
