"""`taskflow worker --reload`: a worker that is started anew whenever a Python file changes.

The worker is a process of its own, so that each starts with nothing of the last one's code.  One that cannot start, for
a file has a fault, is waited for until the next change.  It ends with us, however we end.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from taskflow.commands.errors import CommandFailed
from taskflow.commands.watch import Look, changed, look, places
from taskflow_runtime import BadSetting, Settings, read
from taskflow_runtime.parent import VARIABLE

LOOK_S: Final = 0.3
GRACE_S: Final = 2.0  # for jobs at work, unless it is set; then they go back, and run again with the new code
KILL_S: Final = 10.0  # beyond the grace: a worker gives back what it has within 5


def run_reloading(modules: Sequence[str], options: Sequence[str]) -> None:
    """Run a worker with these modules and options of the command, again and again, until we are interrupted."""
    roots = places(modules)
    with _interruptible(), _lifeline() as (descriptor, env):
        command = [sys.executable, "-P", "-m", "taskflow", "worker", *modules, *options]
        seen = look(roots)
        _say(f"watching {len(seen):,} Python files; the worker starts anew when one changes")
        while True:
            worker = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, pass_fds=[descriptor], start_new_session=True
            )
            try:
                seen, why = _until_changed(worker, seen, roots)
            except KeyboardInterrupt:
                _end(worker, float(env["TASKFLOW_STOP_GRACE_S"]))
                return
            if why:
                _say(f"{why} changed; the worker starts anew")
            try:
                _end(worker, float(env["TASKFLOW_STOP_GRACE_S"]))
            except KeyboardInterrupt:
                worker.kill()
                return


def _until_changed(worker: subprocess.Popen[bytes], seen: Look, roots: Iterable[Path]) -> tuple[Look, str]:
    """What the files are once some have changed, and which; none if the worker ended because it should."""
    told = False
    while True:
        time.sleep(LOOK_S)
        now = look(roots)
        if files := changed(seen, now):
            while (later := look(roots)) != now:  # an editor, or a checkout, is at it
                now = later
                time.sleep(LOOK_S)
            more = f" and {len(files) - 1} more" if len(files) > 1 else ""
            return now, os.path.relpath(files[0]) + more
        status = worker.poll()
        if status == 0:
            return now, ""
        if status is not None and not told:
            _say(f"the worker ended with status {status}; waiting for a change")
            told = True


def _end(worker: subprocess.Popen[bytes], grace_s: float) -> None:
    """Ask it to end, and see to it.  Interrupted, it does not wait for the rest."""
    if worker.poll() is not None:
        return
    worker.terminate()
    try:
        worker.wait(grace_s + KILL_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        worker.kill()
        worker.wait()


@contextmanager
def _lifeline() -> Iterator[tuple[int, dict[str, str]]]:
    """A pipe that the worker reads, which ends when we do, and the worker's environment."""
    try:
        settings = read(Settings)
    except BadSetting as error:
        raise CommandFailed(str(error)) from None
    grace_s = settings.stop_grace_s if "stop_grace_s" in settings.model_fields_set else GRACE_S
    ours, theirs = os.pipe()
    env = {
        **os.environ,
        VARIABLE: str(ours),
        "TASKFLOW_STOP_GRACE_S": str(grace_s),
        "PYTHONDONTWRITEBYTECODE": "1",  # compiled files are known by seconds, and a hand can be faster
    }
    try:
        yield ours, env
    finally:
        os.close(ours)
        os.close(theirs)


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM is the same as Ctrl-C."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say(sentence: str) -> None:
    print(f"taskflow worker: {sentence}.", file=sys.stderr, flush=True)  # noqa: T201 - this is what the user reads
