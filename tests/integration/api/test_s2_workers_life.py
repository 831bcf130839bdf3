"""POST /workers/register, …/heartbeat, …/drain and DELETE /workers/{id}: the life of a worker over HTTP."""

from typing import Any

import pytest

from taskflow_domain import JobStatus
from tests.integration.api.door import NOBODY, Door, invalid, refused
from tests.integration.api.remote import a_command, a_remote
from tests.support.engine import a_worker, record, statuses
from tests.support.working import until

REGISTER: dict[str, Any] = {"name": "far", "queues": ["a", "b"], "concurrency": 4}


async def bury(door: Door, worker_id: str) -> None:
    """What the reaper does with a worker that was silent."""
    now = await door.store.now_ms()
    for partition in door.store.partitions:
        await partition.workers.bury(worker_id, now + 1000, forget=False)


async def test_a_worker_registers_and_is_listed(wide_door: Door) -> None:
    """At both doors, in every partition, with what it said."""
    response = await wide_door.http.post("/workers/register", json=REGISTER)
    worker_id = response.json()["id"]

    assert (response.status_code, response.json()) == (
        201, {"id": worker_id, "heartbeat_s": 5, "visibility_timeout_s": 15},
    )  # fmt: skip
    [shown] = (await wide_door.http.get("/workers")).json()["items"]
    assert (shown["id"], shown["name"], shown["queues"], shown["concurrency"]) == (worker_id, "far", ["a", "b"], 4)
    assert (shown["status"], shown["running"]) == ("online", [])
    assert shown["started_at"] is not None
    [shown] = (await wide_door.http.get("/api/v1/workers")).json()["items"]
    assert (shown["id"], shown["kind"], shown["draining"]) == (worker_id, "http", False)
    for partition in wide_door.store.partitions:
        assert await partition.workers.get(worker_id) is not None


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": None}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"queues": None}, "queues"),
        ({"queues": []}, "queues"),
        ({"queues": "a"}, "queues"),
        ({"queues": ["a", "a"]}, "queues"),
        ({"queues": ["a b"]}, "queues[0]"),
        ({"queues": [f"q{i}" for i in range(101)]}, "queues"),
        ({"concurrency": None}, "concurrency"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 1001}, "concurrency"),
        ({"concurrency": "4"}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"handlers": []}, "handlers"),
        ({"handlers": ["@Shell"]}, "handlers[0]"),
        ({"handlers": [""]}, "handlers[0]"),
        ({"handlers": ["x" * 256]}, "handlers[0]"),
        ({"id": "mine"}, "id"),
        ({"pid": 7}, "pid"),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_a_bad_registration_is_refused(door: Door, changes: dict[str, Any], field: str) -> None:
    """With the field that is wrong; nobody is on the list then."""
    invalid(await door.http.post("/workers/register", json=REGISTER | changes), field)
    for missing in ("name", "queues", "concurrency"):
        body = {name: value for name, value in REGISTER.items() if name != missing}
        invalid(await door.http.post("/workers/register", json=body), missing)
    assert (await door.http.get("/workers")).json()["items"] == []


async def test_a_heartbeat_keeps_leases_and_tells_of_itself(door: Door) -> None:
    """Named jobs stay its own; the list shows them, and what it uses."""
    worker = await a_remote(door.http)
    job = await a_command(door.http)
    leased = await worker.take()

    assert await worker.beat(job, job.upper(), cpu_percent=12.5, memory_bytes=1000) == {
        "lost": [], "cancel": [], "draining": False,
    }  # fmt: skip
    [shown] = (await door.http.get("/workers")).json()["items"]
    assert shown["running"] == [job]
    [shown] = (await door.http.get("/api/v1/workers")).json()["items"]
    assert (shown["running"], shown["cpu_percent"], shown["memory_bytes"]) == (1, 12.5, 1000)
    assert await worker.said(leased, "complete") == "accepted"


async def test_a_heartbeat_tells_what_is_lost(door: Door) -> None:
    """A job of another worker, one that has ended, one that was deleted, one that never was."""
    worker, other = await a_remote(door.http), await a_remote(door.http)
    foreign, ended, deleted = [await a_command(door.http) for _ in range(3)]
    theirs = await other.take()
    assert theirs["job"] == foreign
    done, gone = await worker.lease(max=2)
    await worker.said(done, "complete")
    assert (await door.http.delete(f"/api/v1/jobs/{gone['job']}")).status_code == 204

    beat = await worker.beat(foreign, ended, deleted, NOBODY)
    assert (set(beat["lost"]), beat["cancel"]) == ({foreign, ended, deleted, NOBODY}, [])
    assert (await other.beat(foreign))["lost"] == []
    refused(await worker.tell(gone, "complete"), 404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "running"),
        ({"running": None}, "running"),
        ({"running": "x"}, "running"),
        ({"running": ["x"]}, "running[0]"),
        ({"running": [5]}, "running[0]"),
        ({"running": [NOBODY] * 1001}, "running"),
        ({"running": [], "cpu_percent": -1}, "cpu_percent"),
        ({"running": [], "memory_bytes": 1.5}, "memory_bytes"),
        ({"running": [], "status": "ok"}, "status"),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_a_bad_heartbeat_is_refused(door: Door, body: dict[str, Any], field: str) -> None:
    """And counts for nothing."""
    worker = await a_remote(door.http)
    invalid(await worker.post("heartbeat", **body), field)


