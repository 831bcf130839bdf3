"""Whatever a job does, it ends as an attempt with a clear reason, and leaves worker and nursery as they were."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgpack
import psutil
import pytest

from taskflow import Registry
from taskflow.executor import Failed, Limits, Outcome, Succeeded
from taskflow_streams import Store
from taskflow_streams.embedded import EmbeddedServer
from taskflow_worker.processes import Nursery, orphans
from taskflow_worker.processes.server import SPARES
from taskflow_worker.runners.pool import TaskPool
from taskflow_worker.runners.python import Python
from taskflow_worker.runners.shell import Shell
from tests.support.processes import Heard, end_of, kit, read_pid, work
from tests.support.working import hired, lose, submitted, until

MIB = 1 << 20


async def python(nursery: Nursery, function: str, *args: Any, report: Heard | None = None, **options: Any) -> Outcome:
    """A call of one of the hostile functions."""
    payload = {"callable": f"tests.support.hostile:{function}", "args": list(args)}
    return await asyncio.wait_for(Python(kit(nursery, **options)).run(work(payload), report or Heard()), 30)


async def shell(nursery: Nursery, cmd: str, report: Heard | None = None, **options: Any) -> Outcome:
    """A hostile command."""
    return await asyncio.wait_for(Shell(kit(nursery, **options)).run(work({"cmd": cmd}), report or Heard()), 30)


@pytest.mark.parametrize(
    ("function", "args", "kind", "word"),
    [
        ("leave", [3], "Exited", "exited with 3"),
        ("leave", [0], "Exited", "exited with 0 before it had a result"),
        ("segfault", [], "Killed", "SIGSEGV"),
        ("ask_to_exit", [3], "SystemExit", "exit with 3"),
        ("ask_to_exit", [None], "SystemExit", "exit with None"),
        ("interrupt", [], "KeyboardInterrupt", ""),
        ("raise_bare", [], "Bare", "unexpected"),
        ("raise_mute", [], "Mute", "without a message"),
        ("raise_huge", [], "ValueError", "xxx"),
        ("recurse", [], "RecursionError", "depth"),
        ("give", ["nan"], "ValueError", "JSON"),
        ("give", ["set"], "TypeError", "JSON"),
        ("give", ["large"], "ValueError", "1,048,576"),
        ("give", ["deep"], "ValueError", "JSON"),
        ("give", ["surrogate"], "ValueError", "surrogate"),
        ("give", ["keys"], "TypeError", "JSON"),
        ("generate", [], "TypeError", "async_generator"),
        ("not_callable", [], "TypeError", "not a function, but int"),
        ("nope", [], "AttributeError", "nope"),
        ("close_everything", [], "Exited", "before it had a result"),
        ("babble_on_the_line", [], "BadLine", "descriptor 3"),
    ],
)
async def test_a_python_job_that_goes_wrong_says_why(
    nursery: Nursery, function: str, args: list[Any], kind: str, word: str
) -> None:
    """In words that can be stored, without a frame of ours; and the next one runs."""
    outcome = await python(nursery, function, *args)

    assert isinstance(outcome, Failed)
    assert outcome.failure.kind == kind
    assert word in outcome.failure.message
    assert len(outcome.failure.message) <= 2_000
    trace = outcome.failure.traceback or ""
    assert len(trace) <= 16_000
    assert "taskflow_worker" not in trace
    assert "calling.py" not in trace
    assert await python(nursery, "called", 1) == Succeeded(b"2")


@pytest.mark.parametrize(
    ("function", "result", "out", "err"),
    [
        ("leave_threads", "done", b"", b""),
        ("write_binary", None, b"\xff\x00\xfetext", b""),
        ("close_streams", "done", b"", b""),
        ("close_objects", "done", b"", b""),
        ("replace_streams", "done", b"before\n", b""),
        ("leave_tasks", "False", b"canceled\n", b""),
        ("use_processes", [1, 2, 3], b"", b""),
        ("write_to_nobody", "BrokenPipeError", b"", b""),
        ("log_all", None, b"", b"INFO hostile: at info\nWARNING hostile: at warning\nERROR hostile: at error\n"),
    ],
)
async def test_a_python_job_that_does_odd_things_succeeds(
    nursery: Nursery, function: str, result: Any, out: bytes, err: bytes
) -> None:
    """With what it has returned and printed."""
    report = Heard()

    outcome = await python(nursery, function, report=report)

    assert outcome == Succeeded(None if result is None else json.dumps(result, separators=(",", ":")).encode())
    assert report.out == out
    assert report.err.startswith(err)


@pytest.mark.parametrize(
    "word",
    [
        7,
        "text",
        {},
        {"progress": "x"},
        {"progress": [2.0, ""]},
        {"progress": [float("nan"), ""]},
        {"error": 1},
        {"error": [1, 2, 3, 4]},
        {"value": 7},
        {"value": b"{not json"},
        {"value": b"[" * 500_000},
    ],
)
async def test_nobody_can_speak_in_our_name(nursery: Nursery, word: Any) -> None:
    """What a job writes to our line is believed only where it could be ours."""
    outcome = await python(nursery, "lie_on_the_line", msgpack.packb(word).hex())

    assert isinstance(outcome, Failed)
    assert outcome.failure.kind == "BadLine"


async def test_a_python_job_sees_nothing_of_ours(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made ahead or not: its own environment, session and descriptors."""
    monkeypatch.setenv("TASKFLOW_REDIS_URL", "redis://secret")

    async def seen() -> dict[str, Any]:
        outcome = await python(nursery, "surroundings")
        assert isinstance(outcome, Succeeded)
        found: dict[str, Any] = json.loads(outcome.value or b"")
        return found

    first = await seen()
    await until(lambda: spares_of(nursery), "a process that was made ahead")
    second = await seen()

    for found in (first, second):
        names = {name for name in found.pop("env") if not name.startswith("TASKFLOW_ATTEMPT_")}
        assert names == {"PATH", "TASKFLOW_JOB_ID", "TASKFLOW_ATTEMPT", "TASKFLOW_FENCE"}
    assert first == second
    assert first == {
        "fds": [0, 1, 2, 3, 4], "argv": ["taskflow"], "session": True, "umask": 0o22, "threads": 1
    }  # fmt: skip


