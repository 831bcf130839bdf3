"""`taskflow schedules`: what it asks, what it shows, and what it says when something is wrong."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from taskflow.commands import calendar
from taskflow.commands.template import aimed, told, with_rules
from tests.support.commanding import Terminal, on_a_terminal
from tests.support.fake_api import Asked, FakeApi, Reply, end, log, stream

ID = "0197b2a4-0000-7000-8000-000000000001"
JOB_ID = "0197b2a4-0000-7000-8000-000000000002"
NOW = datetime.fromisoformat("2026-11-18T20:00:00Z")
ROOT = "/api/v1/schedules"
NIGHTLY = f"{ROOT}/nightly"
SCHEDULE: dict[str, Any] = {
    "id": ID,
    "name": "nightly",
    "cron": "0 3 * * 1-5",
    "interval_s": None,
    "timezone": "Europe/Berlin",
    "start_at": None,
    "end_at": "9999-12-31T23:59:00.000Z",
    "jitter_s": 90.0,
    "overlap": "skip",
    "catchup_limit": 0,
    "catchup_window_s": 5400.0,
    "max_runs": 10,
    "owner": "ann",
    "job": {"type": "shell", "cmd": "./report.sh", "timeout_s": 60, "priority": -3},
    "status": "active",
    "message": "It fires next at 2026-11-19T03:00:00.000+01:00.",
    "paused": False,
    "reason": None,
    "next_at": "2026-11-19T02:00:00.000Z",
    "next_local": "2026-11-19T03:00:00.000+01:00",
    "last_at": "2026-11-18T02:00:00.000Z",
    "last_job_id": JOB_ID,
    "runs": 3,
    "waiting": 0,
    "created_at": "2026-01-02T03:04:05.678Z",
    "updated_at": "2026-11-18T02:00:00.010Z",
}
PAUSED = {
    "status": "paused",
    "paused": True,
    "reason": "a",
    "message": "Paused since 2026-11-18T19:00:00.000Z: a\x1b[2J\nb\u202e\x9b1m.",
    "next_at": None,
    "next_local": None,
}
FIRED = {
    "id": "1-0",
    "at": "2026-11-18T02:00:00.010Z",
    "what": "fired",
    "fire_at": "2026-11-18T02:00:00.000Z",
    "origin": "schedule",
    "why": None,
    "job_id": JOB_ID,
    "until": None,
    "count": 1,
    "message": f"Started job {JOB_ID}.",
}
SKIPPED = FIRED | {
    "id": "2-0",
    "what": "skipped",
    "fire_at": "2026-11-16T02:00:00.000Z",
    "until": "2026-11-17T02:00:00.000Z",
    "why": "paused",
    "count": 2,
    "job_id": None,
    "message": "Skipped; 2 times: the schedule was paused.",
}
MADE = FIRED | {"id": "0-1", "what": "created", "fire_at": None, "origin": None, "count": None, "message": "Created."}


def refusal(status: int, message: str) -> Reply:
    """How the api says no."""
    return Reply(status, {"error": {"code": "X", "message": message, "details": []}})


def upcoming(*locals_: str, jitter_s: int = 0) -> list[dict[str, str]]:
    """Times as a preview has them."""
    from datetime import UTC, timedelta

    found = []
    for local in locals_:
        at = datetime.fromisoformat(local).astimezone(UTC)
        due = at + timedelta(seconds=jitter_s)
        found.append({"at": spelled(at), "local": local, "due_at": spelled(due)})
    return found


def spelled(at: datetime) -> str:
    """A time as the api tells it."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """An api with one schedule, that takes others."""
    with FakeApi() as fake:
        fake[f"POST {ROOT}"] = Reply(201, SCHEDULE)
        fake[f"GET {ROOT}"] = Reply(json={"items": [SCHEDULE], "next_cursor": None, "has_more": False})
        fake[f"GET {NIGHTLY}"] = Reply(json=SCHEDULE)
        fake[f"PUT {ROOT}/{ID}"] = Reply(json=SCHEDULE)
        fake[f"GET {NIGHTLY}/preview"] = Reply(
            json={"timezone": "Europe/Berlin", "items": upcoming("2026-11-19T03:00:00.000+01:00", jitter_s=45)}
        )
        fake[f"GET {NIGHTLY}/history"] = Reply(json={"items": [FIRED, SKIPPED, MADE], "next_cursor": None})
        fake[f"GET /api/v1/jobs/{JOB_ID}"] = Reply(json={"id": JOB_ID, "status": "COMPLETED"})
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


def shown(what: RenderableType, width: int = 120) -> list[str]:
    """What a screen of this width would show, line by line."""
    file = StringIO()
    Console(file=file, width=width, highlight=False).print(what, crop=False)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def bare(seen: str) -> list[str]:
    """The lines on a screen, without what makes them bold."""
    return re.sub("\x1b\\[[0-9;]*m", "", seen).splitlines()


def sent(api: FakeApi, method: str) -> Asked:
    """The last request of this method."""
    return [asked for asked in api.asked if asked.method == method][-1]


@pytest.mark.parametrize(
    ("arguments", "job"),
    [
        (["--", "echo", "two words"], {"type": "shell", "cmd": "echo 'two words'"}),
        (["--", "date >> /tmp/x"], {"type": "shell", "cmd": "date >> /tmp/x"}),
        (["--", "ls", "--", "--every"], {"type": "shell", "cmd": "ls -- --every"}),
        (
            ["--python", "math:hypot", "-a", "3", "-k", "y=4"],
            {"type": "python", "callable": "math:hypot", "args": [3], "kwargs": {"y": 4}},
        ),
        (["--task", "send", "--payload", "[1]"], {"name": "send", "task": "send", "payload": [1], "queue": "default"}),
        (
            ["--task", "send", "-q", "mail", "-p", "0", "--retries", "4"],
            {"name": "send", "task": "send", "queue": "mail", "priority": 10, "retry_policy": {"max_attempts": 5}},
        ),
    ],
)
def test_what_runs_is_a_command_a_function_or_a_task(
    taskflow: Terminal, api: FakeApi, arguments: list[str], job: dict[str, Any]
) -> None:
    """Said as with `submit` and `python`; the id is all that is printed."""
    done = taskflow("schedules", "add", "nightly", "--every", "1h30m", *arguments)

    assert done == (0, f"{ID}\n", "")
    assert api.asked[0].body == {"name": "nightly", "interval_s": 5400, "job": job}
    assert api.asked[0].headers["idempotency-key"]


def test_every_option_arrives(taskflow: Terminal, api: FakeApi) -> None:
    """Each under the name that the api has for it."""
    taskflow(
        "schedules", "add", "nightly", "--cron", "0 3 * * *", "--tz", "Europe/Berlin", "--start",
        "2026-12-01T00:00+01:00", "--end", "2027-12-01T00:00Z", "--jitter", "5m", "--overlap", "buffer_one",
        "--catchup-limit", "2", "--catchup-window", "1d", "--max-runs", "7", "--owner", "ann", "--paused", "--reason",
        "not yet", "-q", "night", "-p", "-3", "--retries", "0", "--timeout", "1h", "--ttl", "2h", "-e", "A=1",
        "--cwd", "/tmp", "--", "true",
    )  # fmt: skip

    assert api.asked[0].body == {
        "name": "nightly",
        "cron": "0 3 * * *",
        "timezone": "Europe/Berlin",
        "start_at": "2026-11-30T23:00:00.000+00:00",
        "end_at": "2027-12-01T00:00:00.000+00:00",
        "jitter_s": 300,
        "overlap": "buffer_one",
        "catchup_limit": 2,
        "catchup_window_s": 86400,
        "max_runs": 7,
        "owner": "ann",
        "paused": True,
        "reason": "not yet",
        "job": {
            "type": "shell",
            "cmd": "true",
            "env": {"A": "1"},
            "cwd": "/tmp",
            "queue": "night",
            "priority": -3,
            "retries_max": 0,
            "timeout_s": 3600,
            "ttl_s": 7200,
        },
    }


def test_a_schedule_needs_no_name(taskflow: Terminal, api: FakeApi) -> None:
    """Words after -- are the command, also the first of them."""
    taskflow("schedules", "add", "--every", "10", "--", "echo", "hi")

    assert api.asked[0].body == {"interval_s": 10, "job": {"type": "shell", "cmd": "echo hi"}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "x", "--", "true"], "say when to run it: with --cron or --every"),
        (["add", "x", "--cron", "@daily", "--every", "1", "--", "true"], "one of them only"),
        (["add", "x", "--every", "5"], "say what to run: a command after --, or --python, or --task"),
        (["add", "x", "--every", "5", "--"], "say what to run"),
        (["add", "x", "--every", "5", "echo", "hi"], "put -- before the command, as in: -- echo hi"),
        (["add", "--every", "soon", "--", "true"], "'soon' is no duration"),
        (["add", "--every", "none", "--", "true"], "'none' is no duration"),
        (["add", "--every", "5", "--max-runs", "few", "--", "true"], "'few' is no number of them"),
        (["add", "--every", "5", "--start", "soon", "--", "true"], "'soon' is no time"),
        (["add", "--every", "5", "--overlap", "maybe", "--", "true"], "'maybe' is not one of"),
        (["add", "--every", "5", "--reason", "x", "--", "true"], "--reason goes with --paused"),
        (["add", "--every", "5", "--python", "a:b", "--", "true"], "one of them only"),
        (["add", "--every", "5", "--payload", "1", "--", "true"], "--payload goes with --task"),
        (["add", "--every", "5", "--arg", "1", "--", "true"], "--arg and --kwarg go with --python"),
        (["add", "--every", "5", "--env", "A=1", "--task", "t"], "--env and --cwd go with a command"),
        (["add", "--every", "5", "--task", "t", "--payload", "{"], "'{' is no JSON"),
        (["add", "--every", "5", "--task", "t", "-p", "10"], "--priority is from 0"),
        (["set", "nightly"], "say what to change"),
        (["set", "nightly", "--cron", "@daily", "--every", "1"], "not both"),
        (["set", "", "--owner", "x"], "a schedule has a name"),
        (["preview"], "give the name of a schedule, --cron or --every"),
        (["preview", "nightly", "--cron", "@daily"], "one of them only"),
        (["preview", "nightly", "--tz", "UTC"], "a schedule has its own zone"),
        (["backfill", "nightly", "--from", "2026-01-01"], "Missing option '--to'"),
        (["show"], "Missing argument 'NAME'"),
    ],
)
def test_a_call_that_is_not_understood_is_one_sentence(
    taskflow: Terminal, api: FakeApi, arguments: list[str], said: str
) -> None:
    """Status 2, a word on what is meant, and nothing is changed."""
    done = taskflow("schedules", *arguments)

    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1
    assert [asked.method for asked in api.asked] == []


def test_a_name_that_is_taken_is_told_with_what_to_do(taskflow: Terminal, api: FakeApi) -> None:
    """It is changed with `set`."""
    api[f"POST {ROOT}"] = refusal(409, f"Schedule {ID} has the name nightly.")

    done = taskflow("schedules", "add", "nightly", "--every", "5", "--", "true")

    assert (done.status, done.out) == (1, "")
    assert done.err == (
        "taskflow: There is a schedule nightly already; change it with: taskflow schedules set nightly …\n"
    )


def test_another_conflict_is_told_as_it_is(taskflow: Terminal, api: FakeApi) -> None:
    """Such as that there are too many schedules."""
    api[f"POST {ROOT}"] = refusal(409, "There are 100,000 schedules, and no more can be; delete some.")

    done = taskflow("schedules", "add", "new", "--every", "5", "--", "true")

    assert done.err == "taskflow: There are 100,000 schedules, and no more can be; delete some.\n"


@pytest.mark.parametrize("command", [["add", "x"], ["set", "nightly"], ["preview"]])
def test_a_caret_points_to_what_is_wrong_in_an_expression(taskflow: Terminal, api: FakeApi, command: list[str]) -> None:
    """Below the sentence that says what is wrong."""
    for request in (f"POST {ROOT}", f"PUT {ROOT}/{ID}", f"GET {ROOT}/preview"):
        api[request] = refusal(400, "cron: '99' is no hour; it takes 0-23 (at character 3)")

    words = [] if command == ["preview"] else ["--", "true"]
    done = taskflow("schedules", *command, "--cron", "0 99 * * *", *words)

    assert done.status == 1
    assert done.err.splitlines() == [
        "taskflow: cron: '99' is no hour; it takes 0-23 (at character 3).",
        "  0 99 * * *",
        "    ^",
    ]


@pytest.mark.parametrize(
    ("expression", "position", "line", "column"),
    [
        ("0\t99 * * *", 3, "0 99 * * *", 2),
        ("\x1b[2J * *", 1, "\\x1b[2J * *", 0),
        ("\x1b[2J 9", 6, "\\x1b[2J 9", 8),
        ("日 x * * *", 3, "日 x * * *", 3),
        (f"{'1,' * 50}x * * * *", 101, f"…{('1,' * 50)[-35:]}x * * * *", 36),
        ("x" + " 1" * 50, 1, "x" + " 1" * 17 + "…", 0),
        ("", 1, None, 0),
        ("1", 999, "1", 0),
    ],
)
def test_the_caret_stands_below_the_character(
    taskflow: Terminal, api: FakeApi, expression: str, position: int, line: str | None, column: int
) -> None:
    """Also beside characters that are wide, or spelled out, and in a line that is longer than a screen."""
    api[f"GET {ROOT}/preview"] = refusal(400, f"cron: wrong (at character {position})")

    done = taskflow("schedules", "preview", "--cron", expression)

    caret = [] if line is None else [f"  {line}", f"  {' ' * column}^"]
    assert done.err.splitlines() == [f"taskflow: cron: wrong (at character {position}).", *caret]


def test_set_changes_what_is_said_and_no_more(taskflow: Terminal, api: FakeApi) -> None:
    """By the id, so that nothing is made by mistake; `none` is null."""
    done = taskflow(
        "schedules", "set", "nightly", "--cron", "@hourly", "--end", "none", "--jitter", "none", "--max-runs", "none",
        "--catchup-window", "none", "--owner", "none", "--name", "hourly", "--overlap", "allow",
    )  # fmt: skip

    assert done.status == 0
    assert done.out.startswith("nightly is changed.  It runs next on Thu 2026-11-19 03:00:00 +01:00, ")
    assert sent(api, "PUT").path == f"{ROOT}/{ID}"
    assert sent(api, "PUT").body == {
        "cron": "@hourly",
        "end_at": None,
        "jitter_s": None,
        "max_runs": None,
        "catchup_window_s": None,
        "owner": None,
        "name": "hourly",
        "overlap": "allow",
    }


@pytest.mark.parametrize(
    ("arguments", "job"),
    [
        (["--timeout", "5m"], {"type": "shell", "cmd": "./report.sh", "timeout_s": 300, "priority": -3}),
        (["--timeout", "none", "-p", "none"], {"type": "shell", "cmd": "./report.sh"}),
        (["--retries", "1"], SCHEDULE["job"] | {"retries_max": 1}),
        (["--", "./other.sh"], SCHEDULE["job"] | {"cmd": "./other.sh"}),
        (
            ["--task", "report"],
            {"name": "report", "task": "report", "queue": "default", "timeout_s": 60, "priority": 10},
        ),
    ],
)
def test_set_keeps_the_rest_of_the_job(
    taskflow: Terminal, api: FakeApi, arguments: list[str], job: dict[str, Any]
) -> None:
    """Rules stay when something else is run by them, and what is run stays when a rule changes."""
    assert taskflow("schedules", "set", "nightly", *arguments).status == 0

    assert sent(api, "PUT").body == {"job": job}


def test_set_pauses_and_resumes(taskflow: Terminal, api: FakeApi) -> None:
    """As `pause` and `resume` do, with the other changes."""
    taskflow("schedules", "set", "nightly", "--paused", "--reason", "the move")
    assert sent(api, "PUT").body == {"paused": True, "reason": "the move"}

    taskflow("schedules", "set", "nightly", "--resumed")
    assert sent(api, "PUT").body == {"paused": False}


def test_set_makes_nothing(taskflow: Terminal, api: FakeApi) -> None:
    """A name that nobody has is a mistake, also if all was said that a schedule needs."""
    done = taskflow("schedules", "set", "nigthly", "--every", "5", "--", "true")

    assert (done.status, done.err) == (1, f"taskflow: There is no {ROOT}/nigthly.\n")
    assert [asked.method for asked in api.asked] == ["GET"]


FORMS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (
        {"type": "http", "url": "x", "priority": 4, "retries_max": 2},
        {"type": "shell", "cmd": "y"},
        {"type": "shell", "cmd": "y", "priority": 4, "retries_max": 2},
    ),
    (
        {"name": "a", "queue": "q", "priority": 8, "retry_policy": {"max_attempts": 2, "base_delay_seconds": 9}},
        {"name": "b", "task": "b"},
        {"name": "b", "task": "b", "queue": "q", "priority": 8,
         "retry_policy": {"max_attempts": 2, "base_delay_seconds": 9}},
    ),
    (
        {"name": "a", "queue": "q", "priority": 8, "retry_policy": {"max_attempts": 2}, "ttl_s": 5},
        {"type": "shell", "cmd": "y"},
        {"type": "shell", "cmd": "y", "queue": "q", "priority": 2, "retries_max": 1, "ttl_s": 5},
    ),
    (
        {"type": "shell", "cmd": "y", "priority": 500, "retries_max": 0, "queue": "q", "owner": "ann"},
        {"name": "b", "task": "b"},
        {"name": "b", "task": "b", "queue": "q", "priority": 1, "retry_policy": {"max_attempts": 1}, "owner": "ann"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "made"), FORMS)
def test_another_target_runs_by_the_same_rules(old: dict[str, Any], new: dict[str, Any], made: dict[str, Any]) -> None:
    """Told as its form tells them; fields of the other executor stay behind."""
    assert aimed(old, new) == made


def test_a_rule_is_taken_back_alone() -> None:
    """A retry policy keeps its delays when the number of attempts is taken back; a null payload stays."""
    policy = {"max_attempts": 5, "base_delay_seconds": 9}
    job = {"name": "a", "queue": "q", "payload": None, "retry_policy": policy, "priority": 2}

    left = with_rules(job, {"retries": None, "priority": None, "queue": None})

    assert left == {"name": "a", "queue": "default", "payload": None, "retry_policy": {"base_delay_seconds": 9}}


@pytest.mark.parametrize(
    ("job", "words", "rest"),
    [
        ({"type": "shell", "cmd": "a\nb", "env": {"A": "ü"}, "ttl_s": 5.0}, "a\nb", 'env {"A": "ü"}, ttl_s 5'),
        ({"type": "python", "callable": "a:b", "args": [1, "x"], "kwargs": {"k": None}}, 'a:b(1, "x", k=null)', None),
        ({"type": "http", "url": "x"}, "http", 'url "x"'),
        ({"name": "n", "task": "t", "queue": "q", "payload": {"day": 1}}, 't {"day": 1}', None),
        ({"name": "n", "queue": "q", "payload": {}, "priority": 7}, "n", "-p 3"),
        (
            {"name": "n", "queue": "q", "type": "shell", "payload": {"cmd": "ls", "cwd": "/"}, "priority": 7},
            "ls",
            'cwd "/", -p 3',
        ),
    ],
)
def test_a_job_is_told_as_one_would_write_it(job: dict[str, Any], words: str, rest: str | None) -> None:
    """What it runs, and what else was said about it."""
    assert told(job) == (words, rest)


def test_schedules_are_listed(taskflow: Terminal, api: FakeApi) -> None:
    """Those without a name by their id; filters arrive, and pages are joined, also empty ones."""
    interval = SCHEDULE | {"name": None, "cron": None, "interval_s": 5400.5, "last_at": None} | PAUSED
    api[f"GET {ROOT}"] = [
        Reply(json={"items": [SCHEDULE], "next_cursor": "a", "has_more": True}),
        Reply(json={"items": [], "next_cursor": "b", "has_more": True}),
        Reply(json={"items": [interval], "next_cursor": None, "has_more": False}),
    ]

    done = taskflow("schedules", "ls", "--status", "ACTIVE", "--owner", "ann", "--name", "n")

    head, *rows = done.out.splitlines()
    assert head.split() == ["NAME", "STATUS", "WHEN", "NEXT", "RUNS", "LAST"]
    assert rows[0].startswith("nightly ")
    assert "0 3 * * 1-5 Europe/Berlin" in rows[0]
    assert rows[1].startswith(f"{ID}  paused  every 1 h 30 min 0.5 s ")
    assert [cell.strip() for cell in rows[1].split("  ") if cell.strip()][-3:] == ["–", "3", "–"]
    filters = {"status": "active", "owner": "ann", "name": "n"}
    assert [asked.query for asked in api.asked] == [
        {**filters, "limit": "100"},
        {**filters, "limit": "99", "cursor": "a"},
        {**filters, "limit": "99", "cursor": "b"},
    ]


def test_the_list_fits_a_narrow_screen_and_says_more_on_a_wide_one(api: FakeApi) -> None:
    """At 80 columns nothing is cut but a long expression; at 120 the next run has its time of day."""
    nameless = SCHEDULE | {"name": None}
    api[f"GET {ROOT}"] = Reply(json={"items": [SCHEDULE, nameless], "next_cursor": "more", "has_more": True})
    narrow = bare(on_a_terminal(api.url, "schedules", "ls", "-n", "2", COLUMNS="80"))
    wide = bare(on_a_terminal(api.url, "schedules", "ls", "-n", "2", COLUMNS="120"))

    assert all(len(line) <= 80 for line in narrow)
    assert narrow[2].startswith(f"{ID}  active  0 3 * * 1-5 ")
    assert "0 3 * * 1-5 Europe/Berlin" in wide[2]
    assert "2026-11-19 03:00" in wide[1] or "Thu 03:00" in wide[1]
    assert narrow[3] == "There are more; --limit 10 shows them."


def test_no_schedules_is_no_table(taskflow: Terminal, api: FakeApi) -> None:
    """A person is told, a program gets an empty list."""
    api[f"GET {ROOT}"] = Reply(json={"items": [], "next_cursor": None, "has_more": False})

    assert taskflow("schedules", "ls") == (0, "", "There are no schedules yet.\n")
    assert taskflow("schedules", "ls", "--owner", "x") == (0, "", "There are no such schedules.\n")
    assert json.loads(taskflow("schedules", "ls", "--json").out) == []


def test_a_schedule_is_shown_with_its_reasons(taskflow: Terminal) -> None:
    """What it runs and by which rules, its next runs, and what happened."""
    done = taskflow("schedules", "show", "nightly")

    facts = dict(line.split(None, 1) for line in done.out.split("\n\n")[0].splitlines())
    facts = {name: value.rstrip() for name, value in facts.items()}
    assert facts["why"] == SCHEDULE["message"]
    assert facts["when"] == "0 3 * * 1-5"
    assert facts["runs"] == "./report.sh"
    assert facts["rules"] == "timeout_s 60, priority -3"
    assert facts["jitter"] == "up to 1 min 30 s later"
    assert facts["overlap"] == "skip (a run that is due while another is active is skipped)"
    assert facts["catch-up"] == "none of those missed, none older than 1 h 30 min"
    assert facts["started"] == "3 of 10 times"
    assert facts["ends"].startswith("Fri 9999-12-31 23:59:00 Z")
    assert facts["last"].endswith(f"job {JOB_ID} COMPLETED")
    assert "Thu 2026-11-19 03:00 +01:00" in done.out
    assert "Skipped; 2 times: the schedule was paused." in done.out


def test_a_schedule_whose_last_job_is_forgotten_is_shown(taskflow: Terminal, api: FakeApi) -> None:
    """And one that has run nothing yet."""
    del api.answers[f"GET /api/v1/jobs/{JOB_ID}"]
    assert f"job {JOB_ID}\n" in taskflow("schedules", "show", "nightly").out.replace(" \n", "\n")

    api[f"GET {NIGHTLY}"] = Reply(json=SCHEDULE | {"last_at": None, "last_job_id": None, "max_runs": None, "runs": 0})
    shown_ = taskflow("schedules", "show", "nightly").out
    assert "started   0 times" in shown_
    assert JOB_ID not in shown_.split("Next runs")[0]


def test_the_next_runs_are_by_both_clocks_and_mark_a_change() -> None:
    """On the day when clocks go forward, and on the one when they go back; nothing else is marked."""
    spring = upcoming("2027-03-27T02:30:00.000+01:00", "2027-03-28T03:00:00.000+02:00", "2027-03-29T02:30:00.000+02:00")
    autumn = upcoming("2026-10-25T02:30:00.000+02:00", "2026-10-26T02:30:00.000+01:00")

    assert shown(calendar.runs(spring, "Europe/Berlin", NOW), 80) == [
        "LOCAL (Europe/Berlin)        UTC                DUE",
        "Sat 2027-03-27 02:30 +01:00  2027-03-27 01:30Z  in 128 d",
        "Sun 2027-03-28 03:00 +02:00  2027-03-28 01:00Z  in 129 d  clocks +1 h",
        "Mon 2027-03-29 02:30 +02:00  2027-03-29 00:30Z  in 130 d",
    ]
    assert shown(calendar.runs(autumn, "Europe/Berlin", NOW), 80)[2].endswith("clocks -1 h")


def test_the_next_runs_show_seconds_and_jitter_where_there_are_any() -> None:
    """And one column of times where local is UTC."""
    utc = upcoming("2026-11-18T20:00:10.000+00:00", "2026-11-18T23:59:59.000+00:00", jitter_s=2)

    assert shown(calendar.runs(utc, "UTC", NOW), 80) == [
        "UTC                        JITTER  DUE",
        "Wed 2026-11-18 20:00:10 Z  +2 s    in 12 s",
        "Wed 2026-11-18 23:59:59 Z  +2 s    in 4 h",
    ]


def test_a_preview_is_of_a_schedule_or_of_what_could_be_one(taskflow: Terminal, api: FakeApi) -> None:
    """What was asked for arrives; none at all is told."""
    api[f"GET {ROOT}/preview"] = Reply(json={"timezone": "UTC", "items": []})

    done = taskflow(
        "schedules", "preview", "--cron", "0 3 1 1 *", "--tz", "Asia/Tokyo", "-n", "3", "--from", "2026-01-01T00:00Z"
    )
    assert done == (0, "", "There are no further runs.\n")
    assert api.asked[0].query == {
        "cron": "0 3 1 1 *", "timezone": "Asia/Tokyo", "n": "3", "from": "2026-01-01T00:00:00.000+00:00",
    }  # fmt: skip
    taskflow("schedules", "preview", "--every", "90")
    assert api.asked[1].query == {"interval_s": "90.0", "n": "10"}

    assert "Thu 2026-11-19 03:00 +01:00  2026-11-19 02:00Z  +45 s" in taskflow("schedules", "preview", "nightly").out
    assert api.asked[2].path == f"{NIGHTLY}/preview"
    assert json.loads(taskflow("schedules", "preview", "nightly", "--json").out)["timezone"] == "Europe/Berlin"


def test_the_history_is_by_the_clocks_of_the_schedule() -> None:
    """Days that are known already are not said again; a span has both ends."""
    long_ago = FIRED | {"fire_at": "2025-11-18T02:00:00.000Z", "message": "Long ago."}
    assert shown(calendar.story([FIRED, SKIPPED, MADE, long_ago], "Europe/Berlin")) == [
        "AT (Europe/Berlin)   FOR                  WHAT",
        f"2026-11-18 03:00:00  03:00:00             Started job {JOB_ID}.",
        "2026-11-18 03:00:00  11-16 03:00:00       Skipped; 2 times: the schedule was paused.",
        "                     – 11-17 03:00:00",
        "2026-11-18 03:00:00  –                    Created.",
        "2026-11-18 03:00:00  2025-11-18 03:00:00  Long ago.",
    ]


def test_the_history_stays_whole_on_a_narrow_screen(api: FakeApi) -> None:
    """Sentences go on in the next line, below themselves; ids of jobs are not broken."""
    seen = bare(on_a_terminal(api.url, "schedules", "history", "nightly", COLUMNS="80"))

    assert all(len(line) <= 80 for line in seen)
    assert JOB_ID in "\n".join(seen)


def test_a_history_goes_on_over_pages(taskflow: Terminal, api: FakeApi) -> None:
    """As far as was asked for; one of which nothing is remembered is told."""
    api[f"GET {NIGHTLY}/history"] = [
        Reply(json={"items": [FIRED, SKIPPED], "next_cursor": "c"}),
        Reply(json={"items": [MADE], "next_cursor": None}),
        Reply(json={"items": [], "next_cursor": None}),
    ]

    assert json.loads(taskflow("schedules", "history", "nightly", "-n", "3", "--json").out) == [FIRED, SKIPPED, MADE]
    assert [asked.query for asked in api.asked] == [{"limit": "3"}, {"limit": "1", "cursor": "c"}]
    assert taskflow("schedules", "history", "nightly").err == "taskflow: Nothing is remembered of nightly.\n"


def test_pause_and_resume_say_how_it_is_now(taskflow: Terminal, api: FakeApi) -> None:
    """Why it rests, and when it goes on."""
    api[f"POST {NIGHTLY}/pause"] = Reply(json=SCHEDULE | PAUSED | {"message": "Paused since x: the move."})
    api[f"POST {NIGHTLY}/resume"] = Reply(json=SCHEDULE)

    done = taskflow("schedules", "pause", "nightly", "--reason", "the move")
    assert done == (0, "nightly is paused.  Paused since x: the move.\n", "")
    assert api.asked[0].body == {"reason": "the move"}

    assert taskflow("schedules", "resume", "nightly").out.startswith("nightly is active.  It runs next on Thu 2026-11-")


def test_a_trigger_prints_the_id_of_the_job(taskflow: Terminal, api: FakeApi) -> None:
    """It is sent with a key, so that a lost answer does not run it twice; a refusal says why."""
    triggered = {"outcome": "fired", "job_id": JOB_ID, "fire_at": "2026-11-18T20:00:00.000Z"}
    api[f"POST {NIGHTLY}/trigger"] = [
        Reply(json=triggered),
        Reply(json=triggered | {"outcome": "buffered"}),
        refusal(409, f"It did not run: a run was still active (job {JOB_ID})."),
    ]

    assert taskflow("schedules", "trigger", "nightly", "--overlap", "allow") == (0, f"{JOB_ID}\n", "")
    assert api.asked[0].body == {"overlap": "allow"}
    assert api.asked[0].headers["idempotency-key"]
    assert taskflow("schedules", "trigger", "nightly") == (0, f"{JOB_ID}\n", "It waits for the run before it to end.\n")
    done = taskflow("schedules", "trigger", "nightly")
    assert (done.status, done.err) == (1, f"taskflow: It did not run: a run was still active (job {JOB_ID}).\n")


def test_a_trigger_that_is_waited_for_ends_as_its_job(
    taskflow: Terminal, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that has to wait for the run before it."""
    monkeypatch.setattr("taskflow.commands.schedule_orders.LOOK_S", 0.001)
    api[f"POST {NIGHTLY}/trigger"] = Reply(json={"outcome": "buffered", "job_id": JOB_ID, "fire_at": "x"})
    api[f"GET {NIGHTLY}"] = Reply(json=SCHEDULE | {"waiting": 1})
    job = f"GET /api/v1/jobs/{JOB_ID}"
    api[job] = [refusal(404, "No."), refusal(404, "No."), *[Reply(json={"id": JOB_ID, "events": [], "items": []})] * 9]
    api[f"GET /jobs/{JOB_ID}/logs/stream"] = stream(log("1-0", "seen\n"), end("failed", {"exit_code": 3}, "exit 3"))

    done = taskflow("schedules", "trigger", "nightly", "--wait")

    assert (done.status, done.out) == (3, "seen\n")
    assert "It waits for the run before it to end; Ctrl-C leaves it to itself." in done.err


