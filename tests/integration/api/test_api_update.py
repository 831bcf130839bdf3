"""PUT /api/v1/jobs/{id}: some fields or the whole job, and what cannot be changed any more."""

import asyncio
from typing import Any

import pytest

from taskflow_domain import JobStatus
from taskflow_streams import Store, Updated
from taskflow_streams.jobs import Change
from tests.integration.api.door import JOBS, NOBODY, Door, conflict, invalid, refused
from tests.support.engine import Worker, a_job, a_running_job, a_worker, an_ended_job, record, settle


async def put(door: Door, job_id: str, **fields: Any) -> Any:
    """An update, however it is answered."""
    return await door.http.put(f"{JOBS}/{job_id}", json=fields)


CHANGES: list[dict[str, Any]] = [
    {"name": "other"},
    {"queue": "other"},
    {"payload": [1, 2]},
    {"payload": None},
    {"priority": 10},
    {"task": "other"},
    {"task": None},
    {"type": "http"},
    {"owner": "somebody"},
    {"owner": None},
    {"timeout_s": 0.5},
    {"timeout_s": None},
    {"scheduled_at": "2030-01-02T03:04:05.678Z"},
    {"scheduled_at": None},
    {"expires_at": "2031-01-02T03:04:05.678Z"},
    {"expires_at": None},
    {"name": "other", "queue": "other", "priority": 1, "owner": "x"},
    {},
]


@pytest.mark.parametrize("fields", CHANGES, ids=lambda value: repr(value)[:60])
async def test_what_is_sent_is_changed_and_the_rest_stays(door: Door, fields: dict[str, Any]) -> None:
    """Any subset of the fields that can be changed."""
    job = await door.create(
        payload={"x": 1}, task="t", owner="me", timeout_s=60, scheduled_at="2029-01-01", expires_at="2030-06-01"
    )
    changed = await door.change(job["id"], **fields)

    assert changed == job | fields | {"updated_at": changed["updated_at"]}
    assert changed == await door.get(job["id"])


async def test_a_change_moves_updated_at_and_nothing_else_does(door: Door) -> None:
    """An update without a difference writes nothing."""
    job = await door.create()
    same = await door.change(job["id"], priority=5, queue="q", dependencies=[], retry_policy={"max_attempts": 3})
    events = (await door.http.get(f"{JOBS}/{job['id']}/events")).json()["items"]

    assert same == job
    assert [event["type"] for event in events] == ["job.submitted"]
    await door.change(job["id"], priority=6)
    events = (await door.http.get(f"{JOBS}/{job['id']}/events")).json()["items"]
    assert [event["type"] for event in events] == ["job.submitted", "job.updated"]
    assert events[1]["was"] == {"queue": "q", "priority": 5, "owner": None}


async def test_the_whole_job_can_be_sent_back(door: Door) -> None:
    """As it was read, with what one wants to change; spelling of times and ids does not matter."""
    dependency = await a_job(door.store)
    job = await door.create(
        dependencies=[dependency], owner="me", timeout_s=1.25, delay_s=100, retry_policy={"max_attempts": 7}
    )
    same = await door.http.put(f"{JOBS}/{job['id']}", json=job)
    spelt = {"id": job["id"].upper(), "created_at": job["created_at"].replace("Z", "+00:00")}
    changed = await door.http.put(f"{JOBS}/{job['id']}", json=job | spelt | {"priority": 9})

    assert (same.status_code, same.json()) == (200, job)
    assert changed.json() == job | {"priority": 9, "updated_at": changed.json()["updated_at"]}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", NOBODY), ("id", None), ("id", 5),
        ("created_at", "2020-01-01T00:00:00.000Z"), ("created_at", "never"), ("created_at", None),
        ("status", "RUNNING"), ("status", "ready"), ("status", None),
        ("attempt_count", 1), ("attempt_count", 0.0), ("attempt_count", False), ("attempt_count", None),
    ],
)  # fmt: skip
async def test_what_cannot_be_changed_must_be_the_same(door: Door, field: str, value: Any) -> None:
    """Otherwise 400, and nothing of the rest is changed either."""
    job = await door.create()

    invalid(await put(door, job["id"], priority=9, **{field: value}), field)
    assert await door.get(job["id"]) == job