async def spares_of(nursery: Nursery) -> bool:
    """Whether all processes that are made ahead are there."""
    return len(family(nursery)) == 2 + SPARES


def family(nursery: Nursery) -> list[psutil.Process]:
    """Guardian, nursery, and all that they have started."""
    assert nursery._process is not None
    guardian = psutil.Process(nursery._process.pid)
    return [guardian, *guardian.children(recursive=True)]


async def test_daemons_of_python_jobs_end_with_them(nursery: Nursery) -> None:
    """Twice forked, in a session of their own, with the output in their hands."""
    outcome = await python(nursery, "daemonize")

    assert isinstance(outcome, Succeeded)
    await end_of(int(outcome.value or b""))


async def test_limits_of_python_jobs_hold(nursery: Nursery) -> None:
    """Memory ends as MemoryError, CPU time as a kill that says so; the rest can be seen."""
    limits = Limits(cpu_s=1, memory_bytes=500 * MIB, open_files=64, nice=3)

    ate = await python(nursery, "eat_memory", limits=limits)
    burnt = await python(nursery, "burn", limits=limits)
    seen = await python(nursery, "limits", limits=limits)

    assert isinstance(ate, Failed)
    assert (ate.failure.kind, "more memory" in ate.failure.message) == ("MemoryError", True)
    assert isinstance(burnt, Failed)
    assert "CPU" in burnt.failure.message
    assert seen == Succeeded(b'{"cpu_s":1,"memory_bytes":524288000,"open_files":64,"nice":3}')


async def test_a_job_that_is_deaf_to_its_cpu_limit_is_told_to_have_passed_it(nursery: Nursery) -> None:
    """The kernel kills it a little later, with a signal that tells nothing."""
    outcome = await python(nursery, "burn_deaf", limits=Limits(cpu_s=1))

    assert isinstance(outcome, Failed)
    assert "CPU" in outcome.failure.message


