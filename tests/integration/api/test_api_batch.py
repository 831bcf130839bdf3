"""POST /api/v1/jobs/batch: all or none, in any order, knit together by keys."""

from typing import Any

import pytest

from tests.integration.api.door import JOBS, NOBODY, Door, conflict, invalid, refused
from tests.support.engine import a_job, a_worker, settle, statuses

BATCH = f"{JOBS}/batch"


def job(**fields: Any) -> dict[str, Any]:
    """A job of a batch."""
    return {"name": "work", "queue": "q"} | fields


async def test_jobs_name_one_another_by_key_in_any_order(door: Door) -> None:
    """A diamond, sent upside down: answered in the order sent, and run in the order of its dependencies."""
    jobs = [
        job(key="d", depends_on=["b", "c"]),
        job(key="c", depends_on=["a"], priority=9),
        job(key="b", depends_on=["a"]),
        job(key="a", payload=1),
    ]
    response = await door.http.post(BATCH, json={"jobs": jobs})
    d, c, b, a = response.json()["items"]

    assert response.status_code == 201
    assert [item["status"] for item in (a, b, c, d)] == ["READY", "PENDING", "PENDING", "PENDING"]
    assert (b["dependencies"], c["dependencies"]) == ([a["id"]], [a["id"]])
    assert d["dependencies"] == [b["id"], c["id"]]
    ran = []
    worker = await a_worker(door.store)
    for _ in jobs:
        held = await worker.take()
        ran.append(held.job_id)
        await worker.complete(held)
        await settle(door.store)
    assert ran == [item["id"] for item in (a, c, b, d)]


async def test_a_thousand_jobs_are_accepted_and_one_more_is_not(door: Door) -> None:
    """As one chain, which is the deepest they can be."""
    jobs = [job(key="0")] + [job(key=f"{i}", depends_on=[f"{i - 1}"]) for i in range(1, 1000)]
    response = await door.http.post(BATCH, json={"jobs": list(reversed(jobs))})

    assert response.status_code == 201
    items = response.json()["items"]
    assert [item["status"] for item in items] == ["PENDING"] * 999 + ["READY"]
    assert len({item["id"] for item in items}) == 1000
    invalid(await door.http.post(BATCH, json={"jobs": [job()] * 1001}), "jobs")
    invalid(await door.http.post(BATCH, json={"jobs": []}), "jobs")


async def test_keys_and_ids_can_both_be_depended_on(door: Door) -> None:
    """`dependencies` for jobs that exist, `depends_on` for those of the batch; at most 50 together."""
    real = await a_job(door.store)
    response = await door.http.post(BATCH, json={"jobs": [job(key="a"), job(dependencies=[real], depends_on=["a"])]})
    first, second = response.json()["items"]

    assert second["dependencies"] == [real, first["id"]]
    many = [job(key=f"{i}") for i in range(50)] + [job(dependencies=[real], depends_on=[f"{i}" for i in range(50)])]
    invalid(await door.http.post(BATCH, json={"jobs": many}), "jobs[50].depends_on")


async def test_a_failed_dependency_blocks_the_chain_at_birth(door: Door) -> None:
    """Down to the last one that waits for it."""
    failed = await a_job(door.store)
    await door.store.cancel(failed)
    jobs = [job(key="c", depends_on=["b"]), job(key="b", depends_on=["a"]), job(key="a", dependencies=[failed])]
    response = await door.http.post(BATCH, json={"jobs": jobs})

    assert [item["status"] for item in response.json()["items"]] == ["BLOCKED"] * 3


@pytest.mark.parametrize(
    ("edges", "path"),
    [
        ({"a": ["a"]}, "a → a"),
        ({"a": ["b"], "b": ["a"]}, "a → b → a"),
        ({"x": ["a"], "a": ["b"], "b": ["c"], "c": ["a"]}, "a → b → c → a"),
    ],
)
async def test_a_cycle_is_refused_with_its_path(door: Door, edges: dict[str, list[str]], path: str) -> None:
    """In the sender's own keys; nothing is created."""
    jobs = [job(key=key, depends_on=needs) for key, needs in edges.items()]

    conflict(await door.http.post(BATCH, json={"jobs": [job(), *jobs]}), path)
    await door.project()
    assert (await door.search())["items"] == []


BAD: list[tuple[list[Any], tuple[str, ...]]] = [
    ([job(key="a"), job(key="a")], ("jobs[1].key",)),
    ([job(depends_on=["nobody"])], ("jobs[0].depends_on[0]",)),
    ([job(key="a"), job(depends_on=["a", "a"])], ("jobs[1].depends_on",)),
    ([job(), job(dependencies=[NOBODY])], ("jobs[1].dependencies[0]",)),
    ([job(), job(priority=11), job(name="")], ("jobs[1].priority", "jobs[2].name")),
    ([job(), job(retry_policy={"base_delay_seconds": 20, "max_delay_seconds": 10})],
     ("jobs[1].retry_policy.max_delay_seconds",)),
    ([job(id=NOBODY)], ("jobs[0].id",)),
    ([job(), "no object"], ("jobs[1]",)),
    ([None], ("jobs[0]",)),
]  # fmt: skip


@pytest.mark.parametrize(("jobs", "fields"), BAD, ids=lambda value: repr(value)[:30])
async def test_one_bad_job_refuses_the_batch(door: Door, jobs: list[Any], fields: tuple[str, ...]) -> None:
    """The fault is named with its place, and nothing is created."""
    invalid(await door.http.post(BATCH, json={"jobs": jobs}), *fields)
    await door.project()
    assert (await door.search())["items"] == []


@pytest.mark.parametrize("body", [{}, {"jobs": None}, {"jobs": {}}, {"jobs": [job()], "more": 1}, [job()]])
async def test_a_batch_is_an_object_with_jobs(door: Door, body: Any) -> None:
    """And nothing else."""
    refused(await door.http.post(BATCH, json=body), 400, "VALIDATION_ERROR")


async def test_a_thousand_faults_are_not_all_told(door: Door) -> None:
    """An answer names a hundred at most."""
    response = await door.http.post(BATCH, json={"jobs": [{}] * 1000})

    assert len(refused(response, 400, "VALIDATION_ERROR")["details"]) == 100


async def test_the_jobs_of_a_batch_live_together(wide_door: Door) -> None:
    """In one partition, so that one script can create them; that of the first job they depend on."""
    outside = await a_job(wide_door.store)
    jobs = [job(key=f"{i}", depends_on=[f"{i - 1}"] if i else []) for i in range(20)]
    jobs[7]["dependencies"] = [outside]
    response = await wide_door.http.post(BATCH, json={"jobs": jobs})

    ids = [item["id"] for item in response.json()["items"]]
    assert {job_id[19:22] for job_id in ids} == {outside[19:22]}
    assert await statuses(wide_door.store, ids) == ["READY"] + ["PENDING"] * 19


async def test_get_on_the_batch_is_the_wrong_method(door: Door) -> None:
    """It is no job's id."""
    for method in ("GET", "PUT", "DELETE"):
        response = await door.http.request(method, BATCH)
        refused(response, 405, "METHOD_NOT_ALLOWED")
        assert response.headers["allow"] == "POST"
