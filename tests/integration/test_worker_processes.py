"""Processes for jobs: they are apart, they end with all they started, and nobody outlives who started them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from taskflow.executor import Failed, Kit, Limits, Stream, Succeeded, Work
from taskflow_worker.processes import Nursery
from taskflow_worker.runners.pool import TaskPool
from taskflow_worker.runners.python import Python
from taskflow_worker.runners.shell import Shell
from tests.support.working import until


class Heard:
    """A report that remembers."""

    def __init__(self, grace_s: float = 0.5) -> None:
        self.grace_s = grace_s
        self.out, self.err, self.told = b"", b"", []  # type: ignore[var-annotated]

    def write(self, stream: Stream, data: bytes) -> None:
        if stream == "stdout":
            self.out += data
        else:
            self.err += data

    def progress(self, fraction: float, note: str = "") -> None:
        self.told.append((fraction, note))

    def redact(self, secret: str) -> None:
        """Not looked at here."""


def work(payload: dict[str, Any], fence: int = 1) -> Work:
    """An attempt."""
    return Work("01234567-89ab-7000-8000-0123456789ab", 1, fence, "q", "n", "t", "w", json.dumps(payload).encode())


@pytest.fixture
async def nursery() -> AsyncIterator[Nursery]:
    """One that has started."""
    one = Nursery()
    await one.start()
    yield one
    await one.close()


def kit(nursery: Nursery, **options: Any) -> Kit:
    """What executors get."""
    return Kit(env_allowlist=("PATH",), services={"nursery": nursery}, **options)


def gone(pid: int) -> bool:
    """Whether no such process runs."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def written(path: Path) -> str:
    """A whole line that a command has written there."""
    text = path.read_text() if path.exists() else ""
    return text if text.endswith("\n") else ""


async def read_pid(path: Path) -> int:
    """The pid that a command has written there."""

    async def there() -> bool:
        return bool(written(path))

    await until(there, f"pid in {path}")
    return int(written(path))


async def test_a_process_that_left_its_group_dies_with_its_job(nursery: Nursery, tmp_path: Path) -> None:
    """A daemon of a session of its own, too."""
    pids = tmp_path / "pid"

    outcome = await Shell(kit(nursery)).run(
        work({"cmd": f"setsid sh -c 'echo $$ > {pids}; sleep 300' & sleep 0.3"}), Heard()
    )

    assert isinstance(outcome, Succeeded)
    pid = await read_pid(pids)

    async def dead() -> bool:
        return gone(pid)

    await until(dead, "end of the daemon")


async def test_a_nursery_that_was_killed_fails_its_jobs_and_is_replaced(nursery: Nursery, tmp_path: Path) -> None:
    """The jobs' processes go with it; the next job runs."""
    shell, pids = Shell(kit(nursery)), tmp_path / "pid"
    running = asyncio.create_task(shell.run(work({"cmd": f"echo $$ > {pids}; sleep 300"}), Heard()))
    pid = await read_pid(pids)

    psutil.Process(pid).parent().kill()  # type: ignore[union-attr]

    outcome = await asyncio.wait_for(running, 10)
    assert isinstance(outcome, Failed)
    assert "died" in outcome.failure.message

    async def dead() -> bool:
        return gone(pid)

    await until(dead, "end of the job's process")
    assert await shell.run(work({"cmd": "true"}), Heard()) == Succeeded(b'{"exit_code":0,"output":null}')


@pytest.mark.parametrize(
    ("limits", "cmd", "word"),
    [
        (Limits(cpu_s=1), "while :; do :; done", "CPU"),
        (Limits(open_files=16), "ulimit -n; exit 3", "3"),
    ],
)
async def test_limits_hold(nursery: Nursery, limits: Limits, cmd: str, word: str) -> None:
    """CPU seconds end a process; what else is limited it can see."""
    report = Heard()

    outcome = await Shell(kit(nursery, limits=limits)).run(work({"cmd": cmd}), report)

    assert isinstance(outcome, Failed)
    assert word in outcome.failure.message
    assert report.out in (b"", b"16\n")


@pytest.mark.parametrize(
    ("cmd", "word"),
    [('echo "{" > "$TASKFLOW_OUTPUT"', "not JSON"), ('head -c 2000000 /dev/zero > "$TASKFLOW_OUTPUT"', "more than")],
)
async def test_an_output_that_is_none_is_told(nursery: Nursery, cmd: str, word: str) -> None:
    """In a sentence, as a failed attempt."""
    outcome = await Shell(kit(nursery)).run(work({"cmd": cmd}), Heard())

    assert isinstance(outcome, Failed)
    assert word in outcome.failure.message


