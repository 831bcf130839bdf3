"""`taskflow jobs`, `queues` and `workers`: what they ask, and what they show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.commanding import Terminal, on_a_terminal
from tests.support.fake_api import FakeApi, Reply, end, log, stream

JOB: dict[str, Any] = {
    "id": "0197b2a4-0000-7000-8000-000000000001",
    "name": "hello [red]\x1b[2J",
    "queue": "general",
    "payload": {"cmd": "echo hi"},
    "priority": 5,
    "status": "RUNNING",
    "dependencies": [],
    "retry_policy": {"max_attempts": 3, "backoff_strategy": "FIXED", "base_delay_seconds": 1, "max_delay_seconds": 1},
    "created_at": "2026-01-02T03:04:05.678Z",
    "updated_at": "2026-01-02T03:04:05.678Z",
    "attempt_count": 1,
    "type": "shell",
    "task": None,
    "owner": None,
    "timeout_s": None,
    "scheduled_at": None,
    "expires_at": None,
    "started_at": "2026-01-02T03:04:06.000Z",
    "finished_at": None,
    "result": None,
    "error": None,
    "progress": {"fraction": 0.4, "message": "half-way"},
    "run_id": None,
    "retry_of": None,
    "worker": "w1",
}
ID = JOB["id"]
PATH = f"/api/v1/jobs/{ID}"
CONFLICT = Reply(409, {"error": {"code": "CONFLICT", "message": "It has ended.", "details": []}})


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """An api with one job."""
    with FakeApi() as fake:
        fake["GET /api/v1/jobs"] = Reply(json={"items": [JOB], "next_cursor": None, "has_more": False})
        fake[f"GET {PATH}"] = Reply(json=JOB)
        fake[f"GET {PATH}/explain"] = Reply(json={"id": ID, "status": "RUNNING", "message": "w1 runs it."})
        events = [{"id": "1-0", "type": "job.started", "at": JOB["started_at"], "from": "READY", "to": "RUNNING"}]
        fake[f"GET {PATH}/events"] = Reply(json={"items": events})
        fake[f"GET {PATH}/logs"] = lambda asked: Reply(json=page(asked.query.get("after")))
        yield fake


def page(after: str | None) -> dict[str, Any]:
    """Two pages of output: 15 lines, the last of them without an end, and one on stderr."""
    if after is None:
        return {"items": [{"stream": "stdout", "text": "".join(f"line {n}\n" for n in range(1, 13))}], "next": "1-0"}
    assert after == "1-0"
    pieces = [("stdout", "line "), ("stderr", "careful\n"), ("stdout", "13\nopen")]
    return {"items": [{"stream": name, "text": text} for name, text in pieces], "next": None}


@pytest.fixture
def taskflow(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Terminal:
    """The command, in an empty directory, with an api to talk to."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TASKFLOW_API_URL", api.url)
    return Terminal(monkeypatch, capfd)


def test_jobs_are_a_table_without_colours_in_a_pipe(taskflow: Terminal) -> None:
    """Whole lines, no escapes, and names that cannot command the terminal."""
    done = taskflow("jobs", "ls")

    head, row = done.out.splitlines()
    assert head.split() == ["ID", "STATUS", "QUEUE", "NAME", "CREATED", "TOOK", "PROGRESS"]
    assert row.startswith(f"{ID}  RUNNING  general  hello [red]\\x1b[2J  ")
    assert row.rstrip().endswith("━━━━────── 40% half-way")
    assert "\x1b" not in done.out


def test_a_terminal_gets_colours_unless_it_wants_none(api: FakeApi) -> None:
    """A status has its colour; NO_COLOR turns colours off."""
    assert "\x1b[36mRUNNING" in on_a_terminal(api.url, "jobs", "ls")
    assert "\x1b[36m" not in on_a_terminal(api.url, "jobs", "ls", NO_COLOR="1")


@pytest.mark.parametrize("columns", ["40", "80", "100"])
def test_ids_stay_whole_on_a_narrow_screen(api: FakeApi, columns: str) -> None:
    """They are there to be copied; the name gives way."""
    seen = on_a_terminal(api.url, "jobs", "ls", COLUMNS=columns, NO_COLOR="1")

    assert ID in seen
    assert "RUNNING" in seen
    assert "hello […" in seen


