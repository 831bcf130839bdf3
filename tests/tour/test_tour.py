"""A tour of TaskFlow: the happy path of each feature, one idea per test.  Begin here.

Everything is real: `taskflow up` runs all services on a Valkey of its own, and the tests speak HTTP.
"""

from __future__ import annotations

import pytest

from taskflow import AsyncClient
from tests.support.stack import Stack, eventually

pytestmark = pytest.mark.xdist_group("tour")


def test_a_job_runs_and_returns_its_result(taskflow: Stack) -> None:
    """You name a task and give it a payload; a worker runs it, and the result is in the job."""
    created = taskflow.create("taskflow.echo", payload={"hello": "world"})
    assert created["status"] == "READY"

    job = taskflow.ended(created["id"])

    assert job["status"] == "COMPLETED"
    assert job["result"] == {"hello": "world"}
    assert job["attempt_count"] == 1


def test_jobs_run_after_what_they_depend_on(taskflow: Stack) -> None:
    """A diamond in one batch: `key` names a job inside it, `depends_on` refers to those names."""
    jobs: list[dict[str, object]] = [
        {"key": "a", "name": "a", "queue": "etl", "task": "taskflow.sleep", "payload": {"seconds": 0.05}},
        {"key": "b", "name": "b", "queue": "etl", "task": "taskflow.sleep", "payload": {"seconds": 0.05}},
        {"key": "c", "name": "c", "queue": "etl", "task": "taskflow.noop"},
        {"key": "d", "name": "d", "queue": "etl", "task": "taskflow.noop", "depends_on": ["b", "c"]},
    ]
    jobs[1]["depends_on"] = jobs[2]["depends_on"] = ["a"]

    items = taskflow.http.post("/jobs/batch", json={"jobs": jobs}).json()["items"]
    a, b, c, d = (taskflow.ended(item["id"]) for item in items)

    assert [item["status"] for item in items] == ["READY", "PENDING", "PENDING", "PENDING"]
    assert {job["status"] for job in (a, b, c, d)} == {"COMPLETED"}
    assert a["finished_at"] <= min(b["started_at"], c["started_at"])
    assert max(b["finished_at"], c["finished_at"]) <= d["started_at"]


def test_a_failure_blocks_what_depends_on_it(taskflow: Stack) -> None:
    """Children and grandchildren of a job that failed for good are BLOCKED; they never run."""
    policy = {"max_attempts": 1}
    parent = taskflow.create("taskflow.fail", payload={"message": "no luck"}, retry_policy=policy, delay_s=0.3)
    child = taskflow.create(dependencies=[parent["id"]])
    grandchild = taskflow.create(dependencies=[child["id"]])

    assert taskflow.ended(grandchild["id"])["status"] == "BLOCKED"

    failed = taskflow.job(parent["id"])
    assert failed["status"] == "FAILED"
    assert "no luck" in failed["error"]["message"]
    born_late = taskflow.create(dependencies=[parent["id"]])
    assert born_late["status"] == "BLOCKED"


def test_a_failed_attempt_is_retried_after_a_pause(taskflow: Stack) -> None:
    """The retry policy says how often and how long; the history shows each attempt."""
    policy = {"max_attempts": 2, "backoff_strategy": "FIXED", "base_delay_seconds": 1, "max_delay_seconds": 1}
    created = taskflow.create("taskflow.fail", retry_policy=policy)

    job = taskflow.ended(created["id"])

    assert (job["status"], job["attempt_count"]) == ("FAILED", 2)
    events = taskflow.http.get(f"/jobs/{job['id']}/events").json()["items"]
    assert [event["type"] for event in events] == [
        "job.submitted",
        "job.started",
        "job.retrying",
        "job.started",
        "job.failed",
    ]


def test_urgent_jobs_go_first(taskflow: Stack) -> None:
    """Priority 10 before 5 before 1, whatever came first; the queue is paused while they gather."""
    taskflow.http.patch("/queues/ordered", json={"paused": True, "max_concurrent": 1})
    ids = [taskflow.create(queue="ordered", priority=priority)["id"] for priority in (1, 5, 10)]

    taskflow.http.patch("/queues/ordered", json={"paused": False})
    low, middle, high = (taskflow.ended(job_id)["started_at"] for job_id in ids)

    assert high <= middle <= low


def test_a_job_can_wait_for_its_time(taskflow: Stack) -> None:
    """`delay_s` or `scheduled_at`: READY, but not started before it is due."""
    created = taskflow.create(delay_s=0.5)

    job = taskflow.ended(created["id"])

    assert job["started_at"] >= job["scheduled_at"]


def test_a_running_job_can_be_canceled(taskflow: Stack) -> None:
    """The order reaches its worker at once; what waits is canceled on the spot."""
    job = taskflow.create("taskflow.sleep", payload={"seconds": 60})
    eventually(lambda: taskflow.job(job["id"])["status"] == "RUNNING", "start")

    assert taskflow.http.post(f"/jobs/{job['id']}/cancel").status_code == 200

    assert taskflow.ended(job["id"])["status"] == "CANCELED"


def test_a_job_says_why_it_does_not_run(taskflow: Stack) -> None:
    """A job whose handler no live worker has waits, costs no attempt, and tells so."""
    job = taskflow.create("a.task.nobody.has")

    answer = taskflow.http.get(f"/jobs/{job['id']}/explain").json()

    assert [reason["code"] for reason in answer["reasons"]] == ["NO_HANDLER"]
    assert taskflow.job(job["id"])["attempt_count"] == 0


def test_the_same_request_creates_one_job(taskflow: Stack) -> None:
    """With an idempotency key a client may send again whatever it is unsure of."""
    body = {"name": "taskflow.noop", "queue": "default"}
    headers = {"Idempotency-Key": "tour-1"}

    first = taskflow.http.post("/jobs", json=body, headers=headers)
    second = taskflow.http.post("/jobs", json=body, headers=headers)

    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]


def test_jobs_are_found_page_by_page(taskflow: Stack) -> None:
    """Filters combine; a cursor leads from page to page, newest first."""
    ids = {taskflow.create(queue="found", priority=7)["id"] for _ in range(5)}
    seen: list[str] = []
    query: dict[str, object] = {"queue": "found", "priority_min": 7, "limit": 2}

    while True:
        page = taskflow.http.get("/jobs", params=query).json()  # type: ignore[arg-type]
        seen += [job["id"] for job in page["items"]]
        if not page["has_more"]:
            break
        query["cursor"] = page["next_cursor"]

    assert len(seen) == 5
    assert set(seen) == ids


async def test_python_programs_need_no_http(taskflow: Stack) -> None:
    """The SDK speaks to Redis directly: enqueue, wait, result."""
    async with await AsyncClient.connect(taskflow.redis_url) as client:
        job = await client.enqueue_named("taskflow.echo", {"n": 1})

        assert await job.result(timeout=30) == {"n": 1}