def test_a_trigger_that_is_passed_over_while_it_waits_is_told(taskflow: Terminal, api: FakeApi) -> None:
    """With where to see why, and not waited for without end."""
    path = f"{ROOT}/a%20b"
    api[f"POST {path}/trigger"] = Reply(json={"outcome": "buffered", "job_id": ID, "fire_at": "x"})
    api[f"GET {path}"] = Reply(json=SCHEDULE)

    done = taskflow("schedules", "trigger", "a b", "--wait")

    assert done.status == 1
    assert "It was passed over; see why with `taskflow schedules history 'a b'`." in done.err


@pytest.mark.parametrize(
    ("arguments", "body", "said"),
    [
        ([], {"rerun": False}, "3 times are made up for, at once; those that have run are left out."),
        (["--one-by-one", "--rerun"], {"rerun": True, "overlap": "buffer_all"}, "3 times are made up for, one after"),
        (["--at-once"], {"rerun": False, "overlap": "allow"}, "3 times are made up for, at once;"),
    ],
)
def test_a_backfill_says_what_it_will_run(
    taskflow: Terminal, api: FakeApi, arguments: list[str], body: dict[str, Any], said: str
) -> None:
    """How many times, and how."""

    def answer(asked: Asked) -> Reply:
        return Reply(json={"count": 3, "from": "x", "to": "y", "overlap": asked.body.get("overlap", "allow")})

    api[f"POST {NIGHTLY}/backfill"] = answer
    done = taskflow(
        "schedules", "backfill", "nightly", "--from", "2026-11-01T00:00Z", "--to", "2026-11-04T00:00Z", *arguments
    )

    span = {"from": "2026-11-01T00:00:00.000+00:00", "to": "2026-11-04T00:00:00.000+00:00"}
    assert api.asked[0].body == span | body
    assert said in done.out
    assert done.out.endswith("See them with: taskflow schedules history nightly\n")