@pytest.mark.parametrize(
    ("cmd", "word"),
    [
        ("mkfifo $TASKFLOW_OUTPUT", "not a plain file"),
        ("mkdir $TASKFLOW_OUTPUT; touch $TASKFLOW_OUTPUT/x", "not a plain file"),
        ("ln -s /dev/zero $TASKFLOW_OUTPUT", "not a plain file"),
        ("ln -s /etc/passwd $TASKFLOW_OUTPUT", "not a plain file"),
        ("truncate -s 1G $TASKFLOW_OUTPUT", "more than"),
        ("echo '[1e999]' > $TASKFLOW_OUTPUT", "not JSON"),
        ("echo '[NaN]' > $TASKFLOW_OUTPUT", "not JSON"),
        ("printf '\\377' > $TASKFLOW_OUTPUT", "not JSON"),
        ("yes [ | head -c 200000 | tr -d '\\n' > $TASKFLOW_OUTPUT", "not JSON"),
    ],
)
async def test_what_is_no_output_is_neither_read_nor_waited_for(nursery: Nursery, cmd: str, word: str) -> None:
    """A pipe, a folder, a link to something else, too much; and nothing of it stays."""
    outcome = await shell(nursery, cmd)

    assert isinstance(outcome, Failed)
    assert (outcome.failure.kind, word in outcome.failure.message) == ("BadOutput", True)
    assert os.listdir(nursery._folder) == []


@pytest.mark.parametrize("cmd", ["rm -rf $(dirname $TASKFLOW_OUTPUT)", "rm -rf $(dirname $(dirname $TASKFLOW_OUTPUT))"])
async def test_a_job_that_removes_its_folder_harms_none_after_it(nursery: Nursery, cmd: str) -> None:
    """Its own, or that of all."""
    assert await shell(nursery, cmd) == Succeeded(b'{"exit_code":0,"output":null}')
    assert await shell(nursery, "echo 1 > $TASKFLOW_OUTPUT") == Succeeded(b'{"exit_code":0,"output":1}')


async def test_a_job_that_closed_its_output_is_waited_for(nursery: Nursery) -> None:
    """Its exit code counts, not the end of its pipes."""
    outcome = await shell(nursery, "exec 1>&- 2>&-; sleep 0.3; exit 4")

    assert isinstance(outcome, Failed)
    assert outcome.value == b'{"exit_code":4,"output":null}'


async def test_a_daemon_that_holds_the_output_holds_nothing_up(nursery: Nursery) -> None:
    """The job has ended, so it has to end, too."""
    report = Heard()

    outcome = await shell(nursery, "(setsid sh -c 'echo $$; exec sleep 300' &); sleep 0.3", report)

    assert isinstance(outcome, Succeeded)
    await end_of(int(report.out))


async def test_a_job_that_has_stopped_itself_hears_its_end(nursery: Nursery, tmp_path: Path) -> None:
    """It is woken to take its SIGTERM."""
    began, report = tmp_path / "began", Heard(grace_s=10)
    cmd = f"trap 'echo woken; exit' TERM; touch {began}; kill -STOP $$; sleep 300"
    running = asyncio.create_task(shell(nursery, cmd, report))

    async def has_begun() -> bool:
        return began.exists()

    await until(has_begun, "the job's start")
    running.cancel()
    await asyncio.wait([running], timeout=20)

    assert running.cancelled()
    assert report.out == b"woken\n"


