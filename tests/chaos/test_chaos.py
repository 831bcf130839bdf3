"""Everything at once, while services die: no job is lost, none runs out of turn, and all that is kept agrees.

`CHAOS_S` sets how long things are killed (default 25 s), `CHAOS_SEED` which, `CHAOS_PARTITIONS` how wide it is.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from taskflow_domain import LIVE, TERMINAL, JobStatus, Overlap, What, iso_of_ms, partition_of
from taskflow_streams import Event, JobRecord, Query, Store
from taskflow_streams.history import id_key
from tests.support.consistency import faults
from tests.support.processes import titled
from tests.support.stack import Stack, eventually

KILL_FOR_S = float(os.environ.get("CHAOS_S", "25"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
PARTITIONS = int(os.environ.get("CHAOS_PARTITIONS", "1"))
SETTLE_S = 90.0  # backoff of what was killed often, up to 15 s, and the retries of what failed
VICTIMS = ("worker",) * 4 + ("scheduler", "scheduler", "cron", "cron", "reaper", "projector", "api", "valkey")
QUEUES = ("red", "green", "blue")
QUICK = {"backoff_strategy": "FIXED", "base_delay_seconds": 1, "max_delay_seconds": 1}
Body = dict[str, Any]

pytestmark = [pytest.mark.xdist_group("up"), pytest.mark.timeout(600)]


@dataclass(slots=True)
class Known:
    """What we were told, and what we asked for."""

    needs: dict[str, list[str]] = field(default_factory=dict)  # accepted jobs and their dependencies
    deleted: set[str] = field(default_factory=set)  # a delete was sent; the answer may have been lost
    canceled: set[str] = field(default_factory=set)
    schedules: dict[str, list[int]] = field(default_factory=dict)  # and when each is to fire
    cancelers: set[str] = field(default_factory=set)  # schedules that cancel their runs themselves


def test_nothing_is_lost_while_services_die(tmp_path: Path) -> None:
    """Jobs of all kinds are sent, cancelled, deleted and changed, and schedules fire, while all services are killed."""
    random.seed(SEED)
    known = Known()
    options = ("--workers", "2", "--concurrency", "16", "--partitions", str(PARTITIONS))
    settings = {"visibility_timeout_s": 3, "heartbeat_s": 1, "lease_renewal_s": 1}
    with Stack(tmp_path / "data", *options, **settings) as stack:
        stop = threading.Event()
        with ThreadPoolExecutor() as pool:
            make_schedules(stack, known)
            clients = [pool.submit(run, stack, known, stop, number) for number in range(2)]
            killed = Counter(kill_now_and_then(stack, KILL_FOR_S))
            stop.set()
        for client in clients:
            client.result()  # raises what the client met
        asyncio.run(settled(stack))

        found, kinds = asyncio.run(inspect(stack, known))
        assert not found, "\n".join([f"killed {dict(killed)}; events {dict(kinds)}", *found[:50]])
        assert kinds.keys() >= {"job.lost", "job.blocked", "job.canceled", "job.deleted"}, f"too little: {kinds}"


# What is done ---------------------------------------------------------------------------------------------------------


def kill_now_and_then(stack: Stack, seconds: float) -> Iterator[str]:
    """SIGKILL something about every second."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(random.uniform(0.5, 1.2))
        name = random.choice(VICTIMS)
        if name == "valkey" and random.random() < 0.5:
            continue
        victims = processes(stack, name)
        if victims:
            random.choice(victims).send_signal(signal.SIGKILL)
            yield name


def processes(stack: Stack, name: str) -> list[psutil.Process]:
    """The living processes of a service."""
    return titled(stack.process.pid, f"taskflow {name}")


