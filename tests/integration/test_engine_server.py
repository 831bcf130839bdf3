"""The server's bad days: it forgets its scripts, is full, unfit, or away.  Nothing accepted is lost."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from taskflow_domain import JobStatus
from taskflow_streams import Full, How, Order, Renewed, Reported, Store, Unavailable, Unfit
from taskflow_streams.connection import check_fitness
from taskflow_streams.embedded import EmbeddedServer
from tests.support.consistency import faults
from tests.support.engine import (
    POOL,
    Worker,
    a_job,
    a_running_job,
    a_worker,
    an_ended_job,
    new_job,
    reap,
    settle,
    stall,
    status,
)


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[tuple[EmbeddedServer, Store]]:
    """A durable server that belongs to this test alone, and a store on it."""
    with EmbeddedServer(tmp_path) as server:
        store = await Store.connect(server.url)
        yield server, store
        await store.close()


async def fill_up(store: Store) -> None:
    """Let the server have no memory left."""
    used, _ = await store.memory()
    await store.redis.config_set("maxmemory", used - 1)


async def test_scripts_that_the_server_forgot_are_sent_again(store: Store) -> None:
    """A restart or SCRIPT FLUSH goes unnoticed."""
    worker = await a_worker(store)
    for _ in range(2):
        await store.redis.script_flush()
        await a_job(store)
        assert await worker.complete(await worker.take()) is Reported.OK


async def test_a_full_server_takes_nothing_new(own: tuple[EmbeddedServer, Store]) -> None:
    """And says so; when there is room again, it goes on."""
    _, store = own
    job = new_job(store)
    await fill_up(store)

    with pytest.raises(Full):
        await store.submit([job])

    assert await status(store, job.id) is None
    await store.redis.config_set("maxmemory", 0)
    await store.submit([job])
    assert await status(store, job.id) is JobStatus.READY


async def test_a_full_server_still_drains(own: tuple[EmbeddedServer, Store]) -> None:
    """Workers may come, take, renew, end and give back; waiting jobs move; what is old can go."""
    _, store = own
    partition = store.partitions[0]
    worker = await a_worker(store)
    parent = await a_job(store)
    child = await a_job(store, dependencies=(parent,))
    await store.submit([new_job(store, order=9) for _ in range(4)])
    delayed = await a_job(store, delay_ms=1)
    await fill_up(store)

    held = await worker.take()
    assert held.job_id == parent
    assert await worker.renew(held) == [Renewed.OK]
    assert await worker.complete(held, b"1") is Reported.OK
    assert await settle(store) == 1
    assert (await worker.take()).job_id == child
    second, third, fourth = await (await a_worker(store, "w2")).lease(3)
    assert await Worker(partition, "w2").fail(second) is Reported.OK
    await stall(store, third)
    assert await reap(store) == (1, 0)
    await store.cancel(fourth.job_id)
    assert await Worker(partition, "w2").report(fourth, How.CANCELED) is Reported.OK
    assert await store.cancel(delayed) == "canceled"
    assert await partition.leases.resync("w1", []) == 1
    removed, _ = await partition.upkeep.retire(await store.now_ms() + 1)
    assert removed == 3

    await store.redis.config_set("maxmemory", 0)
    assert await faults(store) == []


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
async def test_a_server_that_evicts_is_refused(own: tuple[EmbeddedServer, Store], policy: str) -> None:
    """With a sentence that says why and what to do."""
    server, store = own
    await store.redis.config_set("maxmemory-policy", policy)

    with pytest.raises(Unfit, match=f"maxmemory-policy is {policy}.*noeviction"):
        await Store.connect(server.url)


class Pretender:
    """A server that says it is another."""

    def __init__(self, **server: str) -> None:
        self._server = server

    async def info(self, section: str) -> dict[str, Any]:
        """Its answer to INFO."""
        return self._server if section == "server" else {"maxmemory_policy": "noeviction"}


@pytest.mark.parametrize(
    ("server", "fit"),
    [
        ({"redis_version": "6.2.14"}, False),
        ({"redis_version": "7.0.0"}, True),
        ({"redis_version": "8.2.1"}, True),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.0"}, True),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.2"}, True),
        ({"redis_version": "7.2.4", "valkey_version": "7.1.9"}, False),
        ({}, False),
    ],
)
async def test_the_floor_is_redis_7_0_and_valkey_7_2(server: dict[str, str], fit: bool) -> None:
    """What is older is refused with a sentence."""
    if fit:
        await check_fitness(Pretender(**server))
    else:
        with pytest.raises(Unfit, match="too old"):
            await check_fitness(Pretender(**server))


async def test_a_server_that_cannot_write_now_is_unavailable(own: tuple[EmbeddedServer, Store]) -> None:
    """Too few replicas, a full disk: an error to wait out, not a bug."""
    _, store = own
    await store.redis.config_set("min-replicas-to-write", 1)

    with pytest.raises(Unavailable):
        await store.submit([new_job(store)])

    await store.redis.config_set("min-replicas-to-write", 0)
    await a_job(store)


async def test_a_dead_server_is_unavailable_and_all_is_there_when_it_is_back(
    own: tuple[EmbeddedServer, Store],
) -> None:
    """The same store goes on: waiting jobs, leases, workers and idempotency keys have survived kill -9."""
    server, store = own
    held = await a_running_job(store)
    waiting = await a_job(store)
    ended = await an_ended_job(store, JobStatus.CANCELED)
    sleeping = asyncio.create_task(store.partitions[0].leases.wait("w1", POOL, 20))
    await store.redis.ping()
    server.kill()

    calls = [store.ping(), store.submit([new_job(store)]), store.get([waiting]), store.memory(), store.now_ms()]
    for call in calls:
        with pytest.raises(Unavailable):
            await call
    with pytest.raises(Unavailable):
        await sleeping
    with pytest.raises(Unavailable):
        await Store.connect(server.url)

    server.start()
    worker = Worker(store.partitions[0])
    assert await worker.renew(held) == [Renewed.OK]
    assert await worker.complete(held) is Reported.OK
    assert (await worker.take()).job_id == waiting
    assert await status(store, ended) is JobStatus.CANCELED
    assert await faults(store) == []


async def test_a_bell_is_heard_after_a_reconnect(own: tuple[EmbeddedServer, Store]) -> None:
    """Orders and bells are kept like everything else."""
    server, store = own
    held = await a_running_job(store)
    await store.cancel(held.job_id)
    await a_job(store)
    server.kill()
    server.start()
    leases = store.partitions[0].leases

    assert await leases.wait("w1", POOL, 10) == Order("cancel", held.job_id, 1)
    assert await leases.wait("w1", POOL, 10) is True


async def test_a_burst_of_callers_is_served(store: Store) -> None:
    """More at once than there are connections: some wait a moment, none is refused."""
    job = await a_job(store)

    found = await asyncio.gather(*(store.get([job]) for _ in range(500)))

    assert all(record is not None and record.id == job for [record] in found)
