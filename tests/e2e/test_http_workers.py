"""The workers in examples/, one in shell and one in JavaScript, on a whole stack of real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.stack import DEADLINE_S, Stack, eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
VISIBILITY_S = 3
LONG_S = 5  # longer than a lease that nobody renews
TOKEN = "let-me-in"

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("http_workers")]
needs_shell = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("jq")), reason="curl and jq are not installed"
)
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One that asks for a token and loses patience soon, and whose own worker leaves most queues alone."""
    with Stack(
        tmp_path_factory.mktemp("http") / "data", visibility_timeout_s=VISIBILITY_S, heartbeat_s=1, lease_renewal_s=1,
        reap_interval_s=0.2, worker_queues="own", api_token=TOKEN,
    ) as one:  # fmt: skip
        one.http.headers["Authorization"] = f"Bearer {TOKEN}"
        yield one


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One that asks for no token, and for which a worker may be silent while its api is away."""
    data_dir = tmp_path_factory.mktemp("patient") / "data"
    with Stack(data_dir, heartbeat_s=1, lease_renewal_s=1, worker_queues="own") as one:
        yield one


@contextmanager
def example(stack: Stack, queue: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker for one queue; it has registered, and ends with the test."""
    log = (stack.data_dir.parent / f"{queue}.log").open("ab")
    process = subprocess.Popen(
        [*command, api(stack), queue],
        env=os.environ | {"TASKFLOW_API_TOKEN": stack.http.headers.get("Authorization", "").removeprefix("Bearer ")},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    before = {worker["id"] for worker in workers(stack, queue)}
    try:
        eventually(
            lambda: [each for each in workers(stack, queue) if each["id"] not in before], f"worker; see {log.name}"
        )
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.close()


def api(stack: Stack) -> str:
    """Where the api is."""
    return str(stack.http.base_url).removesuffix("/").removesuffix("/api/v1")


def call(stack: Stack, method: str, path: str, **more: Any) -> httpx.Response:
    """A request to the second door."""
    response = stack.http.request(method, f"{api(stack)}{path}", **more)
    assert response.status_code < 300, response.text
    return response


def workers(stack: Stack, queue: str) -> list[dict[str, Any]]:
    """The workers of a queue that are online."""
    items = call(stack, "GET", "/workers").json()["items"]
    return [each for each in items if each["queues"] == [queue] and each["status"] == "online"]


def shell(stack: Stack, queue: str, cmd: str, **fields: Any) -> str:
    """A shell job; its id."""
    body = {"type": "shell", "cmd": cmd, "queue": queue, "retries_max": 1, **fields}
    return str(call(stack, "POST", "/jobs", json=body).json()["id"])


def count(stack: Stack, queue: str, to: int, pause_ms: int = 0, **fields: Any) -> str:
    """A job for the task in JavaScript; its id."""
    return str(stack.create("js.count", queue=queue, payload={"to": to, "pause_ms": pause_ms}, **fields)["id"])


def shown(stack: Stack, job_id: str) -> dict[str, Any]:
    """The job as the second door shows it."""
    found: dict[str, Any] = call(stack, "GET", f"/jobs/{job_id}").json()
    return found


def when(stack: Stack, job_id: str, **wanted: Any) -> dict[str, Any]:
    """The job, once its columns have these values."""

    def look() -> dict[str, Any] | None:
        job = shown(stack, job_id)
        return job if all(job[name] == value for name, value in wanted.items()) else None

    return eventually(look, f"job {job_id} with {wanted}")


def ended(stack: Stack, job_id: str) -> dict[str, Any]:
    """The job once it has ended."""
    return eventually(lambda: job if (job := shown(stack, job_id))["finished_at"] else None, f"end of {job_id}")


@needs_shell
def test_a_worker_in_shell_runs_commands(stack: Stack) -> None:
    """With their environment and directory; output, exit code and failures arrive, whatever is printed."""
    with example(stack, "sh1", str(EXAMPLES / "worker.sh")):
        cmd = r"""printf '%s\n' "$GREETING" 'back\slash "quote"'; pwd; printf 'a\000b\377' >&2; exit $CODE"""
        good = shell(stack, "sh1", cmd, env={"GREETING": "it's ü\ttab", "CODE": "0"}, cwd="/")
        told = shell(stack, "sh1", 'echo "{\\"attempt\\": $TASKFLOW_ATTEMPT}" > "$TASKFLOW_OUTPUT"')
        bad = shell(stack, "sh1", "echo oh no >&2; exit 3", retries_max=0)
        slow = shell(stack, "sh1", "sleep 60", retries_max=0, timeout_s=1)

        job = ended(stack, good)
        assert (job["status"], job["result"]) == ("succeeded", {"exit_code": 0, "output": None})
        assert job["stdout"] == 'it\'s ü\ttab\nback\\slash "quote"\n/\n'
        assert job["stderr"] == "ab\N{REPLACEMENT CHARACTER}"
        assert ended(stack, told)["result"] == {"exit_code": 0, "output": {"attempt": 1}}
        job = ended(stack, bad)
        assert (job["status"], job["error"], job["stderr"]) == ("failed", "ExitCode: exit code 3", "oh no\n")
        assert job["result"]["exit_code"] == 3
        assert ended(stack, slow)["status"] == "failed"


@needs_shell
def test_a_worker_in_shell_reports_whatever_a_command_leaves(stack: Stack, tmp_path: Path) -> None:
    """Much output, a large result, one that the api refuses, and what is no result at all: each is one attempt."""
    text = 'text() { printf \'"\'; head -c "$1" /dev/zero | tr "\\000" x; printf \'"\'; }; '
    with example(stack, "sh4", str(EXAMPLES / "worker.sh")):
        wide = shell(stack, "sh4", "yes ä | tr -d '\\n' | head -c 900000; yes | head -c 1100000 >&2")
        large = shell(stack, "sh4", text + 'text 500000 > "$TASKFLOW_OUTPUT"')
        refused = [
            shell(stack, "sh4", command + ' > "$TASKFLOW_OUTPUT"', retries_max=0)
            for command in (r"""printf '"\\u0000"'""", text + "text 1048560")
        ]
        bad = [
            shell(stack, "sh4", command + ' "$TASKFLOW_OUTPUT"', retries_max=0)
            for command in ("mkfifo", f"echo 1 > {tmp_path}/one; ln -s {tmp_path}/one", "mkdir", "echo 1 { >")
        ]

        job = ended(stack, wide)
        assert job["stdout"] == "ä" * 450_000
        assert job["stderr"] == "y\n" * (1 << 19) + "\n[stderr over 1048576 bytes was cut here]\n"
        assert ended(stack, large)["result"] == {"exit_code": 0, "output": "x" * 500_000}
        for job_id, status in zip(refused, (400, 413), strict=True):
            job = ended(stack, job_id)
            assert (job["status"], job["error"]) == ("failed", f"Refused: exit code 0; status {status} for its result")
        for job_id in bad:
            job = ended(stack, job_id)
            assert job["error"] == "BadOutput: TASKFLOW_OUTPUT is not a plain file with JSON"
            assert job["result"] == {"exit_code": 0, "output": None}


@needs_shell
def test_a_worker_in_shell_survives_the_death_of_the_api(patient: Stack, tmp_path: Path) -> None:
    """A command that ends meanwhile is reported later, and nothing that was said before harms the next one."""
    with example(patient, "sh5", str(EXAMPLES / "worker.sh")) as process:
        cmd = f"echo $TASKFLOW_JOB_ID >> {tmp_path}/runs; while [ ! -e {tmp_path}/end ]; do sleep 0.1; done"
        under_way = shell(patient, "sh5", cmd)
        when(patient, under_way, status="running")
        with without_api(patient):
            (tmp_path / "end").touch()
            eventually(lambda: not children(process, "timeout") or None, "end of the command")
            eventually(lambda: children(process, "curl") or None, "report")
        following = shell(patient, "sh5", f"echo $TASKFLOW_JOB_ID >> {tmp_path}/runs; sleep 3")

        for job_id in (under_way, following):
            job = ended(patient, job_id)
            assert (job["status"], job["retries_attempted"]) == ("succeeded", 0)
        assert (tmp_path / "runs").read_text().split() == [under_way, following]


@needs_shell
def test_no_heartbeat_of_a_worker_in_shell_comes_after_its_job() -> None:
    """Not even one that found no ear at first: it would give back the next job, which it does not name."""
    with ThreadingHTTPServer(("127.0.0.1", 0), DeafToHeartbeats) as server:
        server.said = said = list[str]()  # type: ignore[attr-defined]
        server.cmds = {"first": "sleep 1.3", "next": "sleep 2.5"}  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = [str(EXAMPLES / "worker.sh"), f"http://127.0.0.1:{server.server_port}"]
        ending = subprocess.run(command, check=False, timeout=DEADLINE_S)
        server.shutdown()

    assert ending.returncode == 0
    assert "heartbeat first" in said
    assert "heartbeat first" not in said[said.index("complete first") :]
    assert said[-1] == "complete next"


class DeafToHeartbeats(BaseHTTPRequestHandler):
    """An api with a few jobs that is too busy whenever a heartbeat comes, and writes down what is said of which job."""

    def do_POST(self) -> None:
        """Any request of a worker."""
        server: Any = self.server
        verb = self.path.rpartition("/")[2]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer: dict[str, Any] = {}
        if verb == "register":
            answer = {"id": "w", "heartbeat_s": 0.2}
        elif verb == "lease":
            job = next(iter(server.cmds), None)
            item = {"job": job, "token": f"t-{job}", "attempt": 1, "fence": 1, "payload": {"cmd": server.cmds.get(job)}}
            answer = {"items": [item] if job else [], "draining": not job}
        elif verb == "heartbeat":
            server.said.append(f"heartbeat {body['running'][0]}")
        else:
            job = body["token"].removeprefix("t-")
            server.cmds.pop(job, None)
            server.said.append(f"{verb} {job}")
        self._answer(503 if verb == "heartbeat" else 200, answer)

    def do_DELETE(self) -> None:
        """It leaves."""
        self._answer(200, {})

    def _answer(self, status: int, answer: dict[str, Any]) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer, separators=(",", ":")).encode())