def run(stack: Stack, known: Known, stop: threading.Event, number: int) -> None:
    """A client that sends, cancels, deletes and changes jobs until it is told to stop."""
    dice = random.Random(SEED * 100 + number)
    with httpx.Client(base_url=stack.http.base_url, timeout=30) as http:
        batch = 0
        while not stop.is_set():
            batch += 1
            jobs = [shape for make in dice.choices(KINDS, k=6) for shape in make(dice)]
            ids = insist(http, {"jobs": jobs}, f"{number}-{batch}")
            by_key = {job["key"]: job_id for job, job_id in zip(jobs, ids, strict=True)}
            for job, job_id in zip(jobs, ids, strict=True):
                known.needs[job_id] = [by_key[name] for name in job.get("depends_on", ())]
            gather(http, dice, known, f"{number}-{batch}")
            meddle(http, dice, known, ids)
            time.sleep(dice.uniform(0.0, 0.3))


def make_schedules(stack: Stack, known: Known) -> None:
    """Some that fire each second, with all policies; they end with the killing."""
    dice = random.Random(SEED)
    for overlap in (*Overlap, Overlap.ALLOW):
        start_ms = int(time.time() * 1000) + dice.randrange(2000)
        end_ms = start_ms + int(KILL_FOR_S * 1000)
        body = {"start_at": iso_of_ms(start_ms), "end_at": iso_of_ms(end_ms), "interval_s": 1, "overlap": overlap}
        job = _job(dice, "sleep", {"seconds": 0.2})
        del job["key"]
        made = send(stack.http, "/schedules", body | {"catchup_limit": 1000, "job": job}, f"schedule-{start_ms}")
        known.schedules[made["id"]] = list(range(start_ms, end_ms + 1, 1000))
        if overlap is Overlap.CANCEL_PREVIOUS:
            known.cancelers.add(made["id"])


def insist(http: httpx.Client, body: Body, key: str) -> list[str]:
    """Send a batch until it is accepted; with its key it is accepted once."""
    return [job["id"] for job in send(http, "/jobs/batch", body, key)["items"]]


def send(http: httpx.Client, path: str, body: Body, key: str) -> Body:
    """The answer, once there is one."""
    for _ in range(200):
        try:
            answer = http.post(path, json=body, headers={"Idempotency-Key": f"chaos-{SEED}-{key}"})
        except httpx.TransportError:
            time.sleep(0.2)
            continue
        if answer.status_code in (200, 201):
            made: Body = answer.json()
            return made
        assert answer.status_code == 503, answer.text
        time.sleep(0.2)
    raise AssertionError(f"{path} was not accepted in 40 s")


def gather(http: httpx.Client, dice: random.Random, known: Known, key: str) -> None:
    """A job that needs three others, old or new, in whatever partitions they are; they may be deleted by now."""
    body = _job(dice, "noop") | {"dependencies": dice.sample(list(known.needs), 3)}
    del body["key"]
    try:
        answer = http.post("/jobs", json=body, headers={"Idempotency-Key": f"chaos-{SEED}-{key}-gather"})
    except httpx.TransportError:
        return  # if it was accepted, nobody was told; `inspect` finds it
    if answer.status_code in (200, 201):
        known.needs[answer.json()["id"]] = body["dependencies"]
    else:
        assert answer.status_code in (400, 503), answer.text


def meddle(http: httpx.Client, dice: random.Random, known: Known, fresh: list[str]) -> None:
    """Cancel, delete and change some of the jobs, new ones and old."""
    for job_id in dice.sample(fresh, min(3, len(fresh))) + dice.sample(list(known.needs), 2):
        verb = dice.choice(("cancel", "delete", "update", "update", "move"))
        try:
            match verb:
                case "cancel":
                    known.canceled.add(job_id)
                    answer = http.post(f"/jobs/{job_id}/cancel")
                case "delete":
                    known.deleted.add(job_id)
                    answer = http.delete(f"/jobs/{job_id}")
                    if answer.status_code == 409:
                        known.deleted.discard(job_id)
                case "update":
                    answer = http.put(f"/jobs/{job_id}", json={"priority": dice.randint(1, 10)})
                case _:
                    answer = http.put(f"/jobs/{job_id}", json={"queue": dice.choice(QUEUES)})
        except httpx.TransportError:
            continue
        assert answer.status_code in (200, 204, 404, 409, 503), answer.text