def test_events_stay_whole_on_a_narrow_screen(api: FakeApi) -> None:
    """Their lines go on in the next one; the facts are folded."""
    seen = on_a_terminal(api.url, "jobs", "show", ID, COLUMNS="40", NO_COLOR="1")

    assert "2026-01-02T03:04:06.000Z  started  RUNNING" in seen


def test_filters_arrive_and_pages_are_joined(taskflow: Terminal, api: FakeApi) -> None:
    """A status in any case; a limit beyond one page is filled from several."""
    api["GET /api/v1/jobs"] = [
        Reply(json={"items": [JOB] * 100, "next_cursor": "c", "has_more": True}),
        Reply(json={"items": [JOB] * 50, "next_cursor": "d", "has_more": True}),
    ]

    done = taskflow("jobs", "ls", "--status", "running", "-q", "general", "-n", "150", "--json")

    assert len(json.loads(done.out)) == 150
    assert [asked.query for asked in api.asked] == [
        {"limit": "100", "status": "RUNNING", "queue": "general"},
        {"limit": "50", "cursor": "c", "status": "RUNNING", "queue": "general"},
    ]


def test_no_jobs_is_no_table(taskflow: Terminal, api: FakeApi) -> None:
    """A person is told, a program gets an empty list."""
    api["GET /api/v1/jobs"] = Reply(json={"items": [], "next_cursor": None, "has_more": False})

    assert taskflow("jobs", "ls") == (0, "", "There are no jobs yet.\n")
    assert taskflow("jobs", "ls", "--json").out == "[]\n"


def test_a_job_is_shown_with_its_story(taskflow: Terminal) -> None:
    """Why it is where it is, how far, what happened, and the last ten lines of its output."""
    done = taskflow("jobs", "show", ID)

    assert "w1 runs it." in done.out
    assert "5 of 10, where 10 is the most urgent (submit -p 5)" in done.out
    assert "40% half-way" in done.out
    assert "started" in done.out
    assert "line 5\n" not in done.out
    assert "line 6\n" in done.out
    assert "careful\nline 13\nopen\n" in done.out
    assert "\x1b" not in done.out


def test_a_failed_job_shows_its_error(taskflow: Terminal, api: FakeApi) -> None:
    """With the traceback, and without asking why it does not run."""
    error = {"class": "ValueError", "message": "no", "traceback": "Traceback …\n  boom"}
    api[f"GET {PATH}"] = Reply(json=JOB | {"status": "FAILED", "finished_at": "2026-01-02T03:05:06Z", "error": error})

    done = taskflow("jobs", "show", ID)

    assert "\nValueError: no\nTraceback …\n  boom\n" in done.out
    assert "1 min" in done.out
    assert f"{PATH}/explain" not in [asked.path for asked in api.asked]


def test_show_as_json_is_the_job_and_more(taskflow: Terminal) -> None:
    """All fields of the api, and beside them what was asked for separately."""
    job = json.loads(taskflow("jobs", "show", ID, "--json").out)

    assert {name: job[name] for name in JOB} == JOB
    assert job["explanation"] == "w1 runs it."
    assert len(job["events"]) == 1
    assert len(job["last_output"]) == 10


def test_logs_go_where_they_came_from(taskflow: Terminal) -> None:
    """All pages, each stream to its own."""
    done = taskflow("jobs", "logs", ID)

    assert done.out.endswith("line 12\nline 13\nopen")
    assert done.err == "careful\n"


def test_logs_can_be_followed(taskflow: Terminal, api: FakeApi) -> None:
    """Until the job ends; how it ended is not the command's status, for it did what it was asked to."""
    api[f"GET {PATH}/logs/stream"] = stream(log("1-0", "a\n"), log("2-0", "b\n"), end("FAILED", None, None))

    assert taskflow("jobs", "logs", "-f", ID) == (0, "a\nb\n", "")


def test_a_cancel_says_whether_it_has_to_wait(taskflow: Terminal, api: FakeApi) -> None:
    """One refusal does not keep the others from being canceled, and all refusals are told."""
    api["POST /api/v1/jobs/a/cancel"] = Reply(json=JOB | {"id": "a", "status": "CANCELED"})
    api["POST /api/v1/jobs/b/cancel"] = CONFLICT
    api["POST /api/v1/jobs/c/cancel"] = Reply(json=JOB | {"id": "c"})

    done = taskflow("jobs", "cancel", "a", "b", "nope", "c")

    assert done.status == 1
    assert done.out == "a is canceled\nc is being stopped\n"
    assert done.err == "taskflow: It has ended.\ntaskflow: There is no /api/v1/jobs/nope/cancel.\n"


