"""POST /workers/{id}/lease: who gets which jobs, and how long one waits for them."""

import asyncio
from typing import Any

import pytest

from taskflow_streams import Store
from tests.integration.api.door import Door, invalid, open_door, refused
from tests.integration.api.remote import a_command, a_remote
from tests.support.engine import a_worker, record
from tests.support.working import until

SOON_S = 10.0  # a woken request answers at once; a busy machine takes its time


async def nobody_waits(door: Door) -> None:
    """Wait until no request waits in the api any more."""
    patience = door.http._transport.app._app.state.api.patience  # type: ignore[attr-defined]

    async def none() -> bool:
        return bool(patience.waiting == 0)

    await until(none, "end of all waiting")


async def somebody_waits(door: Door, worker_id: str) -> None:
    """Wait until the worker sleeps in a blocking read of the server."""

    async def blocked() -> bool:
        clients = await door.store.redis.client_list()
        return any(client["cmd"] == "bzpopmin" and "b" in client["flags"] for client in clients)

    await until(blocked, f"blocking read for {worker_id}")


async def test_a_lease_has_all_that_a_worker_needs(door: Door) -> None:
    """The executor's fields as they were sent, the token, and what to keep to."""
    worker = await a_remote(door.http)
    job = await a_command(door.http, queue="team-a.fast", timeout_s=1.5, env={"A": "1"})
    leased = await worker.take(max=5)

    assert leased.pop("created_at").endswith("Z")
    assert leased == {
        "job": job, "token": f"{worker.id}:{job}:1", "type": "shell", "handler": "@shell", "name": "echo hello",
        "task": None,
        "queue": "team-a.fast", "payload": {"cmd": "echo hello", "timeout_s": 1.5, "env": {"A": "1"}},
        "attempt": 1, "fence": 1, "timeout_s": 1.5,
    }  # fmt: skip
    shown = (await door.http.get(f"/jobs/{job}")).json()
    assert (shown["status"], shown["lease"]["worker_id"]) == ("running", worker.id)


async def test_handlers_and_queues_decide_who_gets_what(door: Door) -> None:
    """Tasks by name, executors with an @; who names none runs shell jobs."""
    shell = await a_remote(door.http, queues=["general"])
    tasks = await a_remote(door.http, handlers=["resize", "@python"])
    elsewhere = await a_remote(door.http, queues=["other"])
    command = await a_command(door.http)
    resize = await door.create(name="cat", task="resize", payload={"w": 1})
    python = (await door.http.post("/jobs", json={"type": "python", "callable": "m:f"})).json()["id"]
    await door.create(name="crop")

    assert [leased["job"] for leased in await shell.lease(max=4)] == [command]
    found = {leased["job"]: leased for leased in await tasks.lease(max=4)}
    assert set(found) == {resize["id"], python}
    assert (found[resize["id"]]["type"], found[resize["id"]]["task"]) == ("task", "resize")
    assert (found[resize["id"]]["name"], found[resize["id"]]["payload"]) == ("cat", {"w": 1})
    assert await elsewhere.lease(max=4) == []


async def test_no_more_than_asked_for_and_no_more_than_it_can_run(wide_door: Door) -> None:
    """`max` counts over all partitions, and so does the worker's concurrency."""
    worker = await a_remote(wide_door.http, concurrency=3)
    for _ in range(10):
        await a_command(wide_door.http)

    assert len(await worker.lease(max=2)) == 2
    assert len(await worker.lease(max=100)) == 3
    assert len(await worker.lease()) == 1


async def test_who_says_what_it_runs_gets_no_more_than_it_can_run(wide_door: Door) -> None:
    """The concurrency counts over all answers then; who has no room is told so at once, and takes nobody's bell."""
    worker = await a_remote(wide_door.http, concurrency=3)
    jobs = [await a_command(wide_door.http) for _ in range(6)]
    running: list[str] = []
    for expected in (2, 1, 0):
        leases = await worker.lease(max=2, wait_s=0, running=running)
        running += [leased["job"] for leased in leases]
        assert len(leases) == expected

    full = await asyncio.wait_for(worker.post("lease", max=5, wait_s=60, running=running), SOON_S)
    assert full.json() == {"items": [], "draining": False}
    assert await worker.lease(max=5, running=jobs) == []
    assert len(await worker.lease(max=5, running=running[:1])) == 2


async def test_who_does_not_say_what_it_runs_is_bounded_answer_by_answer(door: Door) -> None:
    """As the description says: several such requests may be under way, and none knows of the others."""
    worker = await a_remote(door.http, concurrency=1)
    for _ in range(3):
        await a_command(door.http)

    assert [len(await worker.lease(max=5)) for _ in range(4)] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"max": 0}, "max"),
        ({"max": 101}, "max"),
        ({"max": "5"}, "max"),
        ({"wait_s": -1}, "wait_s"),
        ({"wait_s": 60.5}, "wait_s"),
        ({"wait_s": "20"}, "wait_s"),
        ({"running": ["x"]}, "running[0]"),
        ({"count": 1}, "count"),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_a_bad_request_for_jobs_is_refused(door: Door, body: dict[str, Any], field: str) -> None:
    """With the field that is wrong."""
    worker = await a_remote(door.http)
    await a_command(door.http)
    invalid(await worker.post("lease", **body), field)
    assert len(await worker.lease()) == 1