def _job(dice: random.Random, task: str, payload: Body | None = None, **more: object) -> Body:
    attempts = dice.choice((2, 3, 10))
    return {
        "key": f"{dice.getrandbits(64):x}",
        "name": task,
        "task": f"taskflow.{task}",
        "queue": dice.choice(QUEUES),
        "payload": payload or {},
        "priority": dice.randint(1, 10),
        "retry_policy": {"max_attempts": attempts, **QUICK},
        **more,
    }


def noops(dice: random.Random) -> list[Body]:
    return [_job(dice, "noop") for _ in range(5)]


def sleeps(dice: random.Random) -> list[Body]:
    return [_job(dice, "sleep", {"seconds": dice.uniform(0, 1.5)}) for _ in range(2)]


def failing(dice: random.Random) -> list[Body]:
    return [_job(dice, "fail")]


def delayed(dice: random.Random) -> list[Body]:
    return [_job(dice, "noop", delay_s=dice.uniform(0.1, 5)), _job(dice, "sleep", {"seconds": 0.3}, ttl_s=2)]


def chain(dice: random.Random) -> list[Body]:
    jobs = [_job(dice, dice.choice(("noop", "noop", "noop", "fail"))) for _ in range(4)]
    for before, job in itertools.pairwise(jobs):
        job["depends_on"] = [before["key"]]
    return jobs


def diamond(dice: random.Random) -> list[Body]:
    top, left, right, bottom = (_job(dice, "sleep", {"seconds": dice.uniform(0, 0.5)}) for _ in range(4))
    left["depends_on"] = right["depends_on"] = [top["key"]]
    bottom["depends_on"] = [left["key"], right["key"]]
    return [top, left, right, bottom]


KINDS: list[Callable[[random.Random], list[Body]]] = [noops, sleeps, failing, delayed, chain, diamond]


# What must hold -------------------------------------------------------------------------------------------------------


async def settled(stack: Stack) -> None:
    """Wait until every job has ended and every service has caught up."""
    store = await connect(stack)
    try:
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            live = [await store.search.total(Query(statuses=(status,))) for status in LIVE]
            ids = [schedule_id for _, schedule_id in await store.schedules.ids()]
            over = [one is None or one.progress.is_done for one in await store.schedules.get(ids)]
            if await store.search.barrier() == 0 and not any(live) and all(over):
                return
            await asyncio.sleep(0.5)
    finally:
        await store.close()


async def connect(stack: Stack) -> Store:
    def answers() -> bool:
        try:
            return stack.http.get("/jobs?limit=1").status_code == 200
        except httpx.TransportError:
            return False

    await asyncio.to_thread(eventually, answers, "api that answers")
    return await Store.connect(stack.redis_url)


async def inspect(stack: Stack, known: Known) -> tuple[list[str], Counter[str]]:
    """Everything that is wrong, and how often each kind of event happened."""
    store = await connect(stack)
    try:
        events = [e for p in store.partitions for e in await p.history.after("0-0", 1_000_000)]
        born = {event.job_id for event in events if event.type == "job.submitted"}
        strangers = born - known.needs.keys()  # accepted, but the answer was lost
        records: dict[str, JobRecord | None] = dict.fromkeys(sorted(known.needs.keys() | strangers))
        records |= dict(zip(records, await store.get(list(records)), strict=True))
        found = [*lost(known, records), *graph(known, events), *attempts(records)]
        found += await fires(known, events, store)
        found += await empty(store)
        found += await searched(store, records)
        found += await faults(store)
        return found, Counter(event.type for event in events)
    finally:
        await store.close()


def lost(known: Known, records: dict[str, JobRecord | None]) -> Iterator[str]:
    asked = known.canceled | {one.id for one in records.values() if one and one.schedule_id in known.cancelers}
    for job_id, record in records.items():
        if record is None and job_id not in known.deleted:
            yield f"{job_id} was accepted and is gone"
        elif record is not None and record.status in LIVE:
            yield f"{job_id} is still {record.status}: {record}"
        elif record is not None and record.status is JobStatus.CANCELED and job_id not in asked:
            yield f"{job_id} is CANCELED, and nobody asked for it"


