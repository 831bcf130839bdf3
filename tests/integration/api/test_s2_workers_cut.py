"""Leases over HTTP when the connection is cut, at each point where it can be: nothing is orphaned, nothing lost.

A real server, and sockets in the test's own hands.
"""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from taskflow_domain import JobStatus
from taskflow_runtime.settings import Address
from taskflow_runtime.web import Web, listen
from taskflow_streams import Lease, Order, Pool, Store
from taskflow_streams.leases import Leases
from tests.integration.api.door import Door, Json, conflict, open_door
from tests.integration.api.remote import Remote, a_command, a_remote
from tests.support.engine import Worker, history, record, status
from tests.support.working import until

NEVER_S = 60.0
HEARTBEAT_S = 25  # as often those who wait look without a bell, which no test here lives to see
SOON_S = 15.0
SHELL_POOL = Pool(frozenset({"@shell"}))


class Wire:
    """A request whose connection can be cut."""

    def __init__(self, web: Web, path: str, body: Json) -> None:
        self.socket = socket.create_connection(("127.0.0.1", web.port))
        sent = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n"
        )
        self.socket.sendall(head.encode() + sent)

    def cut(self) -> None:
        """As if the cable was pulled: nothing of what may still come is read."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    async def answered(self) -> None:
        """Wait until the answer is in our kernel, and read nothing of it."""
        self.socket.setblocking(False)

        async def there() -> bool:
            try:
                return bool(self.socket.recv(1, socket.MSG_PEEK))
            except BlockingIOError:
                return False

        await until(there, "answer")


class Street:
    """A real server in front of a store, and a worker behind the wire."""

    def __init__(self, door: Door, web: Web, http: httpx.AsyncClient, worker: Remote) -> None:
        self.door, self.store, self.web, self.http, self.worker = door, door.store, web, http, worker

    def ask(self, **body: Any) -> Wire:
        """Ask for jobs over a wire of its own."""
        return Wire(self.web, f"/workers/{self.worker.id}/lease", {"wait_s": NEVER_S, "max": 5} | body)

    async def asleep(self, count: int = 1) -> None:
        """Wait until so many requests sleep in a blocking read."""

        async def blocked() -> bool:
            clients = await self.store.redis.client_list()
            flags = [client["flags"] for client in clients if client["cmd"] == "bzpopmin"]
            return sum("b" in each for each in flags) == count

        await until(blocked, f"{count} blocking reads")


@pytest.fixture(params=[1, 4])
async def street(request: pytest.FixtureRequest, connect: Any) -> AsyncIterator[Street]:
    """With one partition, and with four."""
    store: Store = await connect(request.param)
    door = open_door(store, heartbeat_s=HEARTBEAT_S, visibility_timeout_s=100)
    web = Web(listen(Address("127.0.0.1", 0, "")), door.http._transport.app)  # type: ignore[attr-defined]
    web.start()
    async with httpx.AsyncClient(base_url=web.url, timeout=NEVER_S) as http:
        yield Street(door, web, http, await a_remote(http))
    await web.stop()


async def ready_at_no_cost(store: Store, job: str) -> None:
    """Wait until a job is there for others, and has cost no attempt."""

    async def back() -> bool:
        found = await record(store, job)
        return (found.status, found.attempt) == (JobStatus.READY, 0)

    await until(back, f"release of {job}")


async def test_a_client_that_goes_while_it_waits_gets_nothing(street: Street) -> None:
    """The blocking read ends with it; a job that comes later is never leased to it."""
    wire = street.ask()
    await street.asleep(len(street.store.partitions))
    wire.cut()
    await street.asleep(0)
    job = await a_command(street.http)

    assert await status(street.store, job) is JobStatus.READY
    other = await a_remote(street.http)
    assert (await other.take())["job"] == job
    assert [event.type for event in await history(street.store, job)].count("job.started") == 1


async def test_a_bell_that_a_cut_client_took_wakes_another(street: Street, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of one pool wait; the bell wakes one that is cut before it can look.  The other gets the job."""
    taken, cut = asyncio.Event(), asyncio.Event()
    wait = Leases.wait

    async def slowly(self: Leases, worker: str, pool: Pool | None, seconds: float) -> Order | bool:
        heard = await wait(self, worker, pool, seconds)
        if heard is True and not cut.is_set():
            taken.set()
            await cut.wait()
        return heard

    monkeypatch.setattr(Leases, "wait", slowly)
    other = await a_remote(street.http)
    wire = street.ask()
    await street.asleep(len(street.store.partitions))
    waiting = asyncio.create_task(other.take(wait_s=NEVER_S))
    await street.asleep(2 * len(street.store.partitions))
    job = await a_command(street.http)
    await asyncio.wait_for(taken.wait(), NEVER_S)
    wire.cut()
    await street.http.get("/healthz")  # the server has read what came before, so it knows of the cut
    cut.set()

    leased = await asyncio.wait_for(waiting, SOON_S)
    assert leased["job"] == job
    assert await other.said(leased, "complete") == "accepted"