def test_schedules_are_deleted_one_by_one(taskflow: Terminal, api: FakeApi) -> None:
    """One that is not there does not keep the others; it is the failure."""
    api[f"DELETE {NIGHTLY}"] = Reply(204, text="")
    api[f"DELETE {ROOT}/%2E%2E%2Fx"] = Reply(204, text="")

    done = taskflow("schedules", "rm", "nightly", "gone", "../x")

    assert (done.status, done.out) == (1, "nightly is deleted.\n../x is deleted.\n")
    assert done.err == f"taskflow: There is no {ROOT}/gone.\n"
    assert json.loads(taskflow("schedules", "rm", "nightly", "--json").out) == ["nightly"]


def test_a_person_is_asked_before_a_schedule_is_deleted(api: FakeApi) -> None:
    """Unless that was said already; what a name would do to the terminal is spelled out in the question too."""
    api[f"DELETE {ROOT}/a%1B%5B2J"] = Reply(204, text="")

    seen = on_a_terminal(api.url, "schedules", "rm", "a\x1b[2J", typed="y\n")
    assert "Delete a\\x1b[2J, with the history? [y/N]: " in seen
    assert seen.endswith("a\\x1b[2J is deleted.\r\n")
    assert "?" not in on_a_terminal(api.url, "schedules", "rm", "--yes", "a\x1b[2J")
    assert [asked.method for asked in api.asked] == ["DELETE"] * 2