async def test_a_task_that_spoils_its_process_spoils_no_other(
    nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it puts in the place of the output is undone; a process that was cut off is replaced."""
    (tmp_path / "spoilers.py").write_text(
        "import os, sys\nfrom taskflow import task\n"
        "@task(name='pid')\ndef pid():\n    print('here')\n    return os.getpid()\n"
        "@task(name='replace')\ndef replace():\n    sys.stdout = None\n"
        "@task(name='cut')\ndef cut():\n    os.close(1)\n"
        "@task(name='babble')\ndef babble():\n    os.write(3, b'x' * 100)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    pool = TaskPool(nursery, ["spoilers"])

    async def pid() -> Outcome:
        report = Heard()
        outcome = await pool.run("pid", work({}), report)
        assert report.out == b"here\n"
        return outcome

    first = await pid()
    await pool.run("replace", work({}), Heard())
    assert await pid() == first
    await pool.run("cut", work({}), Heard())
    second = await pid()
    babbled = await pool.run("babble", work({}), Heard())
    third = await pid()

    assert len({str(first), str(second), str(third)}) == 3
    assert isinstance(babbled, Failed)
    assert babbled.failure.kind == "BadLine"
    await pool.close()


async def test_what_an_earlier_task_left_does_not_speak_for_a_later_one(
    nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a forked child that comes back with a result, nor a thread that tells of its progress."""
    (tmp_path / "leavers.py").write_text(
        "import os, threading, time\nfrom taskflow import current, task\n"
        "@task(name='fork')\ndef fork():\n    if os.fork() == 0:\n        time.sleep(0.3)\n        return 'child'\n"
        "    return 'first'\n"
        "def speak(context):\n    time.sleep(0.3)\n    context.progress(0.77, 'not yours')\n"
        "@task(name='thread')\ndef thread():\n"
        "    threading.Thread(target=speak, args=[current()], daemon=True).start()\n    return 'second'\n"
        "@task(name='slow')\ndef slow():\n    time.sleep(1)\n    return 'slow'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    pool, later = TaskPool(nursery, ["leavers"]), Heard()

    before = [await pool.run(name, work({}), Heard()) for name in ("fork", "thread")]
    after = [await pool.run("slow", work({}), later) for _ in range(2)]

    assert before == [Succeeded(b'"first"'), Succeeded(b'"second"')]
    assert after == [Succeeded(b'"slow"')] * 2
    assert later.told == []
    await pool.close()


async def test_the_outcome_is_the_parents_when_both_come_back(nursery: Nursery) -> None:
    """A forked child that returns from the job's own function ends without a word."""
    assert await python(nursery, "fork_and_return") == Succeeded(b'"the parent"')


@pytest.mark.parametrize(("how", "kind", "code"), [("kill -9 $$", "Killed", 137), ("exit 3", "ExitCode", 3)])
async def test_how_a_command_exited_comes_before_its_bad_output(
    nursery: Nursery, how: str, kind: str, code: int
) -> None:
    """One that was killed while it wrote its output was killed."""
    outcome = await shell(nursery, f"echo 'half {{' > $TASKFLOW_OUTPUT; {how}")

    assert isinstance(outcome, Failed)
    assert (outcome.failure.kind, json.loads(outcome.value or b"")) == (kind, {"exit_code": code, "output": None})


def open_files(nursery: Nursery) -> list[int]:
    """How many descriptors the worker and each of its processes has; nothing while one of them comes or goes."""
    try:
        return [psutil.Process().num_fds(), *(each.num_fds() for each in family(nursery))]
    except psutil.NoSuchProcess:
        return []


async def settled_files(nursery: Nursery) -> list[int]:
    """The same once nothing moves: a process that is being made ready has other ones, and more or fewer."""
    seen: list[list[int]] = []

    async def same_as_before() -> bool:
        await asyncio.sleep(0.1)
        seen.append(open_files(nursery))
        return len(seen[-1]) == 3 + SPARES and seen[-3:] == [seen[-1]] * 3

    await until(same_as_before, "no process that comes or goes")
    return seen[-1]


async def test_two_hundred_jobs_leave_nothing_behind(nursery: Nursery) -> None:
    """No descriptor, no process, no zombie, no file: in the worker, or in the nursery."""
    ways: list[Callable[[], Awaitable[Outcome]]] = [
        lambda: shell(nursery, "sleep 300 & echo $!"),
        lambda: shell(nursery, "(setsid sleep 300 &); exit 1"),
        lambda: shell(nursery, "touch $TASKFLOW_OUTPUT.more; kill -9 $$", limits=Limits(nice=1)),
        lambda: python(nursery, "called", 1),
        lambda: python(nursery, "leave_threads"),
        lambda: python(nursery, "segfault"),
    ]
    await asyncio.gather(*(way() for way in ways))
    await until(lambda: spares_of(nursery), "quiet")
    before = await settled_files(nursery)

    for _ in range(10):
        await asyncio.gather(*(way() for way in ways * 4))

    await until(lambda: spares_of(nursery), "quiet again")

    async def nothing_left() -> bool:
        after = open_files(nursery)
        return len(after) == len(before) and sum(after) <= sum(before)

    await until(nothing_left, f"no more open files than {before}")
    assert os.listdir(nursery._folder) == []


async def test_a_dead_child_is_found_also_where_the_kernel_does_not_tell() -> None:
    """By looking at all of them."""
    child = await asyncio.create_subprocess_exec("sleep", "300")
    assert orphans.next_zombie() != child.pid
    pid = os.posix_spawn("/bin/true", ["true"], {})  # noqa: ASYNC221 - to be waited for by nobody else

    async def found() -> bool:
        return orphans.next_zombie() == pid

    await until(found, "the child's end")
    os.waitpid(pid, 0)  # noqa: ASYNC222 - it has ended
    child.kill()
    await child.wait()


async def test_a_module_may_print_or_fail_while_it_is_imported(
    nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it prints is output; where it fails can be seen."""
    (tmp_path / "talking.py").write_text("print('imported')\ndef run():\n    return 1\n")
    (tmp_path / "failing.py").write_text("print('so far')\n1 / 0\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit('not today')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    reports = [Heard(), Heard(), Heard()]

    talked, failed, left = [
        await Python(kit(nursery)).run(work({"callable": f"{module}:run"}), report)
        for module, report in zip(("talking", "failing", "leaving"), reports, strict=True)
    ]

    assert (talked, reports[0].out) == (Succeeded(b"1"), b"imported\n")
    assert isinstance(failed, Failed)
    assert (failed.failure.kind, reports[1].out) == ("ZeroDivisionError", b"so far\n")
    assert 'failing.py", line 2' in (failed.failure.traceback or "")
    assert "importlib" not in (failed.failure.traceback or "")
    assert isinstance(left, Failed)
    assert "not today" in left.failure.message


async def test_a_lost_lease_kills_at_once(
    nursery: Nursery, store: Store, server: EmbeddedServer, tmp_path: Path
) -> None:
    """Also a process that has been asked to end, and takes its time: another worker may have the job by now."""
    pids, asked = tmp_path / "pid", tmp_path / "asked"
    cmd = f"trap 'echo $$ > {asked}' TERM; echo $$ > {pids}; while :; do sleep 0.1; done"
    executors = {"shell": Shell(kit(nursery))}
    async with hired(store, server, Registry(), executors=executors, kill_grace_s=300, heartbeat_s=0.2):
        job = await submitted(store, "@shell", type="shell", payload=json.dumps({"cmd": cmd}).encode())
        pid = await read_pid(pids)
        await store.cancel(job)
        assert await read_pid(asked) == pid

        await lose(store, job)

        await end_of(pid)


async def test_the_nursery_learns_that_jobs_load_modules_with_tasks(
    nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of them loads what it needs of TaskFlow by itself; those after its end find it there."""
    (tmp_path / "late.py").write_text(
        "import sys\nbefore = 'taskflow.tasks' in sys.modules\nfrom taskflow import task\n"
        "def had():\n    return before\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    python = Python(kit(nursery))

    async def had() -> Outcome:
        return await python.run(work({"callable": "late:had"}), Heard())

    assert await had() == Succeeded(b"false")

    async def has_it_now() -> bool:
        return await had() == Succeeded(b"true")

    await until(has_it_now, "the nursery to load it")


async def test_a_call_that_lingers_after_its_result_is_ended(nursery: Nursery, tmp_path: Path) -> None:
    """Its outcome is told at once; the process that does not end by itself is killed soon after."""
    where = tmp_path / "pid"

    outcome = await python(nursery, "linger", str(where))

    assert outcome == Succeeded(b"1")
    await end_of(int(where.read_text()))