@needs_shell
def test_a_worker_in_shell_that_is_forgotten_ends_its_job_and_itself(stack: Stack) -> None:
    """At its next heartbeat, with an error, so that whatever keeps it running starts it anew."""
    with example(stack, "sh6", str(EXAMPLES / "worker.sh")) as process:
        left = shell(stack, "sh6", "trap '' TERM; sleep 600")
        worker_id = when(stack, left, status="running")["lease"]["worker_id"]
        [command] = eventually(lambda: children(process, "timeout") or None, "command")
        call(stack, "DELETE", f"/workers/{worker_id}")

        assert process.wait(DEADLINE_S) == 1
        assert not command.is_running()
        assert shown(stack, left)["status"] == "queued"


@needs_shell
def test_a_worker_in_shell_says_why_it_ends(stack: Stack) -> None:
    """With a wrong token, at an address where nobody is, and as it was told to: only the last is no error."""
    for url, token, why in ((api(stack), "wrong", "answered 401"), ("http://127.0.0.1:1", TOKEN, "answered 000")):
        ending = subprocess.run(
            [EXAMPLES / "worker.sh", url],
            check=False,
            env=os.environ | {"TASKFLOW_API_TOKEN": token},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert (ending.returncode, why in ending.stderr) == (1, True), ending.stderr

    with example(stack, "sh7", str(EXAMPLES / "worker.sh")) as drained:
        [worker] = workers(stack, "sh7")
        assert stack.http.post(f"/workers/{worker['id']}/drain").status_code == 200
        assert drained.wait(DEADLINE_S) == 0


@needs_shell
def test_a_worker_in_shell_keeps_its_lease_and_obeys(stack: Stack) -> None:
    """A job longer than the visibility time-out is one attempt; a canceled one is killed; stopped, it gives back."""
    with example(stack, "sh2", str(EXAMPLES / "worker.sh")) as process:
        job = ended(stack, shell(stack, "sh2", f"sleep {LONG_S}; echo done"))
        assert (job["status"], job["stdout"], job["retries_attempted"]) == ("succeeded", "done\n", 0)

        hangs = shell(stack, "sh2", "sleep 600")
        when(stack, hangs, status="running")
        call(stack, "POST", f"/jobs/{hangs}/cancel")
        assert ended(stack, hangs)["status"] == "canceled"

        left = shell(stack, "sh2", "sleep 600")
        when(stack, left, status="running")
        process.terminate()
        assert process.wait(DEADLINE_S) == 128 + signal.SIGTERM
        when(stack, left, status="queued")
        assert stack.job(left)["attempt_count"] == 0
        assert workers(stack, "sh2") == []


@needs_shell
def test_a_worker_in_shell_that_is_killed_keeps_nothing(stack: Stack, tmp_path: Path) -> None:
    """kill -9 of the script alone: what beats for it notices, its command ends, and another worker runs the job."""
    command = str(EXAMPLES / "worker.sh")
    with example(stack, "sh3", command) as victim:
        left = shell(stack, "sh3", f"echo $$ >> {tmp_path}/pids; sleep 600 & wait", retries_max=3)
        when(stack, left, status="running")
        pids = tmp_path / "pids"
        pid = int(eventually(lambda: (pids.exists() and pids.read_text()) or None, "the command"))
        victim.kill()
        victim.wait()

        with example(stack, "sh3", command):
            when(stack, left, status="running", retries_attempted=1)
            eventually(lambda: not psutil.pid_exists(pid) or None, "the end of the first run")
            call(stack, "POST", f"/jobs/{left}/cancel")
            assert ended(stack, left)["status"] == "canceled"


@needs_shell
def test_twenty_lines_are_a_worker(stack: Stack) -> None:
    """Output, exit codes, time limits and cancels arrive; its lease is kept; stopped, it gives back what it holds."""
    with example(stack, "sh0", str(EXAMPLES / "minimal.sh")) as process:
        good = shell(stack, "sh0", 'echo "$GREETING"; echo oh >&2', env={"GREETING": "it's ü"})
        bad = shell(stack, "sh0", "exit 3", retries_max=0)
        slow = shell(stack, "sh0", "sleep 60", retries_max=0, timeout_s=1)
        job = ended(stack, good)
        assert (job["status"], job["stdout"], job["stderr"]) == ("succeeded", "it's ü\n", "oh\n")
        assert ended(stack, bad)["error"] == "Error: exit code 3"
        assert ended(stack, slow)["error"] == "Error: exit code 124"
        assert ended(stack, shell(stack, "sh0", f"sleep {LONG_S}"))["retries_attempted"] == 0

        hangs = shell(stack, "sh0", "sleep 600")
        when(stack, hangs, status="running")
        call(stack, "POST", f"/jobs/{hangs}/cancel")
        assert ended(stack, hangs)["status"] == "canceled"
        left = shell(stack, "sh0", "sleep 600")
        when(stack, left, status="running")
        process.terminate()
        assert process.wait(DEADLINE_S) == 143
        when(stack, left, status="queued")
        assert stack.job(left)["attempt_count"] == 0


@needs_node
def test_a_worker_in_javascript_runs_tasks(stack: Stack) -> None:
    """Output, progress, results and errors arrive; one that takes longer than a lease is one attempt."""
    with example(stack, "js1", "node", str(EXAMPLES / "worker.mjs")):
        quick = [count(stack, "js1", to=3) for _ in range(10)]
        long = count(stack, "js1", to=LONG_S * 2, pause_ms=500)
        year = count(stack, "js1", to=1, pause_ms=100, timeout_s=365 * 24 * 3600)
        thrown = stack.create("js.throw", queue="js1", payload={"message": "no"}, retry_policy={"max_attempts": 1})
        late = count(stack, "js1", to=1, pause_ms=600_000, timeout_s=1, retry_policy={"max_attempts": 1})

        for job_id in quick:
            job = ended(stack, job_id)
            assert (job["status"], job["stdout"], job["result"]) == ("succeeded", "1\n2\n3\n", {"counted": 3})
            assert job["progress"] == {"fraction": 1, "message": "3 of 3"}
        job = ended(stack, long)
        assert (job["status"], job["retries_attempted"]) == ("succeeded", 0)
        error = stack.ended(thrown["id"])["error"]
        assert (error["class"], error["message"]) == ("RangeError", "no")
        assert "js.throw" in error["traceback"]
        assert ended(stack, late)["error"] == "Stopped: timed out"
        assert ended(stack, year)["status"] == "succeeded"


@needs_node
def test_a_worker_in_javascript_obeys_and_its_death_costs_one_attempt(stack: Stack) -> None:
    """Canceled, it stops; killed, its job runs elsewhere; drained, it finishes and leaves; stopped, it gives back."""
    with example(stack, "js2", "node", str(EXAMPLES / "worker.mjs")) as victim:
        canceled = count(stack, "js2", to=1, pause_ms=600_000)
        when(stack, canceled, status="running")
        call(stack, "POST", f"/jobs/{canceled}/cancel")
        assert ended(stack, canceled)["status"] == "canceled"

        orphan = count(stack, "js2", to=8, pause_ms=500)
        when(stack, orphan, status="running")
        os.killpg(victim.pid, signal.SIGKILL)
        victim.wait()
        with example(stack, "js2", "node", str(EXAMPLES / "worker.mjs")) as heir:
            job = ended(stack, orphan)
            assert (job["status"], job["retries_attempted"]) == ("succeeded", 1)
            running = count(stack, "js2", to=4, pause_ms=500)
            worker_id = when(stack, running, status="running")["lease"]["worker_id"]
            assert stack.http.post(f"/workers/{worker_id}/drain").status_code == 200
            assert heir.wait(DEADLINE_S) == 0
            assert ended(stack, running)["status"] == "succeeded"

        with example(stack, "js2", "node", str(EXAMPLES / "worker.mjs")) as stopped:
            left = count(stack, "js2", to=1, pause_ms=600_000)
            when(stack, left, status="running")
            stopped.terminate()
            assert stopped.wait(DEADLINE_S) == 0
            when(stack, left, status="queued")
            assert stack.job(left)["attempt_count"] == 0


@needs_node
def test_a_worker_survives_the_death_of_the_api(stack: Stack) -> None:
    """kill -9 of the api under a running job and a waiting request: it goes on where it was when there is one again."""
    with example(stack, "js3", "node", str(EXAMPLES / "worker.mjs")) as process:
        under_way = count(stack, "js3", to=10, pause_ms=200)
        when(stack, under_way, status="running")
        stack.service("api").kill()
        eventually(lambda: _answers(stack), "api that answers")

        job = ended(stack, under_way)
        assert (job["status"], job["result"]) == ("succeeded", {"counted": 10})
        assert job["stdout"].split() == [str(i) for i in range(1, 11)]
        assert ended(stack, count(stack, "js3", to=1))["status"] == "succeeded"
        assert process.poll() is None


@needs_node
def test_a_worker_in_javascript_that_is_drained_survives_the_death_of_the_api(patient: Stack) -> None:
    """It asks for no more jobs, but what it has to say of the last one it says until it is heard."""
    with example(patient, "js4", "node", str(EXAMPLES / "worker.mjs")) as process:
        last = count(patient, "js4", to=10, pause_ms=200)
        worker_id = when(patient, last, status="running")["lease"]["worker_id"]
        assert patient.http.post(f"/workers/{worker_id}/drain").status_code == 200
        said = len(shown(patient, last)["stdout"])
        eventually(lambda: len(shown(patient, last)["stdout"]) > said + 2 or None, "output after the order")
        with without_api(patient):
            pass

        assert process.wait(DEADLINE_S) == 0
        assert ended(patient, last)["status"] == "succeeded"


def children(process: subprocess.Popen[bytes], name: str) -> list[psutil.Process]:
    """The programs of this name that a worker has started, itself or through a shell of its own."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.name() == name:
                found.append(child)
    return found


@contextmanager
def without_api(stack: Stack) -> Iterator[None]:
    """The api is killed, and there is none until the block is left; then there is one again."""
    victim = stack.service("api")
    stack.process.send_signal(signal.SIGSTOP)
    try:
        victim.kill()
        eventually(lambda: not _answers(stack) or None, "silence of the api")
        yield
    finally:
        stack.process.send_signal(signal.SIGCONT)
    eventually(lambda: _answers(stack), "api that answers")


def _answers(stack: Stack) -> bool:
    try:
        return stack.http.get(f"{api(stack)}/readyz").status_code == 200
    except httpx.TransportError:
        return False
