"""Get, delete, cancel, retry and history of one job."""

import json

import pytest

from taskflow_domain import JobStatus
from taskflow_streams import Failure, How, Reported
from tests.integration.api.door import JOBS, NOBODY, Door, conflict, refused
from tests.support.engine import Worker, a_job, a_running_job, a_worker, an_ended_job, reap, record, settle, stall

STRANGERS = [
    NOBODY,
    "nobody",
    "3fa85f64-5717-4562-b3fc-2c963f66afa6",  # a UUID, but not one of ours
    "019b7c3f-5d2e-7000-bfff-3f2a9c1b4d5e",  # of a partition that does not exist
    NOBODY.replace("-", ""),
    "%00",
    "%ff",
    "a" * 5000,
    "..%2fjobs",
    "日本",
]


@pytest.mark.parametrize("stranger", STRANGERS, ids=lambda text: text[:40])
@pytest.mark.parametrize(
    ("method", "tail"),
    [("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("POST", "/retry"), ("GET", "/events"), ("GET", "/explain")],
)
async def test_what_is_no_id_names_no_job(door: Door, method: str, tail: str, stranger: str) -> None:
    """404, in every operation."""
    refused(await door.http.request(method, f"{JOBS}/{stranger}{tail}"), 404, "NOT_FOUND")


async def test_an_id_may_be_in_capitals(door: Door) -> None:
    """UUIDs mean the same in both."""
    job = await door.create()

    assert await door.get(job["id"].upper()) == job


async def test_a_completed_job_shows_what_it_did(door: Door) -> None:
    """Times, worker, attempts and the result as the handler gave it, to the last digit."""
    held = await a_running_job(door.store)
    partition = door.store.partitions[0]
    running = await door.get(held.job_id)
    await partition.leases.progress("w1", held.token, 0.5, "half way")
    halfway = await door.get(held.job_id)
    await Worker(partition).complete(held, b'{"n":12345678901234567890123}')
    raw = (await door.http.get(f"{JOBS}/{held.job_id}")).text
    done = json.loads(raw)

    assert (running["status"], running["worker"], running["attempt_count"]) == ("RUNNING", "w1", 1)
    assert running["created_at"] <= running["started_at"] == running["updated_at"]
    assert halfway["progress"] == {"fraction": 0.5, "message": "half way"}
    assert (done["status"], done["error"], done["result"]) == ("COMPLETED", None, {"n": 12345678901234567890123})
    assert '"result":{"n":12345678901234567890123}' in raw
    assert done["started_at"] <= done["finished_at"] == done["updated_at"]


async def test_a_failed_attempt_shows_why(door: Door) -> None:
    """Also while its retry is due, which is what `scheduled_at` then says."""
    held = await a_running_job(door.store)
    failure = Failure("ValueError", "no luck", "Traceback …")
    await Worker(door.store.partitions[0]).report(held, How.FAILED, failure=failure)
    job = await door.get(held.job_id)

    assert (job["status"], job["attempt_count"], job["result"]) == ("READY", 1, None)
    assert job["error"] == {"class": "ValueError", "message": "no luck", "traceback": "Traceback …"}
    assert job["scheduled_at"] > job["updated_at"]


async def test_a_deleted_job_is_gone(door: Door) -> None:
    """204 without a body, and then 404; a second time too."""
    job = await door.create()
    response = await door.http.delete(f"{JOBS}/{job['id']}")

    assert (response.status_code, response.content) == (204, b"")
    refused(await door.http.get(f"{JOBS}/{job['id']}"), 404, "NOT_FOUND")
    refused(await door.http.delete(f"{JOBS}/{job['id']}"), 404, "NOT_FOUND")


async def test_a_job_that_others_name_is_not_deleted(door: Door) -> None:
    """Not even when all of them have ended; only when they are gone, or name it no more."""
    job = await door.create()
    other = await door.create(dependencies=[job["id"]])
    third = await door.create(dependencies=[job["id"]])
    await door.http.post(f"{JOBS}/{other['id']}/cancel")

    conflict(await door.http.delete(f"{JOBS}/{job['id']}"), "dependency")
    assert (await door.http.delete(f"{JOBS}/{other['id']}")).status_code == 204
    conflict(await door.http.delete(f"{JOBS}/{job['id']}"), "dependency")
    await door.change(third["id"], dependencies=[])
    assert (await door.http.delete(f"{JOBS}/{job['id']}")).status_code == 204


async def test_a_job_of_a_run_is_not_deleted(door: Door) -> None:
    """The run would miss it."""
    conflict(await door.http.delete(f"{JOBS}/{await a_job(door.store, run_id='r')}"), "run")


async def test_a_running_job_is_deleted_at_once(door: Door) -> None:
    """What its worker reports afterwards changes nothing."""
    held = await a_running_job(door.store)

    assert (await door.http.delete(f"{JOBS}/{held.job_id}")).status_code == 204
    refused(await door.http.get(f"{JOBS}/{held.job_id}"), 404, "NOT_FOUND")
    assert await Worker(door.store.partitions[0]).complete(held) is Reported.GONE
    refused(await door.http.get(f"{JOBS}/{held.job_id}"), 404, "NOT_FOUND")


async def test_a_waiting_job_is_cancelled_at_once(door: Door) -> None:
    """READY, delayed or PENDING; what waits for it is blocked."""
    ready, delayed = await door.create(), await door.create(delay_s=100)
    pending = await door.create(dependencies=[ready["id"]])
    last = await door.create(dependencies=[pending["id"]])
    for job in (pending, delayed, ready):
        response = await door.http.post(f"{JOBS}/{job['id']}/cancel")
        assert (response.status_code, response.json()["status"]) == (200, "CANCELED")
    await settle(door.store)
    assert (await door.get(last["id"]))["status"] == "BLOCKED"


async def test_a_running_job_stays_so_until_its_worker_has_stopped_it(door: Door) -> None:
    """A second cancel changes nothing; the order is with its worker."""
    held = await a_running_job(door.store)
    for _ in range(2):
        response = await door.http.post(f"{JOBS}/{held.job_id}/cancel")
        assert (response.status_code, response.json()["status"]) == (200, "RUNNING")

    worker = Worker(door.store.partitions[0])
    assert [order.verb for order in await worker.partition.leases.orders("w1")] == ["cancel"]
    await worker.report(held, How.CANCELED)
    assert (await door.get(held.job_id))["status"] == "CANCELED"


@pytest.mark.parametrize("status", [JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELED])
async def test_an_ended_job_is_not_cancelled(door: Door, status: JobStatus) -> None:
    """409 that says how it ended."""
    conflict(await door.http.post(f"{JOBS}/{await an_ended_job(door.store, status)}/cancel"), status)


@pytest.mark.parametrize("status", [JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELED])
async def test_an_ended_job_is_tried_again_as_a_new_one(door: Door, status: JobStatus) -> None:
    """The same work, however it ended, linked to the old one, which stays what it is."""
    fields = {"payload": b'{"x":1}', "order": 1, "task": "work", "timeout_ms": 5000, "owner": "me"}
    done = await an_ended_job(door.store)
    old_id = await an_ended_job(door.store, status, dependencies=(done,), **fields)
    old = await door.get(old_id)
    response = await door.http.post(f"{JOBS}/{old_id}/retry")
    new = response.json()

    assert response.status_code == 201
    assert response.headers["location"] == f"{JOBS}/{new['id']}"
    same = (
        "name",
        "queue",
        "payload",
        "priority",
        "dependencies",
        "retry_policy",
        "type",
        "task",
        "timeout_s",
        "owner",
    )
    assert {name: new[name] for name in same} == {name: old[name] for name in same}
    assert (new["status"], new["attempt_count"], new["retry_of"]) == ("READY", 0, old_id)
    assert (new["result"], new["error"], new["worker"]) == (None, None, None)
    assert await door.get(old_id) == old


async def test_a_retry_forgets_the_old_times(door: Door) -> None:
    """It is due now and does not expire."""
    job = await door.create(delay_s=1000, ttl_s=2000)
    await door.http.post(f"{JOBS}/{job['id']}/cancel")
    new = (await door.http.post(f"{JOBS}/{job['id']}/retry")).json()

    assert (new["scheduled_at"], new["expires_at"]) == (None, None)


async def test_a_job_that_has_not_ended_is_not_tried_again(door: Door) -> None:
    """PENDING, READY and RUNNING: 409."""
    held = await a_running_job(door.store)
    ready = await door.create()
    pending = await door.create(dependencies=[ready["id"]])
    for job_id, status in ((held.job_id, "RUNNING"), (ready["id"], "READY"), (pending["id"], "PENDING")):
        conflict(await door.http.post(f"{JOBS}/{job_id}/retry"), status)


async def test_a_retry_of_a_blocked_job_is_blocked_while_its_dependency_is_what_it_is(door: Door) -> None:
    """The rule of birth holds for it too."""
    failed = await an_ended_job(door.store, JobStatus.FAILED)
    blocked = await door.create(dependencies=[failed])
    new = (await door.http.post(f"{JOBS}/{blocked['id']}/retry")).json()

    assert (new["status"], new["dependencies"]) == ("BLOCKED", [failed])


async def test_a_retry_does_without_dependencies_that_are_gone(door: Door) -> None:
    """Of a job that has run, for it had all it needed; one that never ran is refused."""
    done = await an_ended_job(door.store)
    ran = await an_ended_job(door.store, JobStatus.FAILED, dependencies=(done,))
    never = await an_ended_job(door.store, JobStatus.CANCELED, dependencies=(done,))
    home = door.store.partitions[0]
    await home.redis.delete(home.keys("deps", done))  # as if retention, which asks less than a user may, had taken it
    assert (await door.http.delete(f"{JOBS}/{done}")).status_code == 204

    new = (await door.http.post(f"{JOBS}/{ran}/retry")).json()
    assert (new["status"], new["dependencies"]) == ("READY", [])
    conflict(await door.http.post(f"{JOBS}/{never}/retry"), done)


async def test_the_history_tells_every_step(door: Door) -> None:
    """Oldest first, with what each type adds."""
    first = await door.create(name="elsewhere")
    job = await door.create(dependencies=[first["id"]], retry_policy={"max_attempts": 3})
    await door.change(job["id"], priority=9, dependencies=[])
    worker = await a_worker(door.store)
    await worker.fail(await worker.take(), delay_ms=1)
    due_at = (await door.get(job["id"]))["scheduled_at"]
    await door.change(job["id"], scheduled_at=None)
    held = await worker.take()
    await stall(door.store, held)
    await reap(door.store)
    await worker.release(await worker.take())
    await worker.complete(await worker.take())
    events = (await door.http.get(f"{JOBS}/{job['id']}/events")).json()["items"]

    told = [(event["type"], event["from"], event["to"], event["attempt"]) for event in events]
    assert told == [
        ("job.submitted", None, "PENDING", 0),
        ("job.updated", "PENDING", "READY", 0),
        ("job.started", "READY", "RUNNING", 1),
        ("job.retrying", "RUNNING", "READY", 1),
        ("job.updated", "READY", "READY", 1),
        ("job.started", "READY", "RUNNING", 2),
        ("job.lost", "RUNNING", "READY", 2),
        ("job.started", "READY", "RUNNING", 3),
        ("job.released", "RUNNING", "READY", 2),
        ("job.started", "READY", "RUNNING", 3),
        ("job.completed", "RUNNING", "COMPLETED", 3),
    ]
    assert events[0]["at"] == job["created_at"]
    assert (events[1]["was"]["priority"], events[1]["priority"]) == (5, 9)
    assert (events[2]["worker"], events[2]["queue"]) == ("w1", "q")
    assert (events[3]["error"], events[3]["due_at"]) == ("Oops", due_at)
    assert events[6]["error"] == "LeaseLost"
    assert [event["id"] for event in events] == list((await record(door.store, job["id"])).event_ids)


@pytest.mark.parametrize("tail", ["", "/events", "/explain"])
async def test_unknown_query_parameters_are_refused_everywhere(door: Door, tail: str) -> None:
    """Who sends one expects it to do something."""
    job = await door.create()
    refused(await door.http.get(f"{JOBS}/{job['id']}{tail}", params={"verbose": "1"}), 400, "VALIDATION_ERROR")