async def test_many_who_are_cut_when_a_job_comes_do_not_keep_it_from_another(street: Street) -> None:
    """Whichever of them was woken."""
    wires = [street.ask() for _ in range(3)]
    await street.asleep(3 * len(street.store.partitions))
    other = await a_remote(street.http)
    waiting = asyncio.create_task(other.take(wait_s=NEVER_S))
    await street.asleep(4 * len(street.store.partitions))
    coming = asyncio.create_task(a_command(street.http))
    for wire in wires:
        wire.cut()

    leased = await asyncio.wait_for(waiting, SOON_S)
    assert leased["job"] == await coming
    assert leased["attempt"] == 1


async def test_what_was_leased_for_a_client_that_has_gone_goes_back(
    street: Street, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went between the read and the answer: the api itself gives the job back, at once and at no cost."""
    taken, cut = asyncio.Event(), asyncio.Event()
    lease = Leases.lease

    async def slowly(self: Leases, worker: str, pool: Pool, want: int) -> list[Lease]:
        found = await lease(self, worker, pool, want)
        if found and not cut.is_set():
            taken.set()
            await cut.wait()
        return found

    monkeypatch.setattr(Leases, "lease", slowly)
    job = await a_command(street.http)
    wire = street.ask()
    await asyncio.wait_for(taken.wait(), NEVER_S)
    assert await status(street.store, job) is JobStatus.RUNNING
    wire.cut()
    await street.http.get("/healthz")  # the server has read what came before, so it knows of the cut
    cut.set()

    await ready_at_no_cost(street.store, job)
    assert [event.type for event in await history(street.store, job)][-2:] == ["job.started", "job.released"]


async def test_an_answer_that_was_lost_is_mended_by_the_next_request(street: Street) -> None:
    """It was written, and never read.  Who asks again with what it knows gets the same job, as its first attempt."""
    jobs = [await a_command(street.http) for _ in range(2)]
    known = await street.worker.take()
    wire = street.ask()
    await wire.answered()
    wire.cut()
    [lost] = [job for job in jobs if job != known["job"]]
    assert await status(street.store, lost) is JobStatus.RUNNING

    again = await street.worker.take(max=5, running=[known["job"]])
    assert (again["job"], again["attempt"], again["fence"]) == (lost, 1, 2)
    assert await street.worker.said(known, "complete") == "accepted"
    assert await street.worker.said(again, "complete") == "accepted"


async def test_an_answer_that_was_lost_is_mended_by_heartbeats(street: Street) -> None:
    """By the first that comes a heartbeat's pause later; what was leased since may still be on its way."""
    now_ms = await street.store.now_ms()
    leased = []
    for at_ms in (now_ms - HEARTBEAT_S * 1000, None):
        for partition in street.store.partitions:
            partition.scripts.now_ms = at_ms
        leased.append(await a_command(street.http))
        wire = street.ask()
        await wire.answered()
        wire.cut()
    old, young = leased
    await street.worker.beat()

    await ready_at_no_cost(street.store, old)
    assert await status(street.store, young) is JobStatus.RUNNING


async def test_a_worker_that_never_comes_back_loses_what_it_was_sent(street: Street) -> None:
    """The visibility time-out ends the lease; the job runs elsewhere, and the late answer is refused."""
    job = await a_command(street.http)
    wire = street.ask()
    await wire.answered()
    home = street.store.partition(job)
    assert home is not None
    await until(lambda: _reaped(street.store, job), "end of the lease")
    near = await Worker(home, "near", SHELL_POOL).join()
    held = await near.take()

    assert (held.job_id, held.lease.attempt) == (job, 2)
    late = {"job": job, "token": f"{street.worker.id}:{job}:1"}
    conflict(await street.worker.tell(late, "complete", result="late"), "wrong or old")
    await near.complete(held, b'"hers"')
    assert (await record(street.store, job)).value == b'"hers"'
    wire.cut()


async def _reaped(store: Store, job: str) -> bool:
    home = store.partition(job)
    assert home is not None
    return (await home.upkeep.reap("general", visibility_ms=200)) == (1, 0)


async def test_an_end_whose_answer_was_lost_can_be_told_again(street: Street) -> None:
    """It was accepted once; the second time it is already done."""
    job = await a_command(street.http)
    leased = await street.worker.take()
    wire = Wire(street.web, f"/workers/{street.worker.id}/jobs/{job}/complete", {"token": leased["token"], "result": 1})
    await wire.answered()
    wire.cut()

    assert await street.worker.said(leased, "complete", result=1) == "already_done"
    assert (await record(street.store, job)).value == b"1"


async def test_who_waits_is_answered_when_the_api_stops(store: Store) -> None:
    """At once, with nothing; it asks the next replica."""
    stopping = asyncio.Event()
    door = open_door(store, stopping=stopping)
    worker = await a_remote(door.http)
    waiting = asyncio.create_task(worker.lease(wait_s=NEVER_S))

    async def blocked() -> bool:
        return any(client["cmd"] == "bzpopmin" for client in await store.redis.client_list())

    await until(blocked, "blocking read")
    stopping.set()
    assert await asyncio.wait_for(waiting, NEVER_S / 2) == []


async def test_any_replica_of_the_api_serves_a_worker(wide_store: Store) -> None:
    """Registered at one, it leases at another and reports to a third."""
    first, second, third = [open_door(wide_store).http for _ in range(3)]
    worker = await a_remote(first)
    job = await a_command(first)
    leased = await Remote(second, worker.id).take()

    assert await Remote(third, worker.id).said(leased, "complete", result=3) == "accepted"
    assert (await Remote(second, worker.id).beat(job))["lost"] == [job]
