"""Workers that end after so many jobs, or beyond so much memory, under `taskflow up`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.stack import Stack, eventually

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("recycling")]

GREEDY = "import time; hoard = bytearray(300 << 20); time.sleep(3)"


def lines(stack: Stack) -> list[dict[str, Any]]:
    """What the stack has told so far."""
    text = stack.data_dir.with_suffix(".log").read_text()
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def told(stack: Stack, event: str) -> list[dict[str, Any]]:
    """The lines of one event, about workers."""
    return [line for line in lines(stack) if line["event"] == event and "worker" in str(line)]


def test_a_worker_that_has_done_enough_is_replaced_at_once(tmp_path: Path) -> None:
    """All jobs are done, by one worker after the other; none of them counts as a crash."""
    with Stack(tmp_path / "data", "--concurrency", "2", worker_max_jobs=4) as stack:
        ids = [stack.create("taskflow.echo", payload={"n": number})["id"] for number in range(10)]

        ended = [stack.ended(job_id) for job_id in ids]

        eventually(lambda: len(told(stack, "service.recycled")) >= 2, "second life's end")
        assert {(job["status"], job["attempt_count"]) for job in ended} == {("COMPLETED", 1)}
        ran: dict[str, int] = {}
        for job in ended:
            ran[job["worker"]] = ran.get(job["worker"], 0) + 1
        assert sorted(ran.values()) == [2, 4, 4]
        assert told(stack, "service.ended") == []
        assert {line["why"] for line in told(stack, "worker.recycling")} == {"jobs"}


def test_a_worker_that_has_grown_too_large_is_replaced(tmp_path: Path) -> None:
    """The memory of its jobs' processes counts; the job that took it may finish."""
    settings = {"worker_max_memory_mb": 300, "heartbeat_s": 0.5, "lease_renewal_s": 0.5}
    with Stack(tmp_path / "data", "--concurrency", "2", **settings) as stack:
        before = stack.service("worker").pid
        body = {"type": "shell", "payload": {"cmd": f"python3 -c '{GREEDY}'"}, "retry_policy": {"max_attempts": 1}}
        response = stack.http.post("/jobs", json={"name": "greedy", "queue": "default", **body})
        assert response.status_code == 201, response.text

        assert stack.ended(response.json()["id"])["status"] == "COMPLETED"

        eventually(lambda: told(stack, "service.recycled"), "replacement")
        assert {line["why"] for line in told(stack, "worker.recycling")} == {"memory"}
        assert stack.ended(stack.create()["id"])["status"] == "COMPLETED"
        assert stack.service("worker").pid != before
