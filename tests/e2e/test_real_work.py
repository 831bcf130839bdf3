"""Shell and Python jobs on a whole stack of real processes: what they print, how they end, and what kills them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.processes import gone, titled
from tests.support.stack import Stack, eventually

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("real_work")]

SHOUT = Path(__file__).parents[1] / "support" / "shout"
ONCE = {"max_attempts": 1}
TWICE = {"max_attempts": 2, "base_delay_seconds": 1}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One that loses patience soon."""
    folder = tmp_path_factory.mktemp("real") / "data"
    own = {
        "PYTHONPATH": os.pathsep.join([str(SHOUT), str(Path(__file__).parents[2])]),
        "SHARED_TOKEN": "battery-staple",
    }
    os.environ |= own
    try:
        with Stack(
            folder, visibility_timeout_s=3, heartbeat_s=1, lease_renewal_s=1, reap_interval_s=0.2, kill_grace_s=1,
            env_allowlist="PATH,HOME,LANG,LC_*,SHARED_TOKEN",
        ) as one:  # fmt: skip
            yield one
    finally:
        for name in own:
            del os.environ[name]


def submit(stack: Stack, body: dict[str, Any]) -> str:
    """A job; its id."""
    response = stack.http.post("/jobs", json={"name": "x", "queue": "default", **body})
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def shell(stack: Stack, cmd: str, **fields: Any) -> str:
    """A shell job; its id."""
    env = fields.pop("env", {})
    made = {"type": "shell", "payload": {"cmd": cmd, "env": env}, "retry_policy": ONCE, **fields}
    return submit(stack, made)


def python(stack: Stack, function: str, *args: object, **fields: Any) -> str:
    """A Python job; its id."""
    payload = {"callable": f"tests.support.workload:{function}", "args": list(args)}
    made = {"type": "python", "payload": payload, "retry_policy": ONCE, **fields}
    return submit(stack, made)


def output(stack: Stack, job_id: str, stream: str = "stdout") -> str:
    """All it has printed."""
    items = stack.http.get(f"/jobs/{job_id}/logs", params={"limit": 1000}).json()["items"]
    return "".join(item["text"] for item in items if item["stream"] == stream)


def running(stack: Stack, job_id: str) -> None:
    """Wait until it has started."""
    eventually(lambda: stack.job(job_id)["status"] == "RUNNING", f"start of {job_id}")


def pid_in(path: Path) -> int:
    """The pid that a job has written."""
    return int(eventually(lambda: path.read_text().strip() if path.exists() else None, f"pid in {path}"))


def valkey(stack: Stack) -> psutil.Process:
    """The server."""
    [one] = titled(stack.process.pid, "taskflow valkey")
    return one


def peak_bytes(process: psutil.Process) -> int:
    """The most memory it ever had."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))


def test_a_shell_job_tells_its_output_and_exit_code(stack: Stack) -> None:
    """Both streams, the exit code, and the JSON it has written as its output."""
    good = shell(stack, 'echo out; echo err >&2; echo "{\\"n\\": 1}" > "$TASKFLOW_OUTPUT"')
    bad = shell(stack, "printf 'no newline'; exit 3")

    assert stack.ended(good)["result"] == {"exit_code": 0, "output": {"n": 1}}
    assert (output(stack, good), output(stack, good, "stderr")) == ("out\n", "err\n")
    job = stack.ended(bad)
    assert (job["status"], job["result"]) == ("FAILED", {"exit_code": 3, "output": None})
    assert "3" in job["error"]["message"]
    assert output(stack, bad) == "no newline"


def test_a_job_sees_what_it_is_and_nothing_of_the_worker(stack: Stack) -> None:
    """Its own variables and the allowed ones; not the worker's settings."""
    job_id = shell(stack, "echo $TASKFLOW_JOB_ID $TASKFLOW_ATTEMPT $MINE; env", env={"MINE": "yes"})

    stack.ended(job_id)

    first, *rest = output(stack, job_id).splitlines()
    assert first == f"{job_id} 1 yes"
    assert not [line for line in rest if line.startswith(("TASKFLOW_REDIS_URL", "PYTHONPATH", "VIRTUAL_ENV"))]