@pytest.mark.parametrize("verb", ["complete", "fail", "release"])
async def test_a_canceled_job_is_told_and_ends_canceled(door: Door, verb: str) -> None:
    """With the next heartbeat; what its worker then reports ends it, unless it had completed."""
    worker = await a_remote(door.http)
    job = await a_command(door.http)
    leased = await worker.take()
    assert (await door.http.post(f"/jobs/{job}/cancel")).json()["status"] == "running"

    assert (await worker.beat(job))["cancel"] == [job]
    body = {"error": "stopped"} if verb == "fail" else {}
    assert await worker.said(leased, verb, **body) == "accepted"
    expected = JobStatus.COMPLETED if verb == "complete" else JobStatus.CANCELED
    assert await statuses(door.store, [job]) == [expected]
    assert await worker.said(leased, verb, **body) == "already_done"


async def test_a_worker_that_drains_is_told_and_gets_nothing_more(wide_door: Door) -> None:
    """With heartbeats and leases; what it holds is its own to finish.  Resumed, it works again."""
    worker = await a_remote(wide_door.http)
    held = await a_command(wide_door.http)
    leased = await worker.take()
    response = await wide_door.http.post(f"/api/v1/workers/{worker.id}/drain")
    waiting = await a_command(wide_door.http)

    assert (response.status_code, response.json()["draining"]) == (200, True)
    assert (await worker.post("lease", wait_s=60)).json() == {"items": [], "draining": True}
    assert await worker.beat(held) == {"lost": [], "cancel": [], "draining": True}
    assert await worker.said(leased, "complete") == "accepted"
    [shown] = (await wide_door.http.get("/api/v1/workers")).json()["items"]
    assert (shown["draining"], shown["status"]) == (True, "online")

    resumed = await wide_door.http.post(f"/api/v1/workers/{worker.id}/resume")
    assert (resumed.status_code, resumed.json()["draining"]) == (200, False)
    assert (await worker.take())["job"] == waiting


async def test_a_worker_that_leaves_gives_back_what_it_holds(wide_door: Door) -> None:
    """At no cost, wherever it is; then it is unknown."""
    worker = await a_remote(wide_door.http, concurrency=100)
    jobs = [await a_command(wide_door.http) for _ in range(12)]
    assert len(await worker.lease(max=20)) == 12

    response = await wide_door.http.delete(f"/workers/{worker.id}")
    assert (response.status_code, response.json()) == (200, {"released": 12})
    assert [(job.status, job.attempt) for job in [await record(wide_door.store, job) for job in jobs]] == [
        (JobStatus.READY, 0)
    ] * 12
    assert (await wide_door.http.get("/workers")).json()["items"] == []
    refused(await wide_door.http.delete(f"/workers/{worker.id}"), 404, "NOT_FOUND")


async def test_a_worker_that_leaves_leaves_nothing_behind(wide_door: Door) -> None:
    """But for a second, in which a request of it that is about to wait finds that it need not."""
    worker = await a_remote(wide_door.http)
    await wide_door.http.delete(f"/workers/{worker.id}")
    for partition in wide_door.store.partitions:
        await partition.leases.nudge(worker.id)  # as such a request does, for its reads in all partitions
    keys = [partition.keys("inbox", worker.id) for partition in wide_door.store.partitions]

    assert max([await wide_door.store.redis.pttl(key) for key in keys]) <= 1000

    async def gone() -> bool:
        return not await wide_door.store.redis.exists(*keys)

    await until(gone, "end of its inboxes")


async def test_who_is_not_registered_is_told_to_register(door: Door) -> None:
    """Never heard of, left, buried, or one of our own, who do not speak HTTP."""
    left, buried = await a_remote(door.http), await a_remote(door.http)
    await door.http.delete(f"/workers/{left.id}")
    await bury(door, buried.id)
    await a_worker(door.store, "w1")
    job = await a_command(door.http)

    for worker in ("nobody", left.id, buried.id, "w1"):
        for tail, body in (
            ("heartbeat", {"running": []}),
            ("lease", {"wait_s": 0}),
            ("lease", {"wait_s": 5}),
            ("lease", {"wait_s": 0, "running": []}),
            (f"jobs/{job}/complete", {"token": f"{worker}:{job}:1"}),
            (f"jobs/{job}/logs", {"token": "x", "stream": "stdout", "text": ""}),
        ):
            error = refused(await door.http.post(f"/workers/{worker}/{tail}", json=body), 404, "NOT_FOUND")
            assert "POST /workers/register" in error["message"]
    refused(await door.http.delete("/workers/w1"), 404, "NOT_FOUND")
    assert (await door.http.delete(f"/workers/{buried.id}")).status_code == 200


async def test_a_partition_that_comes_later_asks_for_a_new_registration(wide_door: Door) -> None:
    """A worker that one partition does not know is not registered."""
    worker = await a_remote(wide_door.http)
    await wide_door.store.partitions[3].workers.leave(worker.id)

    refused(await worker.post("heartbeat", running=[]), 404, "NOT_FOUND")


async def test_unknown_parameters_are_refused(door: Door) -> None:
    """None of these requests takes any."""
    worker = await a_remote(door.http)
    for method, path, body in (
        ("POST", "/workers/register", REGISTER),
        ("POST", f"/workers/{worker.id}/heartbeat", {"running": []}),
        ("POST", f"/workers/{worker.id}/lease", {}),
        ("POST", f"/workers/{worker.id}/jobs/{NOBODY}/complete", {"token": "x"}),
        ("DELETE", f"/workers/{worker.id}", None),
    ):
        invalid(await door.http.request(method, path, json=body, params={"x": "1"}), "x")
