"""GET /workers: who works, in the columns of S2."""

from typing import Any

from taskflow_streams import Pool
from tests.integration.api.door import Door, invalid
from tests.support.engine import HANDLER

POOL = Pool(frozenset({HANDLER}))


async def listed(door: Door) -> dict[str, dict[str, Any]]:
    """All workers by id."""
    response = await door.http.get("/workers")
    assert response.status_code == 200, response.text
    return {worker["id"]: worker for worker in response.json()["items"]}


async def test_a_worker_has_the_columns_of_s2(wide_door: Door) -> None:
    """Each once, though it works for all partitions, with the jobs that it runs."""
    about: dict[str, str | int | float] = {
        "name": "one", "queues": "a,b", "concurrency": 8, "running": 2, "started_ms": 1_767_323_045_678,
        "running_ids": "x,y",
    }  # fmt: skip
    for partition in wide_door.store.partitions:
        await partition.workers.join("w1", POOL, about)
    found = await listed(wide_door)

    assert found["w1"].pop("last_heartbeat").endswith("Z")
    assert found == {
        "w1": {
            "id": "w1", "name": "one", "queues": ["a", "b"], "concurrency": 8, "status": "online",
            "started_at": "2026-01-02T03:04:05.678Z", "running": ["x", "y"],
        }
    }  # fmt: skip


async def test_a_late_worker_is_degraded_and_a_silent_one_offline(door: Door) -> None:
    """Two heartbeats may be missing, and a visibility time-out; it is online as soon as it speaks again."""
    partition = door.store.partitions[0]
    now = await door.store.now_ms()
    for name, silent_s in (("live", 0), ("late", 11), ("gone", 16)):
        partition.scripts.now_ms = now - silent_s * 1000
        await partition.workers.join(name, POOL, {})
    partition.scripts.now_ms = None
    found = await listed(door)

    assert {name: worker["status"] for name, worker in found.items()} == {
        "live": "online", "late": "degraded", "gone": "offline",
    }  # fmt: skip
    assert found["live"]["queues"] == ["*"]
    await partition.leases.renew("late", [])
    assert (await listed(door))["late"]["status"] == "online"


async def test_the_list_takes_no_parameters(door: Door) -> None:
    """Who sends one is told."""
    invalid(await door.http.get("/workers", params={"page": "1"}), "page")