def test_a_secret_is_not_seen_in_the_output(stack: Stack) -> None:
    """The value of a variable whose name says that it is one, be it the job's own or the worker's."""
    job_id = shell(stack, "echo it is $DB_PASSWORD $SHARED_TOKEN", env={"DB_PASSWORD": "correct-horse"})

    stack.ended(job_id)

    assert output(stack, job_id) == "it is *** ***\n"


@pytest.mark.parametrize(
    ("cmd", "printed"),
    [
        ("true", ""),
        ("printf 'a\\nb'", "a\nb"),
        ("printf 'h\\303'; sleep 0.3; printf '\\251llo'", "héllo"),  # one character in two pieces
        ("printf 'x\\377\\376y'", "x\ufffd\ufffdy"),
        ("head -c 300000 /dev/zero | tr '\\0' z", "z" * 300_000),
        ("for i in 1 2 3; do echo $i; sleep 0.05; done", "1\n2\n3\n"),
    ],
    ids=["none", "no newline at the end", "a character cut in two", "no text", "one long line", "bit by bit"],
)
def test_output_of_every_shape_arrives(stack: Stack, cmd: str, printed: str) -> None:
    """Whole, and as text."""
    job_id = shell(stack, cmd)

    assert stack.ended(job_id)["status"] == "COMPLETED"
    assert output(stack, job_id) == printed


def test_output_without_end_is_cut_with_a_mark(stack: Stack) -> None:
    """A gigabyte: the first of it is kept, and neither the worker nor the server grows."""
    before = peak_bytes(valkey(stack))
    job_id = shell(stack, "head -c 1000000000 /dev/zero | tr '\\0' 'x'; echo; echo end >&2")

    assert stack.ended(job_id)["status"] == "COMPLETED"
    items = stack.http.get(f"/jobs/{job_id}/logs", params={"limit": 1000}).json()["items"]
    assert sum(len(item["text"]) for item in items if item["stream"] == "stdout") == 1 << 20
    assert any("cut" in item["text"] for item in items if item["stream"] == "system")
    assert output(stack, job_id, "stderr") == "end\n"
    assert peak_bytes(stack.service("worker")) < 300 << 20
    assert peak_bytes(valkey(stack)) < before + (64 << 20)


def test_output_of_any_shape_is_shown(stack: Stack) -> None:
    """Bytes that are no text, characters cut by the edge of a chunk, a line of 500 KB; all of it before a SIGKILL."""
    binary = shell(stack, "printf 'a\\0b\\377\\303'")
    cut = python(stack, "print_at_length", "é", 30_001)
    killed = shell(stack, "head -c 500000 /dev/zero | tr '\\0' 'x'; echo last; kill -9 $$")

    assert stack.ended(binary)["status"] == "COMPLETED"
    assert output(stack, binary) == "a\0b\ufffd\ufffd"
    assert stack.ended(cut)["status"] == "COMPLETED"
    assert output(stack, cut) == "x" + "é" * 30_001 + "\n"
    assert "SIGKILL" in stack.ended(killed)["error"]["message"]
    assert output(stack, killed) == "x" * 500_000 + "last\n"


def test_a_job_that_ignores_sigterm_is_killed_with_its_children(stack: Stack, tmp_path: Path) -> None:
    """Past its time: SIGTERM, the grace, SIGKILL; the last it printed is there."""
    pids = tmp_path / "pids"
    cmd = f"trap 'echo not yet' TERM; sleep 300 & echo $! > {pids}; while :; do sleep 0.1; done"
    job_id = shell(stack, cmd, timeout_s=1)

    job = stack.ended(job_id)

    assert (job["status"], job["error"]["class"]) == ("FAILED", "TimedOut")
    assert "not yet" in output(stack, job_id)
    eventually(lambda: gone(pid_in(pids)), "end of the grandchild")


