"""What must hold of everything in Redis, whatever has happened: each function yields what does not.

A job is in one place; a lease is one pending entry; who waits is known on both sides; an ending that somebody
waits for is on its way; lanes are open exactly where they should be; schedules with something to do are looked at;
and no key outlives its owner.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from taskflow_domain import TERMINAL, partition_of
from taskflow_domain.firing import look_at
from taskflow_domain.ordering import score
from taskflow_streams import Store
from taskflow_streams.store import Partition
from tests.support.picture import CONTROL, Fields, Picture, take, take_control
from tests.support.replay import Life, illegal, replay

ALL_EVENTS = 1_000_000
OF_SCHEDULES = {"schedule", "schedules", "calendar", "names", "fires", "alarm"}
OF_CONTROL = {"meta", "claim", "gone", *OF_SCHEDULES}


async def faults(store: Store) -> list[str]:
    """Everything that is wrong in a store; empty when all is well."""
    found: list[str] = []
    for partition in store.partitions:
        picture = await take(partition)
        for check in (_lifetimes, _records, _places, _lanes, _leases, _dependencies, _clocks, _pools):
            found += check(picture)
        found += [fault async for fault in _history(partition)]
    control = await take_control(store)
    for check in (_lifetimes, _control):
        found += check(control)
    found += [fault async for fault in _looks(store, control)]
    return found


def _lifetimes(picture: Picture) -> Iterator[str]:
    for short in picture.strange:
        yield f"{short} is not a key of ours, or has another type"
    for name in picture.names & {"claim", *OF_SCHEDULES} if picture.index != CONTROL else picture.names - OF_CONTROL:
        yield f"{name} does not belong under the tag of {picture.index}"
    owned = {name: set(picture.strings[name]) for name in ("spec", "result")}
    owned |= {name: set(picture.sets[name]) for name in ("needs", "waits", "waited", "deps")}
    owned |= {"log": set(picture.streams["log"])}
    for name, jobs in owned.items():
        for job in jobs - picture.jobs.keys():
            yield f"{name}:{job} is left of a job that does not exist"
    for name in ("gone", "claim", "projector"):
        yield from (f"{name}:{key} never expires" for key in picture.strings[name] if _eternal(picture, name, key))
    yield from (f"minute:{key} never expires" for key in picture.hashes["minute"] if _eternal(picture, "minute", key))
    for name in ("inbox", "ran"):
        yield from (f"{name}:{key} never expires" for key in picture.zsets[name] if _eternal(picture, name, key))


def _eternal(picture: Picture, name: str, suffix: str) -> bool:
    return (f"{name}:{suffix}" if suffix else name) not in picture.mortal


def _records(picture: Picture) -> Iterator[str]:
    for job_id, job in picture.jobs.items():
        if "state" not in job:
            yield f"job:{job_id} is no record: {job}"
        elif job_id not in picture.strings["spec"]:
            yield f"{job_id} has no spec"
        elif job["state"] in TERMINAL and "finished" not in job:
            yield f"{job_id} is {job['state']} without a time"


def _places(picture: Picture) -> Iterator[str]:
    """READY: in its lane or delayed.  All others: in neither."""
    places: dict[str, list[str]] = {job_id: [] for job_id in picture.jobs}
    for lane, members in picture.zsets["ready"].items():
        for job_id, found in members.items():
            places.setdefault(job_id, []).append(f"lane {lane}")
            job = picture.jobs.get(job_id)
            if job is not None and found != score(int(job["order"]), int(job["created"])):
                yield f"{job_id} has score {found} in {lane}"
    for job_id, due in picture.zsets["delayed"].get("", {}).items():
        places.setdefault(job_id, []).append("delayed")
        if picture.jobs.get(job_id, {}).get("due") != f"{due:.0f}":
            yield f"{job_id} is delayed until {due}, not until it is due"
    for job_id, found_in in places.items():
        job = picture.jobs.get(job_id)
        if job is None:
            yield f"{job_id} does not exist, but is in {found_in}"
        elif job["state"] != "READY":
            yield from (f"{job_id} is {job['state']} and in {place}" for place in found_in)
        elif found_in not in (["delayed"], [f"lane {job['queue']}:{job['handler']}"]):
            yield f"{job_id} is READY and in {found_in}, of {job['queue']}:{job['handler']}"


def _lanes(picture: Picture) -> Iterator[str]:
    lanes = [lane.partition(":")[::2] for lane in picture.zsets["ready"]]
    able = picture.sets["able"]
    full = {(queue, handler) for queue, handler in lanes}
    laned = {(queue, handler) for handler, queues in picture.sets["laned"].items() for queue in queues}
    opened = {(queue, handler) for queue, handlers in picture.sets["lanes"].items() for handler in handlers}
    if laned != full:
        yield f"lanes with jobs are {sorted(full)}, noted are {sorted(laned)}"
    if opened != {(queue, handler) for queue, handler in full if handler in able}:
        yield f"open lanes are {sorted(opened)}, but those with jobs are {sorted(full)} and handlers {sorted(able)}"
    for queue in {queue for queue, _ in opened} - picture.zsets["active"].get("", {}).keys():
        if _room(picture, queue) > 0:
            yield f"queue {queue} has jobs that can run, and nobody looks there"
    queues = picture.sets["queues"].get("", set())
    for queue, _ in full:
        if queue not in queues:
            yield f"queue {queue} has jobs and is not known"
    for queue in queues:
        if queue not in picture.streams["work"]:
            yield f"queue {queue} has no work stream"


def _room(picture: Picture, queue: str) -> float:
    settings = picture.hashes["queue"].get(queue, {})
    if settings.get("paused") == "1":
        return 0
    return float(settings.get("max_concurrent", "inf")) - len(picture.streams["work"][queue])


def _leases(picture: Picture) -> Iterator[str]:
    """RUNNING: exactly one entry, that of the record, pending for its worker.  No other entries."""
    running = {job_id for job_id, job in picture.jobs.items() if job.get("state") == "RUNNING"}
    held: set[str] = set()
    for queue, entries in picture.streams["work"].items():
        for entry in entries:
            [(job_id, fence)] = entry.fields.items() or [("?", "?")]
            job = picture.jobs.get(job_id, {})
            if job_id in held:
                yield f"{job_id} is leased twice"
            held.add(job_id)
            facts = (queue, entry.id, fence, entry.consumer)
            if facts != (job.get("queue"), job.get("entry"), job.get("fence"), job.get("worker")):
                yield f"lease {facts} of {job_id} is not that of its record {job}"
    if held != running:
        yield f"running are {sorted(running)}, leased are {sorted(held)}"


def _dependencies(picture: Picture) -> Iterator[str]:
    needs, waits = picture.sets["needs"], picture.sets["waits"]
    waited, deps = picture.sets["waited"], picture.sets["deps"]
    here = lambda job_id: partition_of(job_id) == picture.index  # noqa: E731
    for job_id, job in picture.jobs.items():
        if (job.get("state") == "PENDING") != (job_id in waits):
            yield f"{job_id} is {job.get('state')} and waits for {waits.get(job_id)}"
        if not waits.get(job_id, set()) <= needs.get(job_id, set()):
            yield f"{job_id} waits for what it does not need"
    for job_id, dependencies in needs.items():
        for dependency in filter(here, dependencies):
            if dependency in picture.jobs and job_id not in deps.get(dependency, set()):
                yield f"{job_id} needs {dependency}, which does not know it"
    for job_id, dependencies in waits.items():
        for dependency in filter(here, dependencies):
            if job_id not in waited.get(dependency, set()):
                yield f"{job_id} waits for {dependency}, which will not tell it"
    for dependency, jobs in deps.items():
        for job_id in filter(here, jobs):
            if dependency not in needs.get(job_id, set()):
                yield f"deps:{dependency} holds {job_id}, which does not need it"
    told = {entry.fields["job"] for entry in picture.streams["graph"][""] if entry.fields["type"] == "ended"}
    for dependency, jobs in waited.items():
        for job_id in filter(here, jobs):
            if dependency not in waits.get(job_id, set()):
                yield f"waited:{dependency} holds {job_id}, which does not wait for it"
        if picture.jobs.get(dependency, {}).get("state") in TERMINAL and dependency not in told:
            yield f"{dependency} has ended, {sorted(jobs)} wait for it, and nobody will tell them"


def _clocks(picture: Picture) -> Iterator[str]:
    def unstarted(job: Fields) -> bool:
        return "expires" in job and job["attempt"] == "0" and job["state"] in {"PENDING", "READY"}

    deadlines = {job_id for job_id, job in picture.jobs.items() if unstarted(job)}
    if deadlines != picture.zsets["deadlines"].get("", {}).keys():
        yield f"to expire are {sorted(deadlines)}, noted are {sorted(picture.zsets['deadlines'].get('', {}))}"
    ended = {job_id for job_id, job in picture.jobs.items() if job.get("state") in TERMINAL}
    if ended != picture.zsets["ended"].get("", {}).keys():
        yield f"ended are {sorted(ended)}, noted are {sorted(picture.zsets['ended'].get('', {}))}"
    size = sum(int(picture.jobs[job_id]["size"]) for job_id in ended)
    if size != int(picture.hashes["meta"][""].get("bytes", 0)):
        yield f"ended jobs hold {size} bytes, noted are {picture.hashes['meta'][''].get('bytes')}"


def _pools(picture: Picture) -> Iterator[str]:
    pools = picture.hashes["pools"].get("", {}).keys()
    members, skills, able = picture.sets["members"], picture.sets["skills"], picture.sets["able"]
    for name, known in (("members", members.keys()), ("skills", skills.keys())):
        if known != pools:
            yield f"pools are {sorted(pools)}, those with {name} are {sorted(known)}"
    if not picture.zsets["bell"].keys() <= pools:
        yield f"a bell without a pool: {sorted(picture.zsets['bell'])}"
    can = {(pool, handler) for pool, handlers in skills.items() for handler in handlers}
    if can != {(pool, handler) for handler, pools_ in able.items() for pool in pools_}:
        yield f"skills {skills} and able {able} differ"
    workers = picture.zsets["workers"].get("", {}).keys()
    if workers != picture.hashes["worker"].keys():
        yield f"workers are {sorted(workers)}, registered are {sorted(picture.hashes['worker'])}"
    joined = {(worker, fields["pool"]) for worker, fields in picture.hashes["worker"].items() if "pool" in fields}
    if joined != {(worker, pool) for pool, names in members.items() for worker in names}:
        yield f"workers say {sorted(joined)}, pools have {members}"


async def _history(partition: Partition) -> AsyncIterator[str]:
    events = await partition.history.after("0-0", ALL_EVENTS)
    for fault in illegal(events):
        yield fault
    lives = replay(events)
    records = await partition.jobs.get(list(lives))
    for (job_id, life), record in zip(lives.items(), records, strict=True):
        if record is None or Life.of(record) != life:
            yield f"events tell of {job_id}: {life}; its record is {record and Life.of(record)}"
        elif len(record.event_ids) != min(life.events, 100):
            yield f"{job_id} knows {len(record.event_ids)} of its {life.events} events"


def _control(picture: Picture) -> Iterator[str]:
    """Schedules: all of them in `calendar`, their names in `names`, and nothing of any that does not exist."""
    schedules = picture.hashes["schedule"]
    for schedule_id, fields in schedules.items():
        if missing := {"rev", "spec", "progress", "created", "updated"} - fields.keys():
            yield f"schedule:{schedule_id} is no record: it has no {sorted(missing)}"
    created = {schedule_id: float(fields.get("created", "nan")) for schedule_id, fields in schedules.items()}
    if created != (calendar := picture.zsets["calendar"].get("", {})):
        yield f"schedules were made {created}, the calendar says {calendar}"
    named = {fields["name"]: schedule_id for schedule_id, fields in schedules.items() if "name" in fields}
    if named != (names := picture.hashes["names"].get("", {})):
        yield f"schedules are named {named}, noted are {names}"
    for schedule_id in picture.zsets["schedules"].get("", {}).keys() - schedules.keys():
        yield f"{schedule_id} does not exist, but is to be looked at"
    for schedule_id in picture.streams["fires"].keys() - schedules.keys():
        yield f"fires:{schedule_id} is left of a schedule that does not exist"
    if len(picture.streams["alarm"].get("", ())) > 1:
        yield "the alarm holds more than the last word"


async def _looks(store: Store, picture: Picture) -> AsyncIterator[str]:
    looks = picture.zsets["schedules"].get("", {})
    for record in await store.schedules.get(list(picture.hashes["schedule"])):
        if record is not None and record.id not in looks and look_at(record.progress, 0) is not None:
            yield f"{record.id} has something to do, and nobody looks at it: {record.progress}"
