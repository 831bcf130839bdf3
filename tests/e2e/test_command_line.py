"""The command line against a whole TaskFlow: hand in, wait, look, stop, operate."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.commanding import Shell
from tests.support.stack import Stack, eventually

pytestmark = [pytest.mark.xdist_group("cli"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def taskflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """The command, in a directory with a stack."""
    directory = tmp_path_factory.mktemp("cli")
    with Stack(directory / ".taskflow"):
        yield Shell(directory)


def test_work_is_handed_in_and_waited_for(taskflow: Shell) -> None:
    """The output and the exit code are the job's own."""
    assert taskflow("submit", "--wait", "--", "echo", "two  words") == "two  words\n"
    assert taskflow("submit", "--wait", "--retries", "0", "echo out; exit 3", status=3) == "out\n"
    assert taskflow("submit", "--wait", "echo once; exit 3", status=3) == "once\n"
    again = taskflow.start("submit", "--wait", "--retries", "1", "exit 4")
    _, err = again.communicate(timeout=60)
    assert again.returncode == 4
    assert re.search("Attempt 1 failed: .*; attempt 2 of 2", err), err
    assert taskflow("submit", "--wait", "-e", "NAME=Ann", 'printf "%s" "$NAME"') == "Ann"

    end = taskflow.json("python", "math:hypot", "--arg", "3", "--arg", "4", "--wait")
    assert (end["status"], end["result"]) == ("succeeded", 5.0)


def test_a_job_can_be_looked_at_and_repeated(taskflow: Shell) -> None:
    """Listed, shown with its output, its output alone, and run again."""
    job_id = taskflow("submit", "-q", "looks", "--", "echo", "seen").strip()
    assert taskflow("jobs", "logs", "-f", job_id) == "seen\n"

    assert [job["id"] for job in taskflow.json("jobs", "ls", "-q", "looks")] == [job_id]
    assert job_id in taskflow("jobs", "ls", "--status", "completed")
    shown = taskflow.json("jobs", "show", job_id)
    assert (shown["status"], shown["last_output"]) == ("COMPLETED", ["seen"])
    assert "COMPLETED" in taskflow("jobs", "show", job_id)
    assert taskflow("jobs", "logs", job_id) == "seen\n"

    again = taskflow("jobs", "retry", job_id).strip()
    assert taskflow("jobs", "logs", "-f", again) == "seen\n"


def test_ctrl_c_stops_the_job_too(taskflow: Shell) -> None:
    """It is canceled, and the command ends when the job has."""
    process = taskflow.start("submit", "--wait", "echo begun; sleep 300")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"

    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 130
    job_id = err.split()[1]
    assert taskflow.json("jobs", "show", job_id)["status"] == "CANCELED"
    assert "has ended" in taskflow("jobs", "cancel", job_id, status=1)


def test_a_paused_queue_holds_jobs_and_says_why(taskflow: Shell) -> None:
    """Until it is resumed, or the job canceled."""
    taskflow("queues", "pause", "night", "--reason", "until dawn")
    job_id, other = (taskflow("submit", "-q", "night", "true").strip() for _ in range(2))

    assert "paused: until dawn" in taskflow("jobs", "show", job_id)
    assert "paused: until dawn" in taskflow("queues", "ls")
    assert taskflow("jobs", "cancel", other) == f"{other} is canceled\n"

    taskflow("queues", "resume", "night")
    assert taskflow("jobs", "logs", "-f", job_id) == ""
    assert taskflow.json("jobs", "show", job_id)["status"] == "COMPLETED"


def test_queues_are_set_up(taskflow: Shell) -> None:
    """A limit and a weight, and the limit taken back."""
    taskflow("queues", "limit", "narrow", "2")
    taskflow("queues", "weight", "narrow", "3")

    def narrow() -> dict[str, Any]:
        found: dict[str, Any] = next(queue for queue in taskflow.json("queues", "ls") if queue["name"] == "narrow")
        return found

    assert (narrow()["max_concurrent"], narrow()["weight"]) == (2, 3)
    taskflow("queues", "limit", "narrow", "none")
    assert narrow()["max_concurrent"] is None


def test_bad_input_is_told_by_the_field(taskflow: Shell) -> None:
    """In one sentence."""
    assert taskflow("submit", "-q", "no queue", "true", status=1).count("\n") == 1
    assert "cmd" in taskflow("submit", "", status=1)
    assert "callable" in taskflow("python", "nocolon", status=1)
    assert "no job" in taskflow("jobs", "show", "nonsense", status=1).lower()


def test_a_drained_worker_takes_nothing_new(taskflow: Shell) -> None:
    """It says so, and a job that comes then has to wait: for another, or until it is resumed."""
    worker_id = next(worker["id"] for worker in taskflow.json("workers", "ls") if worker["status"] != "offline")

    taskflow("workers", "drain", worker_id)

    eventually(lambda: "draining" in taskflow("workers", "ls") or None, "word of the drained worker")
    job_id = taskflow("submit", "true").strip()
    shown = taskflow.json("jobs", "show", job_id)
    assert shown["status"] == "READY"
    assert "draining" in shown["explanation"]

    taskflow("workers", "resume", worker_id)
    assert taskflow("jobs", "logs", "-f", job_id) == ""
    eventually(lambda: "draining" not in taskflow("workers", "ls") or None, "word of the resumed worker")