@pytest.mark.parametrize("wide", [False, True])
async def test_who_waits_is_woken_by_a_job(door: Door, wide_door: Door, wide: bool) -> None:
    """It sleeps in a blocking read, whatever partition the job comes to."""
    door = wide_door if wide else door
    worker = await a_remote(door.http)
    for _ in range(4):
        waiting = asyncio.create_task(worker.take(max=5, wait_s=60))
        await somebody_waits(door, worker.id)
        job = await a_command(door.http)
        leased = await asyncio.wait_for(waiting, SOON_S)
        assert leased["job"] == job
        await nobody_waits(door)


async def test_the_wait_has_an_end(door: Door) -> None:
    """Then there are no items; meanwhile the worker counted as alive."""
    worker = await a_remote(door.http)
    before = (await door.http.get("/workers")).json()["items"][0]["last_heartbeat"]

    assert await worker.lease(wait_s=0.3) == []
    assert (await door.http.get("/workers")).json()["items"][0]["last_heartbeat"] > before


async def test_who_waits_longer_than_the_visibility_timeout_is_not_buried(store: Store) -> None:
    """The api shows that it lives, as long as it waits."""
    door = open_door(store, heartbeat_s=0.1, lease_renewal_s=0.1, visibility_timeout_s=0.5)
    worker = await a_remote(door.http)
    waiting = asyncio.create_task(worker.take(wait_s=60))
    registered_ms = await store.now_ms()

    async def later() -> bool:
        return await store.now_ms() > registered_ms + 1000

    await until(later, "second")
    silent = await store.partitions[0].workers.silent_since(await store.now_ms() - 500)
    assert silent == []
    await a_command(door.http)
    await asyncio.wait_for(waiting, SOON_S)


async def test_two_workers_race_and_each_job_is_leased_once(wide_door: Door) -> None:
    """Both wait, both are woken, none gets what the other has."""
    workers = [await a_remote(wide_door.http, concurrency=100) for _ in range(2)]
    found: list[str] = []

    async def work(index: int) -> None:
        while len(found) < 40:
            leases = await workers[index].lease(max=3, wait_s=1)
            found.extend(leased["job"] for leased in leases)
            for leased in leases:
                assert await workers[index].said(leased, "complete", result=index) == "accepted"

    working = [asyncio.create_task(work(index)) for index in range(2)]
    jobs = [await a_command(wide_door.http) for _ in range(40)]
    await asyncio.wait_for(asyncio.gather(*working), 60)

    assert sorted(found) == sorted(jobs)
    assert {(await record(wide_door.store, job)).attempt for job in jobs} == {1}


async def test_a_drained_worker_does_not_wait_on(door: Door) -> None:
    """The order ends its wait."""
    worker = await a_remote(door.http)
    waiting = asyncio.create_task(worker.post("lease", wait_s=60))
    await somebody_waits(door, worker.id)
    await door.http.post(f"/api/v1/workers/{worker.id}/drain")

    assert (await asyncio.wait_for(waiting, SOON_S)).json() == {"items": [], "draining": True}


async def test_a_worker_that_left_does_not_wait_on(door: Door) -> None:
    """It is told that it is unknown."""
    worker = await a_remote(door.http)
    waiting = asyncio.create_task(worker.post("lease", wait_s=60))
    await somebody_waits(door, worker.id)
    await door.http.delete(f"/workers/{worker.id}")

    refused(await asyncio.wait_for(waiting, SOON_S), 404, "NOT_FOUND")


async def test_too_many_who_wait_are_put_off(store: Store) -> None:
    """Each holds a connection to the broker."""
    door = open_door(store, stream_limit=1)
    worker, other = await a_remote(door.http), await a_remote(door.http)
    waiting = asyncio.create_task(worker.take(wait_s=60))
    await somebody_waits(door, worker.id)

    response = await other.post("lease", wait_s=1)
    refused(response, 503, "UNAVAILABLE")
    assert response.headers["retry-after"]
    assert await other.lease(wait_s=0) == []
    await a_command(door.http)
    await asyncio.wait_for(waiting, SOON_S)


async def test_a_bell_that_was_taken_rings_for_the_others(door: Door) -> None:
    """An http worker shares the bell of its pool with all who take the same."""
    worker = await a_remote(door.http, handlers=["work"])
    near = await a_worker(door.store)
    await near.hears_bell()
    await door.store.partitions[0].leases.ring(near.pool)
    assert await near.hears_bell()
    await door.http.delete(f"/workers/{worker.id}")
    await near.partition.workers.leave(near.name)
    await door.store.partitions[0].leases.ring(near.pool)
    assert not await near.hears_bell()