def test_every_command_has_json(taskflow: Terminal, api: FakeApi) -> None:
    """One document, as the api gave it."""
    answered = {"outcome": "fired", "job_id": JOB_ID, "fire_at": "x", "overlap": "allow", "count": 1}
    for verb in ("trigger", "backfill"):
        api[f"POST {NIGHTLY}/{verb}"] = Reply(json=answered)
    for verb in ("pause", "resume"):
        api[f"POST {NIGHTLY}/{verb}"] = Reply(json=SCHEDULE)
    span = ["--from", "2026-11-01T00:00Z", "--to", "2026-11-04T00:00Z"]

    assert [
        json.loads(taskflow("schedules", *arguments, "--json").out)
        for arguments in (
            ["ls"], ["pause", "nightly"], ["resume", "nightly"], ["trigger", "nightly"], ["backfill", "nightly", *span],
            ["set", "nightly", "--every", "5"], ["add", "--every", "5", "--task", "t"],
        )
    ] == [[SCHEDULE], SCHEDULE, SCHEDULE, answered, answered, SCHEDULE, SCHEDULE]  # fmt: skip
    found = json.loads(taskflow("schedules", "show", "nightly", "--json").out)
    assert (found["name"], len(found["history"]), found["last_status"]) == ("nightly", 3, "COMPLETED")


