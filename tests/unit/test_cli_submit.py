"""`taskflow submit` and `taskflow python`: what they send, and `--wait`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.commanding import Terminal
from tests.support.fake_api import FakeApi, Reply, end, log, stream

CREATED = Reply(201, {"id": "j"})
STREAM = "GET /jobs/j/logs/stream"


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """An api that takes jobs."""
    with FakeApi() as fake:
        fake["POST /jobs"] = CREATED
        yield fake


@pytest.fixture
def taskflow(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Terminal:
    """The command, in an empty directory, with an api to talk to."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TASKFLOW_API_URL", api.url)
    monkeypatch.delenv("TASKFLOW_API_TOKEN", raising=False)
    return Terminal(monkeypatch, capfd)


@pytest.mark.parametrize(
    ("arguments", "cmd"),
    [
        (["--", "echo", "hi"], "echo hi"),
        (["--", "echo", "two words", "$HOME"], "echo 'two words' '$HOME'"),
        (["echo $HOME | wc"], "echo $HOME | wc"),
        (["--", "ls", "--json"], "ls --json"),
    ],
)
def test_arguments_stay_apart_and_a_text_is_for_the_shell(
    taskflow: Terminal, api: FakeApi, arguments: list[str], cmd: str
) -> None:
    """Many arguments reach the program as they were; a single one is shell text.  The id is all that is printed."""
    done = taskflow("submit", *arguments)

    assert done == (0, "j\n", "")
    assert api.asked[0].body == {"type": "shell", "cmd": cmd}


