"""GET /api/v1/jobs/{id}/explain: every reason a job can have to be where it is."""

from typing import Any

from taskflow_domain import JobStatus
from taskflow_streams import Pool
from tests.integration.api.door import JOBS, Door
from tests.support.engine import HANDLER, Worker, a_running_job, a_worker, an_ended_job, settle


async def reasons(door: Door, job_id: str) -> dict[str, dict[str, Any]]:
    """What is said about a job, by code."""
    response = await door.http.get(f"{JOBS}/{job_id}/explain")
    assert response.status_code == 200, response.text
    body = response.json()
    assert body["id"] == job_id
    assert body["status"] == (await door.get(job_id))["status"]
    assert body["message"] == body["reasons"][0]["message"]
    return {reason["code"]: reason for reason in body["reasons"]}


async def test_a_pending_job_names_what_it_waits_for(door: Door) -> None:
    """And not what is done already."""
    done, open_ = await an_ended_job(door.store), await door.create(name="elsewhere")
    job = await door.create(dependencies=[done, open_["id"]])

    found = await reasons(door, job["id"])
    assert found["WAITING_FOR_DEPENDENCIES"]["jobs"] == [open_["id"]]
    assert "1 job" in found["WAITING_FOR_DEPENDENCIES"]["message"]


async def test_a_pending_job_whose_dependencies_are_done_waits_for_the_scheduler(door: Door) -> None:
    """Which is on its way."""
    first = await door.create()
    job = await door.create(dependencies=[first["id"]])
    worker = await a_worker(door.store)
    await worker.complete(await worker.take())

    assert "scheduler" in (await reasons(door, job["id"]))["WAITING_FOR_DEPENDENCIES"]["message"]
    await settle(door.store)


async def test_a_job_without_a_handler_says_which(door: Door) -> None:
    """It is parked until a worker has it."""
    job = await door.create(name="unheard.of")

    assert "unheard.of" in (await reasons(door, job["id"]))["NO_HANDLER"]["message"]
    await a_worker(door.store, pool=Pool(frozenset({"unheard.of"})))
    assert set(await reasons(door, job["id"])) == {"WAITING_FOR_SLOT"}


async def test_a_delayed_job_says_until_when(door: Door) -> None:
    """Because it was asked for, or because an attempt failed."""
    worker = await a_worker(door.store)
    asked = await door.create(delay_s=100)
    assert asked["scheduled_at"] in (await reasons(door, asked["id"]))["DELAYED"]["message"]

    failed = await door.create()
    await worker.fail(await worker.take())
    assert "attempt 1 failed" in (await reasons(door, failed["id"]))["DELAYED"]["message"]


async def test_a_queue_that_holds_jobs_back_is_named(door: Door) -> None:
    """Paused, with the reason that was given, or at its limit."""
    worker = await a_worker(door.store)
    await door.create()
    await door.http.patch("/api/v1/queues/q", json={"max_concurrent": 1})
    held = await worker.take()
    job = await door.create()
    assert "1 of 1" in (await reasons(door, job["id"]))["QUEUE_AT_LIMIT"]["message"]

    await door.http.patch("/api/v1/queues/q", json={"paused": True, "reason": "the disk is full"})
    found = await reasons(door, job["id"])
    assert set(found) == {"QUEUE_PAUSED", "QUEUE_AT_LIMIT"}
    assert "the disk is full" in found["QUEUE_PAUSED"]["message"]
    await worker.complete(held)


async def test_a_job_waits_for_a_slot_when_nothing_else_is_wrong(door: Door) -> None:
    """Somebody has the handler and takes from the queue."""
    await a_worker(door.store)
    job = await door.create()

    assert set(await reasons(door, job["id"])) == {"WAITING_FOR_SLOT"}


async def test_a_queue_that_nobody_takes_from_is_named(door: Door) -> None:
    """The handler is there, but its workers are for other queues, and those of this queue have other handlers."""
    join = door.store.partitions[0].workers.join
    await join("w1", Pool(frozenset({HANDLER}), queues=(("other", None),)), {"name": "w1", "queues": "other"})
    await join("w2", Pool(frozenset({"something"})), {"name": "w2", "queues": "*"})
    job = await door.create()

    assert set(await reasons(door, job["id"])) == {"NO_WORKER_FOR_QUEUE"}


async def test_a_running_job_says_where(door: Door) -> None:
    """And that it is being cancelled, if it is."""
    held = await a_running_job(door.store, worker="w7")
    assert "w7" in (await reasons(door, held.job_id))["RUNNING"]["message"]

    await door.http.post(f"{JOBS}/{held.job_id}/cancel")
    assert set(await reasons(door, held.job_id)) == {"BEING_CANCELED"}
    await Worker(door.store.partitions[0], "w7").complete(held)


async def test_an_ended_job_says_how(door: Door) -> None:
    """With the jobs that blocked it, and the error that failed it."""
    done = await an_ended_job(door.store)
    failed = await an_ended_job(door.store, JobStatus.FAILED)
    canceled = await an_ended_job(door.store, JobStatus.CANCELED)
    blocked = await door.create(dependencies=[done, failed])
    expired = await door.create(expires_at="2020-01-01")
    await door.store.partitions[0].upkeep.expire()

    assert set(await reasons(door, done)) == {"COMPLETED"}
    assert "Oops: no luck" in (await reasons(door, failed))["FAILED"]["message"]
    assert set(await reasons(door, canceled)) == {"CANCELED"}
    assert (await reasons(door, blocked["id"]))["DEPENDENCY_FAILED"]["jobs"] == [failed]
    assert set(await reasons(door, expired["id"])) == {"EXPIRED"}
