"""Schedules from the command line, against a whole TaskFlow: made, run, rested, run by hand, made up for, gone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.commanding import Shell
from tests.support.stack import Stack, eventually

pytestmark = [pytest.mark.xdist_group("cli-schedules"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def taskflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """The command, in a directory with a stack."""
    directory = tmp_path_factory.mktemp("cli-schedules")
    with Stack(directory / ".taskflow"):
        yield Shell(directory)


def fired(taskflow: Shell, name: str) -> list[dict[str, Any]]:
    """The runs in a schedule's history, the newest first."""
    return [line for line in taskflow.json("schedules", "history", name, "-n", "1000") if line["what"] == "fired"]


def test_a_schedule_runs_rests_and_is_run_by_hand(taskflow: Shell) -> None:
    """Every second, each time once, until it is paused; then when somebody asks; then no more."""
    schedule_id = taskflow("schedules", "add", "beat", "--every", "1", "--owner", "ann", "--", "echo", "beat").strip()
    assert [one["id"] for one in taskflow.json("schedules", "ls", "--owner", "ann")] == [schedule_id]

    eventually(lambda: len(fired(taskflow, "beat")) >= 3, "third run")
    assert "beat is paused." in taskflow("schedules", "pause", "beat", "--reason", "enough")
    runs = fired(taskflow, "beat")
    times = [datetime.fromisoformat(run["fire_at"]) for run in runs]
    assert {earlier - later for later, earlier in pairwise(times)} == {timedelta(seconds=-1)}
    assert len({run["job_id"] for run in runs}) == len(runs)
    assert taskflow("jobs", "logs", "-f", runs[0]["job_id"]) == "beat\n"
    shown = taskflow("schedules", "show", "beat")
    assert "enough" in shown
    assert f"{runs[0]['job_id']} COMPLETED" in shown

    assert taskflow("schedules", "trigger", "beat", "--wait") == "beat\n"
    taskflow("schedules", "set", "beat", "--retries", "0", "--", "echo set; exit 3")
    assert taskflow("schedules", "trigger", "beat", "--wait", status=3) == "set\n"
    assert [run["origin"] for run in fired(taskflow, "beat")][:3] == ["trigger", "trigger", "schedule"]
    assert len(fired(taskflow, "beat")) == len(runs) + 2

    assert taskflow("schedules", "rm", "beat") == "beat is deleted.\n"
    assert "There is no schedule beat." in taskflow("schedules", "show", "beat", status=1)
    assert taskflow.json("jobs", "show", runs[0]["job_id"])["status"] == "COMPLETED"


def test_the_past_is_made_up_for_once(taskflow: Shell) -> None:
    """One after the other, the oldest first; what has run is left out unless it is asked for again."""
    taskflow("schedules", "add", "daily", "--cron", "@daily", "--overlap", "buffer_all", "--", "true")
    span = ("--from", "2026-01-01T00:00Z", "--to", "2026-01-03T00:00Z")
    days = [f"2026-01-0{day}T00:00:00.000Z" for day in (1, 2, 3)]

    assert taskflow("schedules", "backfill", "daily", *span).startswith("3 times are made up for, one after the other;")
    eventually(lambda: len(fired(taskflow, "daily")) == 3, "end of the backfill")
    assert [(run["fire_at"], run["origin"]) for run in reversed(fired(taskflow, "daily"))] == [
        (day, "backfill") for day in days
    ]

    taskflow("schedules", "backfill", "daily", *span, "--at-once")
    last = taskflow.json("schedules", "backfill", "daily", *span, "--rerun", "--at-once")
    assert (last["count"], last["rerun"]) == (3, True)
    eventually(lambda: len(fired(taskflow, "daily")) == 6, "second run of each")
    assert sorted(run["fire_at"] for run in fired(taskflow, "daily")) == sorted(days * 2)