HOSTILE = "a\x1b[2J\nb\u202e\x9b1m"
SPELLED = "a\\x1b[2J\\nb\\u202e\\x9b1m"


def test_what_others_wrote_cannot_command_the_terminal(taskflow: Terminal, api: FakeApi) -> None:
    """Names, owners, reasons, commands and expressions: escapes and turns of direction are spelled out."""
    hostile = SCHEDULE | PAUSED | {
        "name": HOSTILE, "owner": HOSTILE, "cron": "0\n3 * * *", "job": {"type": "shell", "cmd": HOSTILE},
    }  # fmt: skip
    api[f"GET {ROOT}"] = Reply(json={"items": [hostile], "next_cursor": None, "has_more": False})
    api[f"GET {NIGHTLY}"] = Reply(json=hostile)
    api[f"GET {NIGHTLY}/history"] = Reply(
        json={"items": [FIRED | {"message": f"Paused: {HOSTILE}."}], "next_cursor": None}
    )
    api[f"POST {NIGHTLY}/pause"] = Reply(json=hostile)

    listed, seen = taskflow("schedules", "ls").out, taskflow("schedules", "show", "nightly").out
    paused, told_ = taskflow("schedules", "pause", "nightly").out, taskflow("schedules", "history", "nightly").out

    as_json = taskflow("schedules", "show", "nightly", "--json").out
    assert json.loads(as_json)["name"] == HOSTILE
    for text in (listed, seen, paused, told_, as_json):
        assert not {char for char in text if not char.isprintable()} - {"\n"}
    assert listed.count("\n") == 2
    assert f"Paused since 2026-11-18T19:00:00.000Z: {SPELLED}" in seen
    assert f"name      {SPELLED}" in seen
    assert "when      0 3 * * *" in seen
    assert "Next runs, once it is resumed" in seen
    assert paused.count("\n") == 1
    assert f"Paused: {SPELLED}." in told_


