"""Processes for jobs: they are apart, they end with all they started, and nobody outlives who started them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from taskflow import Registry
from taskflow.executor import Failed, Limits, Succeeded
from taskflow_streams import Store
from taskflow_streams.embedded import EmbeddedServer
from taskflow_worker.processes import Nursery
from taskflow_worker.runners.pool import TaskPool
from taskflow_worker.runners.python import Python
from taskflow_worker.runners.shell import Shell
from tests.support.processes import Heard, end_of, gone, kit, read_pid, titled, work, written
from tests.support.working import a_job_for, ended, hired


async def test_a_process_that_left_its_group_dies_with_its_job(nursery: Nursery, tmp_path: Path) -> None:
    """A daemon of a session of its own, too."""
    pids = tmp_path / "pid"

    outcome = await Shell(kit(nursery)).run(
        work({"cmd": f"setsid sh -c 'echo $$ > {pids}; sleep 300' & sleep 0.3"}), Heard()
    )

    assert isinstance(outcome, Succeeded)
    await end_of(await read_pid(pids))


@pytest.mark.parametrize("daemon", ["setsid", "env -i setsid"])
async def test_a_daemon_lives_as_long_as_its_job(nursery: Nursery, tmp_path: Path, daemon: str) -> None:
    """Not as long as its neighbours, and also if it does not know any more whose it is."""
    pids, go, executor = tmp_path / "pids", tmp_path / "go", Shell(kit(nursery))
    cmd = f"({daemon} sh -c 'echo $$ > {pids}; sleep 300' &); until [ -e {go} ]; do sleep 0.05; done"
    running = asyncio.create_task(executor.run(work({"cmd": cmd}), Heard()))
    pid = await read_pid(pids)
    for _ in range(3):
        await executor.run(work({"cmd": "true"}), Heard())
    assert not gone(pid)

    go.touch()
    await asyncio.wait_for(running, 20)
    await end_of(pid)


async def test_a_directory_that_cannot_be_entered_is_told(nursery: Nursery, tmp_path: Path) -> None:
    """In a sentence that names it; one that can be entered is."""
    heard = Heard()
    there = await Shell(kit(nursery)).run(work({"cmd": "pwd", "cwd": str(tmp_path)}), heard)
    nowhere = await Shell(kit(nursery)).run(work({"cmd": "pwd", "cwd": f"{tmp_path}/none"}), Heard())

    assert isinstance(there, Succeeded)
    assert heard.out.decode() == f"{tmp_path}\n"
    assert isinstance(nowhere, Failed)
    assert nowhere.failure.kind == "NotStarted"
    assert f"cwd: {tmp_path}/none cannot be entered" in nowhere.failure.message


async def test_a_nursery_that_was_killed_fails_its_jobs_and_is_replaced(nursery: Nursery, tmp_path: Path) -> None:
    """The jobs' processes go with it; the next job runs."""
    shell, pids = Shell(kit(nursery)), tmp_path / "pid"
    running = asyncio.create_task(shell.run(work({"cmd": f"echo $$ > {pids}; sleep 300"}), Heard()))
    pid = await read_pid(pids)

    psutil.Process(pid).parent().kill()  # type: ignore[union-attr]

    outcome = await asyncio.wait_for(running, 10)
    assert isinstance(outcome, Failed)
    assert "died" in outcome.failure.message
    await end_of(pid)
    assert await shell.run(work({"cmd": "true"}), Heard()) == Succeeded(b'{"exit_code":0,"output":null}')


@pytest.mark.parametrize("victim", ["taskflow nursery", "taskflow guardian"])
async def test_what_left_its_group_dies_with_nursery_or_guardian(nursery: Nursery, tmp_path: Path, victim: str) -> None:
    """Whichever of the two is killed: the grandchild of a session of its own ends, before its job is told to have."""
    pids = tmp_path / "pid"
    cmd = f"setsid sh -c 'echo $$ > {pids}; sleep 300' & wait"
    running = asyncio.create_task(Shell(kit(nursery)).run(work({"cmd": cmd}), Heard()))
    pid = await read_pid(pids)

    folder = nursery._folder
    next(each for each in psutil.Process(pid).parents() if " ".join(each.cmdline()).strip() == victim).kill()

    assert isinstance(await asyncio.wait_for(running, 20), Failed)
    if victim == "taskflow nursery":
        assert gone(pid)
    await end_of(pid)
    assert not os.path.exists(folder)  # noqa: ASYNC240 - a look