async def test_what_only_the_server_sets_is_ignored(door: Door) -> None:
    """Whatever it is."""
    job = await door.create()
    ignored = ("updated_at", "started_at", "finished_at", "result", "error", "progress", "run_id", "retry_of", "worker")

    assert await door.change(job["id"], **{name: [1] for name in ignored}) == job


@pytest.mark.parametrize(
    ("fields", "blamed"),
    [
        ({"name": ""}, "name"),
        ({"name": None}, "name"),
        ({"queue": "a-b"}, "queue"),
        ({"queue": None}, "queue"),
        ({"priority": 11}, "priority"),
        ({"priority": "5"}, "priority"),
        ({"payload": "x" * 65_536}, "payload"),
        ({"retry_policy": {"max_attempts": 11}}, "retry_policy.max_attempts"),
        ({"retry_policy": {"max_attemps": 1}}, "retry_policy.max_attemps"),
        ({"dependencies": "none"}, "dependencies"),
        ({"dependencies": ["x"]}, "dependencies[0]"),
        ({"idempotency_key": "k"}, "idempotency_key"),
        ({"prio": 1}, "prio"),
        ({"delay_s": 1, "scheduled_at": "2030-01-01"}, "delay_s"),
    ],
    ids=lambda value: repr(value)[:60],
)
async def test_the_limits_are_those_of_a_new_job(door: Door, fields: dict[str, Any], blamed: str) -> None:
    """With the field named."""
    job = await door.create()

    invalid(await put(door, job["id"], **fields), blamed)


async def test_null_is_the_default_of_a_new_job(door: Door) -> None:
    """For everything that has one."""
    plain = await door.create()
    job = await door.create(
        priority=9, dependencies=[await a_job(door.store)], retry_policy={"max_attempts": 9}, type="http", owner="me"
    )
    changed = await door.change(
        job["id"], **dict.fromkeys(["priority", "dependencies", "retry_policy", "type", "owner"])
    )

    moving = dict.fromkeys(["id", "created_at", "updated_at"])
    assert changed | moving == plain | moving


async def test_a_part_of_a_retry_policy_is_merged(door: Door) -> None:
    """Into the one there is; what comes out must make sense as a whole."""
    job = await door.create(retry_policy={"base_delay_seconds": 2, "max_delay_seconds": 4, "backoff_strategy": "FIXED"})
    merged = await door.change(job["id"], retry_policy={"max_delay_seconds": 3})
    reset = await door.change(job["id"], retry_policy={"backoff_strategy": None})

    assert merged["retry_policy"] == job["retry_policy"] | {"max_delay_seconds": 3}
    assert reset["retry_policy"] == merged["retry_policy"] | {"backoff_strategy": "EXPONENTIAL"}
    refusal = await put(door, job["id"], retry_policy={"base_delay_seconds": 4})
    invalid(refusal, "retry_policy.max_delay_seconds")


async def test_the_jitter_of_a_retry_policy_is_shown_if_there_is_one(door: Door) -> None:
    """It stays when another part is changed, and a job that is sent back as it was read stays as it is."""
    plain, apart = await door.create(), await door.create(retry_policy={"jitter": 0.25})
    assert "jitter" not in plain["retry_policy"]
    assert apart["retry_policy"] == plain["retry_policy"] | {"jitter": 0.25}

    changed = await door.change(apart["id"], retry_policy={"max_attempts": 5})
    again = await door.change(apart["id"], **changed)

    assert changed["retry_policy"] == again["retry_policy"] == apart["retry_policy"] | {"max_attempts": 5}