def graph(known: Known, events: list[Event]) -> Iterator[str]:
    """Who needs another starts after it, and is BLOCKED exactly if it did not complete."""
    completed = {event.job_id: event for event in events if event.to == "COMPLETED"}
    ends = {event.job_id: event.to for event in events if event.to in TERMINAL}
    gone = {event.job_id for event in events if event.type == "job.deleted"}
    for event in events:
        if event.type in ("job.started", "job.ready"):
            for dependency in known.needs.get(event.job_id, ()):
                if dependency not in completed or not _precedes(completed[dependency], event):
                    yield f"{event.type} of {event.job_id} before {dependency} was completed"
    for job_id, needs in known.needs.items():
        # A dependency in another partition can be deleted until it has heard of the job: that blocks, too.
        failed = [need for need in needs if ends.get(need, "COMPLETED") != "COMPLETED"]
        if ends.get(job_id) == "BLOCKED" and any(need in gone for need in needs):
            continue
        if ends.get(job_id) == "BLOCKED" and not failed:
            yield f"{job_id} is BLOCKED, and all its dependencies completed"
        if failed and ends.get(job_id) not in ("BLOCKED", "CANCELED", "EXPIRED", None):
            yield f"{job_id} is {ends[job_id]} although {failed} did not complete"
        if failed and ends.get(job_id) is None and job_id not in known.deleted:
            yield f"{job_id} waits for ever for {failed}"


def _precedes(first: Event, second: Event) -> bool:
    """Within a partition by their ids, across partitions by the server's clock."""
    if partition_of(first.job_id) == partition_of(second.job_id):
        return id_key(first.id) < id_key(second.id)
    return first.at_ms <= second.at_ms


def attempts(records: dict[str, JobRecord | None]) -> Iterator[str]:
    for job_id, record in records.items():
        if record is not None and record.attempt > record.retry.max_attempts:
            yield f"{job_id} had {record.attempt} attempts of {record.retry.max_attempts}"


async def fires(known: Known, events: list[Event], store: Store) -> list[str]:
    """Each time of a schedule was fired or, if its policy says so, skipped; each run was started once."""
    found = []
    births = Counter(event.job_id for event in events if event.type == "job.submitted")
    for schedule in await store.schedules.get(list(known.schedules)):
        assert schedule is not None
        notes = [line.note for line in await store.schedules.history(schedule.id, count=10_000)]
        told = Counter(note.fire_ms for note in notes if note.what in (What.FIRED, What.SKIPPED))
        if told != dict.fromkeys(known.schedules[schedule.id], 1):
            found.append(f"{schedule.id} was to fire {known.schedules[schedule.id]}, and tells {told}")
        if any(births[note.run or ""] != 1 for note in notes if note.what is What.FIRED):
            found.append(f"{schedule.id} tells of runs that were not started, or twice: {notes}")
        if schedule.schedule.overlap is Overlap.ALLOW and any(note.what is What.SKIPPED for note in notes):
            found.append(f"{schedule.id} passed over some: {notes}")
    return found


async def empty(store: Store) -> list[str]:
    found = []
    for partition in store.partitions:
        for queue in await partition.queues.names():
            left = await partition.redis.xlen(partition.keys("work", queue))
            if left:
                found.append(f"work:{queue} of partition {partition.index} still has {left} entries")
        left = await partition.redis.xlen(partition.keys("graph"))
        if left:
            found.append(f"graph of partition {partition.index} still has {left} messages")
    return found


async def searched(store: Store, records: dict[str, JobRecord | None]) -> list[str]:
    """The indexes themselves, not what a page shows after it looked at the records."""
    found = []
    for status in JobStatus:
        expected = sum(1 for record in records.values() if record is not None and record.status is status)
        total = await store.search.total(Query(statuses=(status,)))
        if total != expected:
            found.append(f"search counts {total} {status}, the records {expected}")
        page = await store.search.page(Query(statuses=(status,)), limit=len(records) + 1)
        if len(page.items) != expected:
            found.append(f"search shows {len(page.items)} {status}, the records {expected}")
    return found
