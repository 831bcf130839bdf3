"""GET and PATCH /api/v1/queues, GET /api/v1/workers."""

from typing import Any

import pytest

from taskflow_streams import Pool
from tests.integration.api.door import Door, conflict, invalid, refused
from tests.support.engine import HANDLER, a_running_job, a_worker

QUEUES = "/api/v1/queues"
WORKERS = "/api/v1/workers"


async def listed(door: Door) -> dict[str, dict[str, Any]]:
    """All queues by name."""
    response = await door.http.get(QUEUES)
    assert response.status_code == 200, response.text
    return {queue["name"]: queue for queue in response.json()["items"]}


async def patch(door: Door, name: str = "q", **changes: Any) -> dict[str, Any]:
    """A queue after a change; the list then says the same."""
    response = await door.http.patch(f"{QUEUES}/{name}", json=changes)
    assert response.status_code == 200, response.text
    queue: dict[str, Any] = response.json()
    assert (await listed(door))[name] == queue
    return queue


async def test_queues_appear_with_their_first_job(door: Door) -> None:
    """With what waits and what runs in them, sorted by name."""
    assert await listed(door) == {}
    await a_running_job(door.store)
    for queue in ("q", "q", "b"):
        await door.create(queue=queue)
    found = await listed(door)

    assert list(found) == ["b", "q"]
    settings = {"paused": False, "max_concurrent": None, "weight": 1, "reason": None}
    assert found["q"] == {"name": "q", "waiting": 2, "running": 1} | settings
    assert found["b"] == {"name": "b", "waiting": 1, "running": 0} | settings


async def test_a_queue_is_changed_in_part(door: Door) -> None:
    """What is not sent stays, null takes back; resuming forgets the reason."""
    await patch(door, max_concurrent=4, weight=2.5)
    paused = await patch(door, paused=True, reason="the disk is full")
    assert paused == {
        "name": "q", "waiting": 0, "running": 0, "paused": True, "max_concurrent": 4, "weight": 2.5,
        "reason": "the disk is full",
    }  # fmt: skip
    resumed = await patch(door, paused=False)
    assert (resumed["paused"], resumed["reason"], resumed["max_concurrent"]) == (False, None, 4)
    assert (await patch(door, paused=False, reason="watch it"))["reason"] == "watch it"
    fresh = await patch(door, max_concurrent=None, weight=None, reason=None, paused=None)
    assert (fresh["max_concurrent"], fresh["weight"], fresh["reason"]) == (None, 1, None)
    assert await patch(door) == fresh


async def test_a_paused_queue_gives_nothing_out(door: Door) -> None:
    """And what it held back runs when it is resumed."""
    worker = await a_worker(door.store)
    await patch(door, paused=True)
    job = await door.create()

    assert await worker.lease() == []
    await patch(door, paused=False)
    assert (await worker.take()).job_id == job["id"]


async def test_a_limit_is_kept(door: Door) -> None:
    """No more than so many of a queue's jobs run at once; raised, more do."""
    worker = await a_worker(door.store)
    for _ in range(5):
        await door.create()
    await patch(door, max_concurrent=2)

    assert len(await worker.lease(5)) == 2
    await patch(door, max_concurrent=3)
    assert len(await worker.lease(5)) == 1


async def test_names_of_other_doors_are_queues_too(door: Door) -> None:
    """With hyphens and dots; what can be no queue's name is not found."""
    assert (await patch(door, "gpu-1.a", max_concurrent=1))["name"] == "gpu-1.a"
    for name in ("a%20b", "q%0A", "ü", "a" * 65, "%00"):
        refused(await door.http.patch(f"{QUEUES}/{name}", json={}), 404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"paused": 1}, "paused"),
        ({"paused": "yes"}, "paused"),
        ({"max_concurrent": 0}, "max_concurrent"),
        ({"max_concurrent": 1.0}, "max_concurrent"),
        ({"max_concurrent": True}, "max_concurrent"),
        ({"weight": 0}, "weight"),
        ({"weight": "1"}, "weight"),
        ({"reason": ""}, "reason"),
        ({"reason": "x" * 501}, "reason"),
        ({"name": "other"}, "name"),
        ({"limit": 1}, "limit"),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_a_bad_setting_is_refused(door: Door, changes: dict[str, Any], field: str) -> None:
    """By its name."""
    invalid(await door.http.patch(f"{QUEUES}/q", json=changes), field)
    assert await listed(door) == {}