def test_a_name_on_the_command_line_cannot_command_the_terminal_either(taskflow: Terminal, api: FakeApi) -> None:
    """It may have been copied from somewhere."""
    path = f"{ROOT}/a%1B%5B2J%0Ab%E2%80%AE%C2%9B1m"
    api[f"DELETE {path}"] = Reply(204, text="")
    api[f"POST {ROOT}"] = refusal(409, "Taken.")
    api[f"GET {path}"] = Reply(json=SCHEDULE)
    api[f"POST {path}/backfill"] = Reply(json={"count": 1, "overlap": "allow"})

    said = [
        taskflow("schedules", "rm", HOSTILE).out,
        taskflow("schedules", "add", HOSTILE, "--every", "5", "--", "true").err,
        taskflow("schedules", "backfill", HOSTILE, "--from", "2026-11-01T00:00Z", "--to", "2026-11-04T00:00Z").out,
    ]

    assert [text.count("\n") for text in said] == [1, 1, 1]
    assert not {char for text in said for char in text if not char.isprintable()} - {"\n"}


def test_a_terminal_is_told_when_it_runs_next(api: FakeApi) -> None:
    """Below the id, and not in the way of a program that reads it; one that rests says why."""
    arguments = ("schedules", "add", "nightly", "--every", "5", "--", "true")
    made, said = on_a_terminal(api.url, *arguments).splitlines()
    assert made == ID
    assert said.startswith("It runs next on Thu 2026-11-19 03:00:00 +01:00, ")

    api[f"POST {ROOT}"] = Reply(201, SCHEDULE | PAUSED)
    assert on_a_terminal(api.url, *arguments).splitlines()[1] == f"Paused since 2026-11-18T19:00:00.000Z: {SPELLED}."