async def test_a_cancel_while_the_nursery_dies_holds_up_nobody(nursery: Nursery, tmp_path: Path) -> None:
    """There is nobody to pass the signal on to; the next job is started by the next nursery."""
    shell, pids = Shell(kit(nursery)), tmp_path / "pid"
    running = asyncio.create_task(shell.run(work({"cmd": f"echo $$ > {pids}; sleep 300"}), Heard()))
    psutil.Process(await read_pid(pids)).parent().kill()  # type: ignore[union-attr]
    while nursery._line is not None:  # noqa: ASYNC110 - the very moment after
        await asyncio.sleep(0)

    running.cancel()
    await asyncio.wait([running], timeout=20)

    assert running.cancelled()
    next_one = shell.run(work({"cmd": "true"}), Heard())
    assert await asyncio.wait_for(next_one, 20) == Succeeded(b'{"exit_code":0,"output":null}')


async def test_no_signal_is_lost_on_a_nursery_that_is_slow(nursery: Nursery) -> None:
    """More orders than it takes at once, and then their cancels: none runs on."""
    shell = Shell(kit(nursery))
    await shell.run(work({"cmd": "true"}), Heard())
    assert nursery._process is not None
    [process] = titled(nursery._process.pid, "taskflow nursery")
    process.suspend()
    try:
        attempts = [
            asyncio.create_task(shell.run(work({"cmd": "sleep 300", "env": {"X": "x" * 4000}}), Heard(0)))
            for _ in range(150)
        ]
        await asyncio.sleep(0)
        for attempt in attempts:
            attempt.cancel()
    finally:
        process.resume()

    _, waiting = await asyncio.wait(attempts, timeout=30)

    assert not waiting
    assert not [each for each in process.children() if "sleep" in each.name()]


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


@pytest.mark.parametrize(
    ("cmd", "kind", "output"),
    [
        ("""printf '"%01048574d"' 0""", None, "0" * 1_048_574),  # 1 MiB, as much as there may be
        ("""printf '"%01048574d"' 0; code=3""", "ExitCode", "0" * 1_048_574),
        ("""printf '[1e15'; for i in $(seq 80000); do printf ',1e15'; done; printf ]""", "BadOutput", None),
    ],
    ids=["largest", "largest of one that failed", "larger than it was written"],
)
async def test_a_large_output_is_kept_or_told(
    store: Store, server: EmbeddedServer, nursery: Nursery, cmd: str, kind: str | None, output: str | None
) -> None:
    """The exit code stands beside it in any case."""
    text = f'exec >"$TASKFLOW_OUTPUT"; code=0; {cmd}; exit $code'
    job = a_job_for(store, "@shell", type="shell", payload=json.dumps({"cmd": text}).encode())
    async with hired(store, server, Registry(), executors={"shell": Shell(kit(nursery))}):
        await store.submit([job])
        done = await ended(store, job.id)

    assert (done.failure.kind if done.failure else None) == kind
    assert json.loads(done.value or b"") == {"exit_code": 3 if kind == "ExitCode" else 0, "output": output}


async def test_outputs_that_are_none_leave_no_file_open(nursery: Nursery) -> None:
    """However often: the worker would run out of descriptors."""
    before = len(os.listdir("/proc/self/fd"))
    for what in ("mkdir", "mkfifo", "ln -s /dev/null"):
        for _ in range(3):
            await Shell(kit(nursery)).run(work({"cmd": f'{what} "$TASKFLOW_OUTPUT"'}), Heard())

    assert len(os.listdir("/proc/self/fd")) == before


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
    """kill -9 of whoever started the nursery ends the nursery and every process of a job, and removes their files."""
    script, pids, folder = tmp_path / "holder.py", tmp_path / "pid", tmp_path / "folder"
    cmd = f"dirname $TASKFLOW_OUTPUT > {folder}; sleep 300 & echo $! > {pids}; wait"
    script.write_text(
        "import asyncio, json\n"
        "from tests.support.processes import Heard, Nursery, kit, work\n"
        "from taskflow_worker.runners.shell import Shell\n"
        "async def main():\n"
        "    nursery = Nursery()\n"
        "    await nursery.start()\n"
        f"    await Shell(kit(nursery)).run(work({{'cmd': {cmd!r}}}), Heard())\n"
        "asyncio.run(main())\n"
    )
    root = str(Path(__file__).parents[2])
    holder = subprocess.Popen([sys.executable, str(script)], env={**os.environ, "PYTHONPATH": root})  # noqa: ASYNC220
    pid = await read_pid(pids)
    family = [pid, *(each.pid for each in psutil.Process(holder.pid).children(recursive=True))]

    holder.send_signal(signal.SIGKILL)
    holder.wait()
    await end_of(*family)
    assert not os.path.exists(written(folder).strip())  # noqa: ASYNC240