async def test_times_from_now_become_times(door: Door) -> None:
    """Counted from the update, by the server's clock."""
    job = await door.create()
    before = await door.store.now_ms()
    await door.change(job["id"], delay_s=10, ttl_s=20)
    after = await door.store.now_ms()

    found = await record(door.store, job["id"])
    assert before + 10_000 <= (found.due_ms or 0) <= after + 10_000
    assert before + 20_000 <= (found.expires_ms or 0) <= after + 20_000


async def test_a_new_order_counts_at_once(door: Door) -> None:
    """The most urgent job is the next one to run, and another queue's worker finds what was moved there."""
    first, second = await door.create(), await door.create()
    await door.change(second["id"], priority=10)

    assert (await (await a_worker(door.store)).take()).job_id == second["id"]
    assert (await door.get(first["id"]))["status"] == "READY"


async def test_an_open_dependency_makes_a_ready_job_wait_again(door: Door) -> None:
    """READY → PENDING, and READY again when it is done; taken away, it is READY at once."""
    other, job = await door.create(), await door.create(priority=10)
    pending = await door.change(job["id"], dependencies=[other["id"]])
    freed = await door.change(job["id"], dependencies=[])
    await door.change(job["id"], dependencies=[other["id"]])
    worker = await a_worker(door.store)
    await worker.complete(await worker.take())
    await settle(door.store)

    assert (pending["status"], freed["status"]) == ("PENDING", "READY")
    assert (await door.get(job["id"]))["status"] == "READY"


async def test_a_failed_dependency_blocks(door: Door) -> None:
    """The job can never run, and has ended."""
    failed, job = await an_ended_job(door.store, JobStatus.FAILED), await door.create()
    blocked = await door.change(job["id"], dependencies=[failed])

    assert blocked["status"] == "BLOCKED"
    assert blocked["finished_at"] is not None


async def test_a_cycle_is_refused_with_its_path(door: Door) -> None:
    """Of any length, from a job that waits for itself to a long way round; nothing is changed."""
    a = await door.create()
    b = await door.create(dependencies=[a["id"]])
    c = await door.create(dependencies=[b["id"]])

    conflict(await put(door, a["id"], dependencies=[a["id"]]), f"{a['id']} → {a['id']}")
    path = " → ".join([a["id"], c["id"], b["id"], a["id"]])
    conflict(await put(door, a["id"], dependencies=[c["id"]]), path)
    assert await door.get(a["id"]) == a


async def test_a_cycle_is_looked_for_first(door: Door) -> None:
    """Before it is asked whether the job has ended, runs, or all dependencies exist."""
    done = await an_ended_job(door.store)
    conflict(await put(door, done, dependencies=[done]), "wait for one another")
    job = await door.create()
    conflict(await put(door, job["id"], dependencies=[NOBODY, job["id"]]), "wait for one another")


async def test_two_updates_never_close_a_cycle_together(door: Door) -> None:
    """Each alone is fine; of both at once, one is refused."""
    for _ in range(10):
        a, b = await door.create(), await door.create()
        responses = await asyncio.gather(
            put(door, a["id"], dependencies=[b["id"]]), put(door, b["id"], dependencies=[a["id"]])
        )
        assert sorted(response.status_code for response in responses) == [200, 409]


async def test_concurrent_updates_all_count(door: Door) -> None:
    """Of different fields, none is lost."""
    job = await door.create()
    fields: list[dict[str, Any]] = [
        {"priority": 9},
        {"owner": "me"},
        {"name": "other"},
        {"timeout_s": 5},
        {"task": "t"},
    ]
    responses = await asyncio.gather(*(put(door, job["id"], **one) for one in fields))

    assert {response.status_code for response in responses} == {200}
    found = await door.get(job["id"])
    assert all(found[name] == value for one in fields for name, value in one.items())