@pytest.mark.parametrize(
    ("now", "away"),
    [
        ("2026-11-18T20:00:00Z", "in 6 h"),
        ("2026-11-19T01:59:59.5Z", "now"),
        ("2026-11-19T02:00:00.9Z", "now"),
        ("2026-11-19T02:05:00Z", "5 min ago"),
    ],
)
def test_the_next_run_is_a_sentence(now: str, away: str) -> None:
    """With the day, the clock, its offset, and how far away that is; one in the past is that of a cron that is away."""
    told_ = calendar.next_run(SCHEDULE, datetime.fromisoformat(now))

    assert told_ == f"It runs next on Thu 2026-11-19 03:00:00 +01:00, {away}."


@pytest.mark.parametrize("columns", [80, 120])
def test_every_help_fits_the_screen(taskflow: Terminal, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Examples stand on a line of their own, and are not broken."""
    monkeypatch.setenv("COLUMNS", str(columns))
    names = ("ls", "add", "show", "set", "pause", "resume", "trigger", "preview", "backfill", "history", "rm")
    group = taskflow("schedules", "--help").out

    for name in names:
        told_ = taskflow("schedules", name, "--help").out
        assert f"│ {name} " in group
        assert all(len(line) <= columns for line in told_.splitlines())
        assert "--json" in told_
    assert (
        ' taskflow schedules add nightly --cron "0 3 * * 1-5" -- ./report.sh '
        in taskflow("schedules", "add", "--help").out
    )
    assert "[NAME] [-- COMMAND…]" in taskflow("schedules", "add", "--help").out


@pytest.mark.parametrize("document", ["cli.md", "schedules.md"])
def test_what_the_documents_call_is_understood(taskflow: Terminal, api: FakeApi, document: str) -> None:
    """Every example of `taskflow schedules`; an api can refuse it, but not the call."""
    for verb, answer in {"pause": SCHEDULE, "resume": SCHEDULE, "trigger": {"job_id": "j", "outcome": "fired"}}.items():
        api[f"POST {NIGHTLY}/{verb}"] = Reply(json=answer)
    api[f"POST {NIGHTLY}/backfill"] = Reply(json={"count": 3, "overlap": "allow"})
    api[f"DELETE {NIGHTLY}"] = Reply(204, text="")
    api[f"GET {ROOT}/preview"] = api.answers[f"GET {NIGHTLY}/preview"]
    api["GET /jobs/j/logs/stream"] = stream(end("succeeded"))
    api["GET /api/v1/jobs/j/events"] = Reply(json={"items": []})

    text = (Path(__file__).parents[2] / "docs" / document).read_text("utf-8")
    called = re.findall(r"^(?:\$ |\.venv/bin/)taskflow (schedules .*)$", text, re.MULTILINE)
    called += re.findall(r"`taskflow (schedules [^`]*)`", text)
    assert len(called) >= 5
    for line in called:
        done = taskflow(*shlex.split(line, comments=True))
        assert done.status == 0, f"{line}: {done.err}"


def test_completion_knows_the_commands(taskflow: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also behind a command that takes another command."""
    monkeypatch.setenv("_TASKFLOW_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "taskflow schedules add nightly --catch")
    monkeypatch.setenv("COMP_CWORD", "4")

    assert taskflow().out.split() == ["--catchup-limit", "--catchup-window"]