def test_a_cancel_ends_the_process(stack: Stack, tmp_path: Path) -> None:
    """The job is CANCELED once its process is gone."""
    pids = tmp_path / "pids"
    job_id = shell(stack, f"echo $$ > {pids}; echo started; sleep 300")
    pid = pid_in(pids)

    assert stack.http.post(f"/jobs/{job_id}/cancel").status_code == 200

    assert stack.ended(job_id)["status"] == "CANCELED"
    eventually(lambda: gone(pid), "end of the process")
    assert output(stack, job_id) == "started\n"


def test_python_jobs_run_apart(stack: Stack) -> None:
    """Sync and async; what they print, return and tell."""
    added, asked = python(stack, "add", 2, 3), python(stack, "who")

    assert stack.ended(added)["result"] == 5
    assert output(stack, added) == "adding 2 and 3\n"
    assert stack.ended(asked)["result"] == {"job_id": asked, "attempt": 1}


@pytest.mark.parametrize(("function", "word"), [("crash", "SIGSEGV"), ("vanish", "SIGKILL")])
def test_a_poison_job_ends_failed_and_says_why(stack: Stack, function: str, word: str) -> None:
    """After its last attempt; the worker goes on."""
    job = stack.ended(python(stack, function, retry_policy=TWICE))

    assert (job["status"], job["attempt_count"]) == ("FAILED", 2)
    assert word in job["error"]["message"]
    assert stack.ended(python(stack, "add", 1))["result"] == 1


def test_a_computing_job_keeps_its_lease(stack: Stack) -> None:
    """Twice as long as the visibility time-out, on one attempt."""
    job = stack.ended(python(stack, "spin", 6.0))

    assert (job["status"], job["result"], job["attempt_count"]) == ("COMPLETED", "done", 1)


def test_an_executor_of_others_is_found(stack: Stack) -> None:
    """Installed beside TaskFlow, its type of job runs."""
    good = submit(stack, {"type": "shout", "payload": {"text": "hello"}})
    bad = submit(stack, {"type": "shout", "payload": {}})

    assert stack.ended(good)["result"] == "HELLO"
    assert output(stack, good) == "HELLO!\n"
    assert stack.ended(bad)["error"]["message"] == "text: must be a string"


def test_a_killed_worker_takes_its_processes_along_and_the_job_runs_again(stack: Stack, tmp_path: Path) -> None:
    """kill -9: nothing of the first attempt is left, and the second one completes."""
    mark, pids = tmp_path / "mark", tmp_path / "pids"
    cmd = f"if [ -e {mark} ]; then echo again; else touch {mark}; echo $$ > {pids}; sleep 300; fi"
    job_id = shell(stack, cmd, retry_policy=TWICE)
    pid = pid_in(pids)

    stack.service("worker").send_signal(signal.SIGKILL)

    eventually(lambda: gone(pid), "end of the first attempt")
    job = stack.ended(job_id)
    assert (job["status"], job["attempt_count"]) == ("COMPLETED", 2)
    assert output(stack, job_id) == "again\n"


def test_a_restart_of_the_server_costs_no_running_job_an_attempt(stack: Stack, tmp_path: Path) -> None:
    """Those that run while Valkey is killed: all complete, on their first attempt, with all that they printed."""
    go = tmp_path / "go"
    ids = [shell(stack, f"echo before; until [ -e {go} ]; do sleep 0.1; done; echo after") for _ in range(12)]
    for job_id in ids:
        running(stack, job_id)

    server = valkey(stack)
    server.kill()
    eventually(lambda: gone(server.pid), "end of the server")
    eventually(lambda: stack.http.get("/queues").status_code == 200, "server that is back")
    go.touch()

    for job in [stack.ended(job_id) for job_id in ids]:
        assert (job["status"], job["attempt_count"]) == ("COMPLETED", 1)
    assert {output(stack, job_id) for job_id in ids} == {"before\nafter\n"}