async def test_a_limit_is_shared_by_the_partitions(wide_door: Door) -> None:
    """Their parts add up to it, and none gets nothing."""
    assert (await patch(wide_door, max_concurrent=6))["max_concurrent"] == 6
    parts = [(await partition.queues.get("q")).max_concurrent for partition in wide_door.store.partitions]
    assert parts == [2, 2, 1, 1]
    conflict(await wide_door.http.patch(f"{QUEUES}/q", json={"max_concurrent": 3}), "4 partitions")
    assert (await patch(wide_door, paused=True))["paused"]
    for _ in range(12):
        await wide_door.create()
    for partition in range(4):
        await a_worker(wide_door.store, partition=partition)
    assert (await listed(wide_door))["q"]["waiting"] == 12


async def workers(door: Door) -> dict[str, dict[str, Any]]:
    """All workers by id."""
    response = await door.http.get(WORKERS)
    assert response.status_code == 200, response.text
    return {worker["id"]: worker for worker in response.json()["items"]}


async def test_workers_are_listed_as_they_describe_themselves(wide_door: Door) -> None:
    """Each once, though it works for all partitions."""
    about: dict[str, str | int | float] = {
        "name": "one", "queues": "*", "concurrency": 8, "running": 2, "started_ms": 1_767_323_045_678, "pid": 7,
        "running_ids": "a,b", "cpu": 12.5, "rss": 1000, "status": "degraded",
    }  # fmt: skip
    before = await wide_door.store.now_ms()
    for partition in wide_door.store.partitions:
        await partition.workers.join("w1", Pool(frozenset({HANDLER})), about)
    found = await workers(wide_door)

    assert list(found) == ["w1"]
    heartbeat = found["w1"].pop("last_heartbeat")
    assert found["w1"] == {
        "id": "w1", "name": "one", "kind": "process", "queues": None, "concurrency": 8, "running": 2,
        "started_at": "2026-01-02T03:04:05.678Z", "status": "degraded", "draining": False, "running_ids": ["a", "b"],
        "cpu_percent": 12.5, "memory_bytes": 1000,
    }  # fmt: skip
    assert heartbeat >= (await wide_door.create())["created_at"][:10]
    assert before <= await wide_door.store.now_ms()


async def test_a_worker_is_told_to_take_no_more(wide_door: Door) -> None:
    """The order is in its inbox, whichever partition it looks at first; an unknown worker is 404."""
    for partition in wide_door.store.partitions:
        await partition.workers.join("w1", Pool(frozenset({HANDLER})), {"queues": "*"})

    response = await wide_door.http.post(f"{WORKERS}/w1/drain")

    assert (response.status_code, response.json()["id"]) == (200, "w1")
    for partition in wide_door.store.partitions:
        assert [order.verb for order in await partition.leases.orders("w1")] == ["drain"]
    assert (await wide_door.http.post(f"{WORKERS}/nobody/drain")).status_code == 404


async def test_a_silent_worker_is_offline(door: Door) -> None:
    """After the visibility time-out, or once it has been taken for dead."""
    partition = door.store.partitions[0]
    now = await door.store.now_ms()
    partition.scripts.now_ms = now - 15_500
    await partition.workers.join("silent", Pool(frozenset({HANDLER})), {"queues": "a,b"})
    partition.scripts.now_ms = now
    await partition.workers.join("live", Pool(frozenset({HANDLER})), {})
    partition.scripts.now_ms = None
    found = await workers(door)

    assert (found["silent"]["status"], found["silent"]["queues"]) == ("offline", ["a", "b"])
    assert (found["live"]["status"], found["live"]["name"], found["live"]["started_at"]) == ("online", "live", None)


@pytest.mark.parametrize("path", [QUEUES, WORKERS])
async def test_lists_take_no_parameters(door: Door, path: str) -> None:
    """Who sends one is told."""
    invalid(await door.http.get(path, params={"limit": "5"}), "limit")