def test_a_retry_prints_the_new_id(taskflow: Terminal, api: FakeApi) -> None:
    """For the next command."""
    api[f"POST {PATH}/retry"] = Reply(201, JOB | {"id": "new", "retry_of": ID})

    assert taskflow("jobs", "retry", ID) == (0, "new\n", "")


def test_names_cannot_lead_elsewhere(taskflow: Terminal, api: FakeApi) -> None:
    """Whatever is given as an id is one part of the address."""
    taskflow("jobs", "logs", "../queues?x=1")

    assert [asked.path for asked in api.asked] == ["/api/v1/jobs/%2E%2E%2Fqueues%3Fx%3D1/logs"]


QUEUE = {"name": "q", "waiting": 3, "running": 1, "paused": True, "max_concurrent": 4, "weight": 2.5, "reason": "why"}


def test_queues_are_listed(taskflow: Terminal, api: FakeApi) -> None:
    """With what waits, what runs and how they are set."""
    api["GET /api/v1/queues"] = Reply(json={"items": [QUEUE, QUEUE | {"paused": False, "max_concurrent": None}]})

    _, paused, open_ = taskflow("queues", "ls").out.splitlines()

    assert paused.split() == ["q", "3", "1", "4", "2.5", "paused:", "why"]
    assert open_.split() == ["q", "3", "1", "none", "2.5", "open"]


@pytest.mark.parametrize(
    ("arguments", "body", "said"),
    [
        (["pause", "q"], {"paused": True}, "q is paused; jobs that run go on.\n"),
        (["pause", "q", "--reason", "r"], {"paused": True, "reason": "r"}, "q is paused; jobs that run go on.\n"),
        (["resume", "q"], {"paused": False}, "q is open.\n"),
        (["limit", "q", "5"], {"max_concurrent": 5}, "q runs at most 5 at a time.\n"),
        (["limit", "q", "none"], {"max_concurrent": None}, "q has no limit.\n"),
        (["weight", "q", "3"], {"weight": 3}, "q has the weight 3.\n"),
    ],
)
def test_queues_are_set(taskflow: Terminal, api: FakeApi, arguments: list[str], body: object, said: str) -> None:
    """One setting at a time; the others stay."""
    api["PATCH /api/v1/queues/q"] = Reply(json=QUEUE)

    assert taskflow("queues", *arguments) == (0, said, "")
    assert api.asked[0].body == body


@pytest.mark.parametrize("word", ["0", "many", "1.5", "٣"])
def test_a_limit_is_a_number_or_none(taskflow: Terminal, api: FakeApi, word: str) -> None:
    """Anything else is a usage error, and is not sent."""
    assert taskflow("queues", "limit", "q", word).status == 2
    assert api.asked == []


def test_workers_are_listed_and_drained(taskflow: Terminal, api: FakeApi) -> None:
    """How busy they are, what they use, and whether they take new jobs; what is not known is a dash."""
    worker = {"id": "w", "name": "w", "queues": None, "concurrency": 4, "running": 2, "started_at": None,
              "last_heartbeat": "2026-01-02T03:04:05.678Z", "status": "online"}  # fmt: skip
    other = {"running": ["j"], "queues": ["a", "b"], "draining": True, "cpu_percent": 12.3, "memory_bytes": 3 << 20}
    api["GET /api/v1/workers"] = Reply(json={"items": [worker, worker | other]})
    api["POST /api/v1/workers/w/drain"] = api["POST /api/v1/workers/w/resume"] = Reply(json=worker)

    _, first, second = taskflow("workers", "ls").out.splitlines()
    drained, resumed = taskflow("workers", "drain", "w"), taskflow("workers", "resume", "w")

    assert first.split()[:8] == ["w", "online", "2", "of", "4", "–", "–", "all"]
    assert second.split()[:10] == ["w", "draining", "1", "of", "4", "12%", "3", "MiB", "a,", "b"]
    assert drained.out == "w takes no new jobs; what it runs goes on, and it stays until it is stopped or resumed.\n"
    assert resumed.out == "w takes jobs.\n"