async def test_a_denied_command_is_refused_again(nursery: Nursery) -> None:
    """Whatever door it came through; no retry helps."""
    outcome = await Shell(kit(nursery, denylist=("rm",))).run(work({"cmd": "true && rm -rf x"}), Heard())

    assert isinstance(outcome, Failed)
    assert outcome.fatal
    assert "rm" in outcome.failure.message


async def test_python_jobs_share_nothing(nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one leaves behind in a module, the next does not see."""
    (tmp_path / "stateful.py").write_text("seen = []\ndef add():\n    seen.append(1)\n    return len(seen)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    python = Python(kit(nursery))

    results = [await python.run(work({"callable": "stateful:add"}), Heard()) for _ in range(2)]

    assert results == [Succeeded(b"1"), Succeeded(b"1")]


async def test_an_exception_has_a_clean_traceback(
    nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the user's frames alone; what cannot be imported is told too."""
    (tmp_path / "faulty.py").write_text("def fail():\n    raise KeyError('x')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    python = Python(kit(nursery))

    raised = await python.run(work({"callable": "faulty:fail"}), Heard())
    missing = await python.run(work({"callable": "no_such_module:f"}), Heard())
    left = await python.run(work({"callable": "os:_exit", "args": [3]}), Heard())

    assert isinstance(raised, Failed)
    assert raised.failure.kind == "KeyError"
    assert "taskflow_worker" not in (raised.failure.traceback or "taskflow_worker")
    assert isinstance(missing, Failed)
    assert "no_such_module" in missing.failure.message
    assert isinstance(left, Failed)
    assert "exited with 3" in left.failure.message


async def test_a_pool_keeps_its_processes_and_replaces_the_dead(
    nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process serves many tasks; one that dies takes only its own along."""
    (tmp_path / "pooled.py").write_text(
        "import os\nfrom taskflow import task\n"
        "@task(name='pid')\ndef pid():\n    print('here')\n    return os.getpid()\n"
        "@task(name='die')\ndef die():\n    os._exit(5)\n"
        "@task(name='hang')\ndef hang():\n    import time\n    time.sleep(300)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    pool = TaskPool(nursery, ["pooled"])
    report = Heard()

    first = await pool.run("pid", work({}), report)
    second = await pool.run("pid", work({}), Heard())
    died = await pool.run("die", work({}), Heard())
    third = await pool.run("pid", work({}), Heard())
    hanging = asyncio.create_task(pool.run("hang", work({}), Heard()))
    await asyncio.sleep(0.1)
    hanging.cancel()
    await asyncio.wait([hanging], timeout=10)
    fourth = await pool.run("pid", work({}), Heard())

    assert isinstance(first, Succeeded)
    assert report.out == b"here\n"
    assert first == second != third
    assert isinstance(died, Failed)
    assert "exited with 5" in died.failure.message
    assert hanging.cancelled()
    assert isinstance(fourth, Succeeded)
    assert fourth != third
    await pool.close()


async def test_nothing_outlives_a_worker_that_was_killed(tmp_path: Path) -> None:
    """kill -9 of whoever started the nursery ends the nursery and every process of a job."""
    script, pids = tmp_path / "holder.py", tmp_path / "pid"
    script.write_text(
        "import asyncio, json\n"
        "from tests.integration.test_worker_processes import Heard, Nursery, Shell, kit, work\n"
        "async def main():\n"
        "    nursery = Nursery()\n"
        "    await nursery.start()\n"
        f"    await Shell(kit(nursery)).run(work({{'cmd': 'sleep 300 & echo $! > {pids}; wait'}}), Heard())\n"
        "asyncio.run(main())\n"
    )
    root = str(Path(__file__).parents[2])
    holder = subprocess.Popen([sys.executable, str(script)], env={**os.environ, "PYTHONPATH": root})  # noqa: ASYNC220
    pid = await read_pid(pids)
    family = [psutil.Process(pid), *psutil.Process(holder.pid).children(recursive=True)]

    holder.send_signal(signal.SIGKILL)
    holder.wait()

    async def all_dead() -> bool:
        return all(gone(each.pid) for each in family)

    await until(all_dead, "end of all")