async def test_an_update_that_always_loses_the_race_says_so(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not try for ever."""
    job = await door.create()

    async def lose(_store: Store, _id: str, _version: int, _change: Change, _graph: int = 0) -> tuple[Updated, str]:
        return Updated.CHANGED, ""

    monkeypatch.setattr(Store, "update", lose)
    conflict(await put(door, job["id"], priority=9), "try again")


async def test_new_dependencies_must_exist(door: Door) -> None:
    """All that do not are named."""
    job, real = await door.create(), await a_job(door.store)
    response = await put(door, job["id"], dependencies=[NOBODY, real, NOBODY.replace("019b", "019c")])

    invalid(response, "dependencies[0]", "dependencies[2]")
    assert await door.get(job["id"]) == job


@pytest.mark.parametrize("status", [JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELED])
async def test_an_ended_job_cannot_be_changed(door: Door, status: JobStatus) -> None:
    """Not even to what it is."""
    job_id = await an_ended_job(door.store, status)

    conflict(await put(door, job_id, priority=9), status)
    conflict(await put(door, job_id), status)


async def test_a_running_job_is_changed_for_its_next_attempt(door: Door) -> None:
    """But for its queue, its dependencies and its due time."""
    other = await door.create(name="elsewhere")
    held = await a_running_job(door.store)
    for fields in ({"queue": "x"}, {"dependencies": [other["id"]]}, {"delay_s": 5}, {"scheduled_at": "2030-01-01"}):
        conflict(
            await put(door, held.job_id, **fields), "RUNNING", next(iter(fields)).replace("delay_s", "scheduled_at")
        )

    changed = await door.change(held.job_id, payload=[2], priority=9, retry_policy={"max_attempts": 2}, queue="q")
    assert (changed["status"], changed["payload"]) == ("RUNNING", [2])
    worker = Worker(door.store.partitions[0])
    await worker.fail(held, delay_ms=0)
    await door.store.partitions[0].upkeep.promote()
    assert (await worker.take()).lease.spec.payload == b"[2]"


async def test_a_job_of_another_door_keeps_what_this_one_would_not_take(door: Door) -> None:
    """A queue with a hyphen, an order between priorities: sent back as shown, they stay."""
    job_id = await a_job(door.store, queue="gpu-1.a", order=-500)
    shown = await door.get(job_id)
    changed = await door.change(job_id, **(shown | {"owner": "me"}))

    assert (shown["queue"], shown["priority"]) == ("gpu-1.a", 10)
    assert changed["owner"] == "me"
    assert (await record(door.store, job_id)).order == -500
    invalid(await put(door, job_id, queue="gpu-2"), "queue")


async def test_unknown_jobs_are_not_found(door: Door) -> None:
    """Also for a good body, and for an id that is none."""
    for job_id in (NOBODY, "nobody"):
        refused(await put(door, job_id, priority=9), 404, "NOT_FOUND")


async def test_the_order_of_dependencies_means_nothing(door: Door) -> None:
    """Sent in another order they are no change of the graph, so a running job takes it."""
    done = [await an_ended_job(door.store), await an_ended_job(door.store)]
    held = await a_running_job(door.store, dependencies=tuple(done))
    changed = await door.change(held.job_id, dependencies=list(reversed(done)))

    assert changed["dependencies"] == list(reversed(done))


async def test_an_update_adds_no_dependency_of_another_partition(wide_door: Door) -> None:
    """Those that a job has from its birth may stay, or go."""
    jobs = [await wide_door.create() for _ in range(16)]
    near = jobs[0]["id"]
    far = next(job["id"] for job in jobs if job["id"][19:22] != near[19:22])
    job = await wide_door.create(dependencies=[near])

    conflict(await put(wide_door, job["id"], dependencies=[near, far]), "another partition")
    both = await wide_door.create(dependencies=[near, far])
    left = await wide_door.change(both["id"], dependencies=[far])
    assert (left["status"], left["dependencies"]) == ("PENDING", [far])
    await settle(wide_door.store)