def test_every_option_arrives(taskflow: Terminal, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each under the name that the api has for it."""
    monkeypatch.setenv("HERE", "x")
    taskflow(
        "submit", "-q", "fast", "-p", "-3", "-e", "A=1=2", "-e", "HERE", "--cwd", "/tmp", "--owner", "me", "--key", "k",
        "--timeout", "1h30m", "--retries", "2", "--at", "2026-01-02T03:04:05+01:00", "--ttl", "250ms", "true",
    )  # fmt: skip

    assert api.asked[0].body == {
        "type": "shell",
        "cmd": "true",
        "env": {"A": "1=2", "HERE": "x"},
        "cwd": "/tmp",
        "queue": "fast",
        "priority": -3,
        "owner": "me",
        "idempotency_key": "k",
        "timeout_s": 5400,
        "retries_max": 2,
        "scheduled_at": "2026-01-02T02:04:05.000+00:00",
        "ttl_s": 0.25,
    }


def test_a_delay_is_left_to_the_clock_of_the_api(taskflow: Terminal, api: FakeApi) -> None:
    """So that ours may be wrong, and the same command with the same key is the same job."""
    taskflow("submit", "--delay", "10m", "true")

    assert api.asked[0].body == {"type": "shell", "cmd": "true", "delay_s": 600}


def test_a_directory_is_told_in_full(taskflow: Terminal, api: FakeApi, tmp_path: Path) -> None:
    """A worker does not know where the command was given."""
    taskflow("submit", "--cwd", "sub", "true")

    assert api.asked[0].body["cwd"] == str(tmp_path / "sub")


def test_python_arguments_are_json_or_text(taskflow: Terminal, api: FakeApi) -> None:
    """What can be read as JSON is, the rest is text."""
    taskflow(
        "python", "pkg.mod:fn", "--arg", "1", "--arg", '"1"', "--arg", "one", "--arg", "NaN", "--kwarg", "a=[1, null]",
        "-k", "b=x=y", "-k", "c=",
    )  # fmt: skip

    assert api.asked[0].body == {
        "type": "python",
        "callable": "pkg.mod:fn",
        "args": [1, "1", "one", "NaN"],
        "kwargs": {"a": [1, None], "b": "x=y", "c": ""},
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["submit"], "Missing argument"),
        (["submit", "--timeout", "soon", "true"], "'soon' is no duration"),
        (["submit", "--timeout", "-1", "true"], "'-1' is no duration"),
        (["submit", "--timeout", "nan", "true"], "'nan' is no duration"),
        (["submit", "--at", "tomorrow", "true"], "'tomorrow' is no time"),
        (["submit", "--delay", "1", "--at", "2030-01-01", "true"], "give --delay or --at, not both"),
        (["submit", "-e", "=1", "true"], "gives no variable"),
        (["submit", "-e", "SET_NOWHERE", "true"], "SET_NOWHERE is not set here"),
        (["python", "a:b", "-k", "novalue"], "gives no argument"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(
    taskflow: Terminal, api: FakeApi, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    """Status 2, a word on what is meant, and nothing is sent."""
    monkeypatch.setenv("COLUMNS", "200")
    done = taskflow(*arguments)

    assert done.status == 2
    assert said in done.err
    assert api.asked == []


def test_help_tells_the_default_of_retries(taskflow: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a command that fails may otherwise be run four times, to somebody's surprise."""
    monkeypatch.setenv("COLUMNS", "200")

    assert "[3, or 0 with --wait]" in taskflow("submit", "--help").out


@pytest.mark.parametrize("arguments", [["x"], ["--key", "k", "x"]])
def test_a_job_is_handed_in_once_though_the_answer_was_lost(
    taskflow: Terminal, api: FakeApi, arguments: list[str]
) -> None:
    """It is sent again with the same key, be it the user's or one of the command's own."""
    api["POST /jobs"] = [Reply(201, text="", headers={"Content-Length": "10"}), CREATED]

    done = taskflow("submit", *arguments)

    assert done == (0, "j\n", "")
    keys = [asked.headers.get("idempotency-key", asked.body.get("idempotency_key")) for asked in api.asked]
    assert len(keys) == 2
    assert keys[0] == keys[1] == ("k" if "k" in arguments else keys[0])
    assert keys[0]


def test_json_is_the_answer_of_the_api(taskflow: Terminal) -> None:
    """One document on stdout."""
    done = taskflow("submit", "--json", "true")

    assert (done.status, json.loads(done.out)) == (0, {"id": "j"})


@pytest.mark.parametrize(
    ("how", "status"),
    [
        (end("succeeded", {"exit_code": 0, "output": None}), 0),
        (end("failed", {"exit_code": 3, "output": None}, "exit code 3"), 3),
        (end("failed", {"exit_code": -9}, "killed"), 137),
        (end("failed", {"exit_code": 0}, "lost"), 1),
        (end("failed", None, "ValueError: x"), 1),
        (end("failed", 7, None), 1),
        (end("expired"), 1),
        (end("canceled"), 130),
    ],
)
def test_waiting_ends_as_the_job_did(taskflow: Terminal, api: FakeApi, how: str, status: int) -> None:
    """Its exit code is the command's."""
    api[STREAM] = stream(how)

    assert taskflow("submit", "--wait", "x").status == status


def test_waiting_shows_each_stream_as_it_is(taskflow: Terminal, api: FakeApi) -> None:
    """Nothing is added to stdout, and no character is taken for the end of a line that is none."""
    text = "a\x1b[31m\u2028\x85\r\n no end"
    api[STREAM] = stream(log("1-0", text), ": keep-alive\n\n", log("2-0", "oops", "stderr"), end("succeeded"))

    done = taskflow("submit", "--wait", "x")

    assert done.out == text
    assert done.err == "Job j\noops\nSucceeded.\n"


def test_a_new_attempt_is_told(taskflow: Terminal, api: FakeApi) -> None:
    """On stderr, so that output that comes again is no riddle."""
    api[STREAM] = stream(
        log("1-0", "a\n"), log("2-0", "a\n", attempt=2), log("3-0", "b\n", attempt=2), end("succeeded")
    )

    done = taskflow("submit", "--wait", "x")

    assert done == (0, "a\na\nb\n", "Job j\nAttempt 2\nSucceeded.\n")


@pytest.mark.parametrize(
    ("arguments", "retries"),
    [
        ([], None),
        (["--wait"], 0),
        (["--wait", "--retries", "2"], 2),
        (["--wait", "--key", "k"], None),  # else it were another job than without --wait
    ],
)
def test_what_is_waited_for_runs_once_unless_told_otherwise(
    taskflow: Terminal, api: FakeApi, arguments: list[str], retries: int | None
) -> None:
    """As if it ran here."""
    api[STREAM] = stream(end("failed", {"exit_code": 3}, "ExitCode: it exited with 3"))

    taskflow("submit", *arguments, "x")

    assert api.asked[0].body.get("retries_max") == retries


def test_a_retry_is_told_also_when_there_is_no_output(taskflow: Terminal, api: FakeApi) -> None:
    """With its reason and its time while it is waited for, and what came in between looks at the end."""
    at, due = "2026-01-02T03:04:05.000Z", "2026-01-02T03:04:06.000Z"
    retries = [{"type": "job.retrying", "attempt": n, "at": at, "due_at": due, "error": "ExitCode"} for n in (1, 2)]
    error = {"class": "ExitCode", "message": "it exited with 3", "traceback": None}
    api["GET /api/v1/jobs/j"] = Reply(json={"attempt_count": 1, "error": error, "retry_policy": {"max_attempts": 4}})
    told = threading.Event()
    asked: list[int] = []

    def events(_: object) -> Reply:
        asked.append(1)
        if len(asked) > 1:
            told.set()
        return Reply(json={"items": [] if not told.is_set() else retries[:1] if len(asked) == 2 else retries})

    def pieces() -> Iterator[bytes]:
        assert told.wait(30)
        yield end("failed", {"exit_code": 3}, "ExitCode: it exited with 3").encode()

    api["GET /api/v1/jobs/j/events"] = events
    api[STREAM] = Reply(pieces=pieces())

    done = taskflow("submit", "--wait", "--retries", "3", "x")

    assert (done.status, done.out) == (3, "")
    assert done.err.splitlines() == [
        "Job j",
        "Attempt 1 failed: it exited with 3; attempt 2 of 4 in 1 s",
        "Attempt 2 failed: ExitCode; attempt 3 of 4",
        "Failed: ExitCode: it exited with 3",
    ]


def test_messages_may_come_in_any_pieces(taskflow: Terminal, api: FakeApi) -> None:
    """The network cuts where it likes, also inside a character."""
    whole = (log("1-0", "äöü\n") + log("2-0", "€\n") + end("succeeded")).encode().replace(b"\\u20ac", "€".encode())
    api[STREAM] = stream(*(whole[i : i + 1] for i in range(len(whole))))

    assert taskflow("submit", "--wait", "x").out == "äöü\n€\n"


def test_a_broken_connection_goes_on_where_it_was(taskflow: Terminal, api: FakeApi) -> None:
    """Nothing is shown twice, nothing is left out, and an api that restarts is waited for."""
    busy = Reply(503, {"error": {"code": "UNAVAILABLE", "message": "The broker is away.", "details": []}})
    api[STREAM] = [
        stream(log("1-0", "one\n"), log("2-0", "two\n"), 'id: 3-0\nevent: log\ndata: {"te'),
        busy,
        stream(log("3-0", "three\n"), end("succeeded")),
    ]

    done = taskflow("submit", "--wait", "x")

    assert (done.status, done.out) == (0, "one\ntwo\nthree\n")
    resumed = [asked.headers.get("last-event-id") for asked in api.asked if asked.path.endswith("stream")]
    assert resumed == [None, "2-0", "2-0"]


def test_a_result_is_told_at_the_end(taskflow: Terminal, api: FakeApi) -> None:
    """On stderr for people; `--json` makes it the one document on stdout, and the output goes to stderr."""
    api[STREAM] = [stream(log("1-0", "hi\n"), end("succeeded", {"a": 1})) for _ in range(2)]

    person, program = taskflow("python", "a:b", "--wait"), taskflow("python", "a:b", "--wait", "--json")

    assert (person.out, person.err) == ("hi\n", 'Job j\nhi\nSucceeded and returned {"a": 1}\n'.replace("hi\n", ""))
    assert json.loads(program.out)["result"] == {"a": 1}
    assert "hi\n" in program.err


def test_an_id_that_vanished_is_told(taskflow: Terminal) -> None:
    """A job that was deleted while it was waited for is no reason to wait on."""
    done = taskflow("submit", "--wait", "x")

    assert done.status == 1
    assert "There is no /jobs/j/logs/stream." in done.err


def waiting(api: FakeApi) -> subprocess.Popen[bytes]:
    """A `--wait` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "taskflow", "submit", "--api", api.url, "--wait", "sleep 100"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def read_line(pipe: Any) -> bytes:
    """One line of the process."""
    line: bytes = pipe.readline()
    return line


def test_a_reader_that_leaves_ends_the_waiting(api: FakeApi) -> None:
    """`taskflow submit --wait … | head -1` ends as SIGPIPE would end it, without a traceback."""

    def pieces() -> Iterator[bytes]:
        for number in range(1, 2000):
            yield log(f"{number}-0", "x" * 1000 + "\n").encode()

    api[STREAM] = Reply(pieces=pieces())
    process = waiting(api)
    read_line(process.stdout)
    assert process.stdout is not None
    process.stdout.close()

    assert process.stderr is not None
    assert process.stderr.read() == b"Job j\n"
    assert process.wait(30) == 141


def test_ctrl_c_cancels_and_waits_for_the_end(api: FakeApi) -> None:
    """The stream goes on, so that the job's last words are seen."""
    canceled = threading.Event()

    def cancel(_: object) -> Reply:
        canceled.set()
        return Reply(200, {"id": "j", "status": "running"})

    def pieces() -> Iterator[bytes]:
        yield log("1-0", "begun\n").encode()
        assert canceled.wait(30)
        yield log("2-0", "last words\n").encode()
        yield end("canceled").encode()

    api["POST /jobs/j/cancel"] = cancel
    api[STREAM] = Reply(pieces=pieces())
    process = waiting(api)
    assert read_line(process.stdout) == b"begun\n"

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)

    assert (process.returncode, out) == (130, b"last words\n")
    assert b"Canceling the job" in err
    assert err.endswith(b"Canceled.\n")


def test_a_second_ctrl_c_leaves_the_job_alone(api: FakeApi) -> None:
    """Whoever does not want to wait for the end need not."""
    canceled, over = threading.Event(), threading.Event()

    def cancel(_: object) -> Reply:
        canceled.set()
        return Reply(200, {"id": "j", "status": "running"})

    def pieces() -> Iterator[bytes]:
        yield log("1-0", "begun\n").encode()
        over.wait(30)

    api["POST /jobs/j/cancel"] = cancel
    api[STREAM] = Reply(pieces=pieces())
    process = waiting(api)
    assert read_line(process.stdout) == b"begun\n"

    process.send_signal(signal.SIGINT)
    assert canceled.wait(30)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    over.set()

    assert process.returncode == 130
    assert b"Left to itself; see how it ends with: taskflow jobs show j" in err
