"""How the command line finds the api, and what it says when that does not answer as it should."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskflow.commands.http import Api
from taskflow.commands.options import duration_s
from taskflow.commands.render import age, span
from taskflow.commands.where import DEFAULT_URL, find_api
from taskflow.supervisor.claim import Claim, Running
from tests.support.commanding import Terminal
from tests.support.fake_api import FakeApi, Reply


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, and an environment that names no api."""
    for name in ("TASKFLOW_API_URL", "TASKFLOW_API_TOKEN", "TASKFLOW_DATA_DIR", "TASKFLOW_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def taskflow(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Terminal:
    """The command."""
    return Terminal(monkeypatch, capfd)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """An api that has nothing yet."""
    with FakeApi() as fake:
        yield fake


def test_what_is_told_comes_before_what_is_found(directory: Path) -> None:
    """The option or the environment, then `.env`, then the stack of this directory, then the default."""
    assert find_api(None, None) == (DEFAULT_URL, None)

    with Claim(directory / ".taskflow") as claim:
        claim.publish(Running(1, "http://127.0.0.1:4711", "unix:///x", ready=True, health_urls={}))
        assert find_api(None, None) == ("http://127.0.0.1:4711", None)

        (directory / "taskflow.yaml").write_text("api_token: from-yaml\n")
        assert find_api(None, None) == ("http://127.0.0.1:4711", "from-yaml")

        (directory / ".env").write_text("TASKFLOW_API_URL=http://env/\nTASKFLOW_API_TOKEN=from-env\n")
        assert find_api(None, None) == ("http://env", "from-env")
        assert find_api("http://told", "told") == ("http://told", "told")


def test_the_token_is_sent(taskflow: Terminal, api: FakeApi) -> None:
    """From the option or the environment."""
    api["GET /api/v1/queues"] = Reply(json={"items": []})

    taskflow("queues", "ls", "--api", api.url, "--token", "s3cret")

    assert api.asked[0].headers["authorization"] == "Bearer s3cret"


def test_nobody_at_home_is_told_with_what_to_do(taskflow: Terminal) -> None:
    """One sentence, no traceback."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        done = taskflow("jobs", "ls", "--api", url)

    assert done == (
        1,
        "",
        f"taskflow: Nothing answers at {url}; start it with `taskflow up`, or name another with --api.\n",
    )


def error(code: str, message: str, *details: tuple[str, str]) -> dict[str, object]:
    """The envelope of a refusal."""
    faults = [{"field": field, "message": text} for field, text in details]
    return {"error": {"code": code, "message": message, "details": faults}}


@pytest.mark.parametrize(
    ("reply", "token", "said"),
    [
        (Reply(401, error("UNAUTHORIZED", "x")), "", "asks for a token; give it with --token, or set TASKFLOW_API_T"),
        (Reply(401, error("UNAUTHORIZED", "x")), "t", "refused the token; give another with --token."),
        (Reply(404, error("NOT_FOUND", "There is no job.")), "", "taskflow: There is no job.\n"),
        (Reply(409, error("CONFLICT", "It has ended.")), "", "taskflow: It has ended.\n"),
        (Reply(400, error("VALIDATION_ERROR", "cmd: is bad", ("cmd", "is bad"))), "", "taskflow: cmd: is bad.\n"),
        (
            Reply(400, error("VALIDATION_ERROR", "cmd: bad (and 1 more)", ("cmd", "bad"), ("queue", "too long"))),
            "",
            "taskflow: cmd: bad; queue: too long.\n",
        ),
        (
            Reply(503, error("UNAVAILABLE", "The broker is away."), headers={"Retry-After": "5"}),
            "",
            "taskflow: The broker is away; try again in 5 s.\n",
        ),
        (Reply(200, text="<html>"), "", "is no TaskFlow api; name another with --api."),
        (Reply(200, json=[]), "", "is no TaskFlow api; name another with --api."),
        (Reply(502, text="Bad gateway"), "", "is no TaskFlow api (status 502); name another with --api."),
        (Reply(500, json={"error": "boom"}), "", "is no TaskFlow api (status 500)"),
    ],
)  # fmt: skip
def test_every_refusal_is_one_sentence(taskflow: Terminal, api: FakeApi, reply: Reply, token: str, said: str) -> None:
    """Status 1, and what the api said if it said something."""
    api["POST /jobs"] = reply

    done = taskflow("submit", "--api", api.url, *(["--token", token] if token else []), "true")

    assert (done.status, done.out) == (1, "")
    assert said in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "url", ["ftp://x", "localhost:8000", "http://:80", "http://x:port", "http://[::1", "http://x:0"]
)
def test_an_address_that_is_none_is_told(taskflow: Terminal, url: str) -> None:
    """With an example of one."""
    done = taskflow("jobs", "ls", "--api", url)

    assert done.status == 1
    assert done.err == f"taskflow: {url!r} is no address of an api; write it like http://127.0.0.1:8000.\n"


@pytest.mark.parametrize("token", ["a\nb", "tökèn€"])
def test_a_token_that_cannot_be_sent_is_told(taskflow: Terminal, api: FakeApi, token: str) -> None:
    """Not with a traceback of the library below."""
    done = taskflow("jobs", "ls", "--api", api.url, "--token", token)

    assert done.status == 1
    assert "The token has characters that no token can have" in done.err
    assert done.err.count("\n") == 1


def test_a_proxy_is_not_asked_for_this_machine(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not reach it."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    api["GET /x"] = Reply(json={})

    with Api(api.url) as http:
        assert http.get("/x") == {}


def test_a_reader_that_leaves_is_no_failure_to_speak_of(api: FakeApi) -> None:
    """`taskflow … | head` ends without a word, with the status of SIGPIPE."""
    api["GET /api/v1/queues"] = Reply(json={"items": [{"n": "x" * 1000}] * 1000})
    process = subprocess.Popen(
        [sys.executable, "-m", "taskflow", "queues", "ls", "--json", "--api", api.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    assert process.stdout is not None
    os.read(process.stdout.fileno(), 1)
    process.stdout.close()

    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(30) == 141


def test_completion_is_offered(taskflow: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell asks, and gets the commands of a group."""
    monkeypatch.setenv("_TASKFLOW_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "taskflow jobs ")
    monkeypatch.setenv("COMP_CWORD", "2")

    assert taskflow().out.split() == ["ls", "show", "logs", "cancel", "retry"]


def test_help_names_all_groups(taskflow: Terminal) -> None:
    """In panels, with what stands in brackets still there."""
    told = taskflow("--help").out

    for name in ("submit", "python", "jobs", "queues", "workers", "up", "worker"):
        assert f" {name} " in told
    assert "[auto]" in taskflow("up", "--help").out
    assert "[all]" in taskflow("worker", "--help").out


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5", 1.5), ("250ms", 0.25), ("5m", 300), ("1h30m", 5400), ("2d", 172800)]
)
def test_durations_have_units(text: str, seconds: float) -> None:
    """Seconds unless one is named."""
    assert duration_s(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.0424, "42 ms"), (0.9996, "0 s"), (59.9, "59 s"), (61, "1 min"), (7200, "2 h"), (1e6, "11 d")],
)
def test_spans_have_one_unit(seconds: float, text: str) -> None:
    """The largest that fits."""
    assert span(seconds) == text


def test_ages_look_back_and_ahead() -> None:
    """And a time that is not known is a dash."""
    from datetime import datetime

    now = datetime.fromisoformat("2026-01-02T03:04:05Z")
    assert age("2026-01-02T03:04:02.000Z", now) == "3 s ago"
    assert age("2026-01-02T04:04:06.000Z", now) == "in 1 h"
    assert age(None) == "–"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["jobs", "show"], "Missing argument 'ID'; see taskflow jobs show --help."),
        (["nonsense"], "No such command 'nonsense'; see taskflow --help."),
        (["queues", "weight", "q", "nan"], "nan is no weight"),
        (["python", "a:b", "--arg", "1e400"], "too large"),
        (["submit", "--timeout", "soon", "true"], "'soon' is no duration"),
        (["submit", "a\udcff"], "is no UTF-8 text"),
        (["jobs", "show", "\udcff"], "is no UTF-8 text"),
    ],
)
def test_a_call_that_is_not_understood_is_one_sentence(taskflow: Terminal, arguments: list[str], said: str) -> None:
    """It names what is wrong, and where to read on."""
    status, out, err = taskflow(*arguments)

    assert status in (1, 2)
    assert (out, err.count("\n")) == ("", 1)
    assert said in err