def test_a_run_waits_for_the_one_before_it(taskflow: Shell, tmp_path: Path) -> None:
    """And whoever waits for it waits too; one that is skipped says why."""
    go = tmp_path / "go"
    command = f"until [ -e {go} ]; do sleep 0.05; done; echo done"
    taskflow("schedules", "add", "slow", "--cron", "@yearly", "--overlap", "buffer_one", "--", command)
    first = taskflow("schedules", "trigger", "slow").strip()

    assert "a run was still active" in taskflow("schedules", "trigger", "slow", "--overlap", "skip", status=1)
    second = taskflow.start("schedules", "trigger", "slow", "--wait")
    assert second.stderr is not None
    assert "It waits for the run before it to end" in second.stderr.readline()
    go.touch()
    out, _ = second.communicate(timeout=60)

    assert (second.returncode, out) == (0, "done\n")
    ended, job_id = taskflow.json("jobs", "show", first)["finished_at"], fired(taskflow, "slow")[0]["job_id"]
    assert taskflow.json("jobs", "show", job_id)["started_at"] >= ended


def test_a_schedule_ends_after_its_last_run(taskflow: Shell) -> None:
    """It says so, and is set to run again."""
    taskflow("schedules", "add", "thrice", "--every", "1", "--max-runs", "2", "--python", "math:sqrt", "--arg", "4")

    eventually(lambda: taskflow.json("schedules", "ls", "--status", "ended") or None, "end of a schedule")
    assert "It fires no more: it has had all its runs." in taskflow("schedules", "show", "thrice")
    taskflow("schedules", "set", "thrice", "--max-runs", "3")
    eventually(lambda: len(fired(taskflow, "thrice")) == 3, "third run")


def test_mistakes_are_told_with_the_place(taskflow: Shell) -> None:
    """An expression, a zone, a date that no year has, a name that is taken."""
    wrong = taskflow("schedules", "add", "bad", "--cron", "0 25 * * *", "--", "true", status=1)
    assert wrong.splitlines()[1:] == ["  0 25 * * *", "    ^"]
    assert "did you mean Europe/" in taskflow(
        "schedules", "preview", "--cron", "@daily", "--tz", "Europe/Berln", status=1
    )
    never = taskflow("schedules", "preview", "--cron", "0 0 31 2 *", status=1)
    assert never.splitlines()[1:] == ["  0 0 31 2 *", "      ^"]

    taskflow("schedules", "add", "taken", "--cron", "@yearly", "--", "true")
    again = taskflow("schedules", "add", "taken", "--cron", "@daily", "--", "true", status=1)
    assert "taskflow schedules set taken" in again


def test_the_guide_shows_what_is_shown(taskflow: Shell) -> None:
    """The preview and the mistake in docs/cli.md, but for how far away the day is."""
    guide = (Path(__file__).parents[2] / "docs/cli.md").read_text("utf-8")
    seen = taskflow(
        "schedules", "preview", "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2027-03-27T00:00+01:00",
        "-n", "3",
    )  # fmt: skip
    wrong = taskflow("schedules", "add", "nightly", "--cron", "0 25 * * *", "--", "./report.sh", status=1)

    assert wrong in guide
    for line in seen.splitlines():
        assert line.split("in ")[0].rstrip() in guide
        assert line.rstrip().endswith("clocks +1 h") == ("2027-03-28" in line)


def test_a_job_can_wait_for_its_time(taskflow: Shell) -> None:
    """`--at` in the past is now; `--delay` is from now on."""
    yesterday = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    assert taskflow("submit", "--wait", "--at", yesterday, "echo late") == "late\n"
    assert taskflow("submit", "--wait", "--delay", "0", "echo now") == "now\n"

    job_id = taskflow("submit", "--delay", "1s", "echo later").strip()
    assert taskflow("jobs", "logs", "-f", job_id) == "later\n"
    job = taskflow.json("jobs", "show", job_id)
    created, due, started = (datetime.fromisoformat(job[f"{what}_at"]) for what in ("created", "scheduled", "started"))
    assert created + timedelta(seconds=1) == due <= started
