"""The same request, sent again: one job, whatever happens in between."""

import asyncio
from typing import Any

import pytest

from taskflow_streams import NewJob, Store, Submitted
from tests.integration.api.door import JOBS, NOBODY, Door, conflict, invalid
from tests.support.engine import a_job

KEY = "Idempotency-Key"
BODY = {"name": "a", "queue": "q", "payload": {"x": 1, "y": [2]}}


async def count(door: Door) -> int:
    """How many jobs there are."""
    await door.project()
    return len((await door.search(limit=100))["items"])


async def test_a_repeated_request_answers_with_the_first_job(door: Door) -> None:
    """201 once, then 200; the key may be in the header or in the body, and neither the order of keys nor a null means
    anything."""
    first = await door.http.post(JOBS, json=BODY, headers={KEY: "k"})
    again = await door.http.post(JOBS, json=dict(reversed(BODY.items())), headers={KEY: "k"})
    in_body = await door.http.post(JOBS, json=BODY | {"idempotency_key": "k"})
    with_null = await door.http.post(JOBS, json=BODY | {"owner": None}, headers={KEY: "k"})
    in_both = await door.http.post(JOBS, json=BODY | {"idempotency_key": "k"}, headers={KEY: "k"})

    assert first.status_code == 201
    assert [response.status_code for response in (again, in_body, with_null, in_both)] == [200] * 4
    assert first.json() == again.json() == in_body.json() == in_both.json()
    assert await count(door) == 1


async def test_the_answer_is_the_job_as_it_is_now(door: Door) -> None:
    """Not as it was."""
    job = (await door.http.post(JOBS, json=BODY, headers={KEY: "k"})).json()
    await door.http.post(f"{JOBS}/{job['id']}/cancel")

    again = await door.http.post(JOBS, json=BODY, headers={KEY: "k"})
    assert (again.status_code, again.json()["id"], again.json()["status"]) == (200, job["id"], "CANCELED")


async def test_the_same_key_with_another_body_is_a_conflict(door: Door) -> None:
    """And nothing is created."""
    job = (await door.http.post(JOBS, json=BODY, headers={KEY: "k"})).json()

    conflict(await door.http.post(JOBS, json=BODY | {"priority": 9}, headers={KEY: "k"}), job["id"])
    assert await count(door) == 1


async def test_without_a_key_every_request_is_a_new_job(door: Door) -> None:
    """Two keys are two jobs, and no key is none."""
    for headers in ({}, {}, {KEY: "k1"}, {KEY: "k2"}):
        assert (await door.http.post(JOBS, json=BODY, headers=headers)).status_code == 201
    assert await count(door) == 4


async def test_two_different_keys_in_one_request_are_refused(door: Door) -> None:
    """Header and field must agree, and there is one header."""
    invalid(await door.http.post(JOBS, json=BODY | {"idempotency_key": "k1"}, headers={KEY: "k2"}), "idempotency_key")
    invalid(await door.http.post(JOBS, json=BODY, headers=[(KEY, "k1"), (KEY, "k2")]), KEY)


@pytest.mark.parametrize("key", ["", "with space", "k" * 256, "ü"])
async def test_a_key_is_visible_ascii(door: Door, key: str) -> None:
    """1 to 255 characters that every client can put into a header."""
    invalid(await door.http.post(JOBS, json=BODY, headers=[(KEY.encode(), key.encode())]), KEY)


async def test_concurrent_requests_with_one_key_create_one_job(door: Door) -> None:
    """All get the same job; exactly one is told that it was created."""
    responses = await asyncio.gather(*(door.http.post(JOBS, json=BODY, headers={KEY: "k"}) for _ in range(20)))

    assert sorted(response.status_code for response in responses) == [200] * 19 + [201]
    assert len({response.json()["id"] for response in responses}) == 1
    assert await count(door) == 1


async def test_a_removed_job_is_not_created_again(door: Door) -> None:
    """Its key is remembered, and that is what the conflict says."""
    job = (await door.http.post(JOBS, json=BODY, headers={KEY: "k"})).json()
    await door.http.delete(f"{JOBS}/{job['id']}")

    conflict(await door.http.post(JOBS, json=BODY, headers={KEY: "k"}), job["id"], "removed")
    assert await count(door) == 0


async def test_a_client_that_died_after_the_claim_is_helped_on(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key was tied and nothing submitted: the next request creates the job under the same id."""
    submitted: list[str] = []

    async def die(_store: Store, jobs: list[NewJob]) -> list[Submitted]:
        submitted.extend(job.id for job in jobs)
        raise ConnectionResetError

    with monkeypatch.context() as patch:
        patch.setattr(Store, "create", die)
        assert (await door.http.post(JOBS, json=BODY, headers={KEY: "k"})).status_code == 500
    response = await door.http.post(JOBS, json=BODY, headers={KEY: "k"})

    assert (response.status_code, [response.json()["id"]]) == (201, submitted)


async def test_a_refused_request_leaves_its_key_free(door: Door) -> None:
    """A request that named an unknown job can be mended and sent with the same key."""
    bad = BODY | {"dependencies": [NOBODY]}
    invalid(await door.http.post(JOBS, json=bad, headers={KEY: "k"}), "dependencies[0]")

    mended = await door.http.post(JOBS, json=BODY, headers={KEY: "k"})
    assert mended.status_code == 201


def batch(*fields: dict[str, Any]) -> dict[str, Any]:
    """A batch of such jobs."""
    return {"jobs": [{"name": "a", "queue": "q"} | more for more in fields]}


async def test_a_header_covers_a_whole_batch(door: Door) -> None:
    """The same batch is created once; another one under the same key is a conflict, also a longer or shorter one."""
    body = batch({"key": "a"}, {"depends_on": ["a"]}, {})
    first = await door.http.post(f"{JOBS}/batch", json=body, headers={KEY: "k"})
    again = await door.http.post(f"{JOBS}/batch", json=body, headers={KEY: "k"})

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    for jobs in (body["jobs"][:2], body["jobs"] + [{"name": "b", "queue": "q"}]):
        conflict(await door.http.post(f"{JOBS}/batch", json={"jobs": jobs}, headers={KEY: "k"}))
    assert await count(door) == 3


async def test_concurrent_batches_with_one_key_are_created_once(door: Door) -> None:
    """All get the same jobs."""
    body = batch({"key": "a"}, {"depends_on": ["a"]})
    responses = await asyncio.gather(
        *(door.http.post(f"{JOBS}/batch", json=body, headers={KEY: "k"}) for _ in range(10))
    )

    assert {response.status_code for response in responses} <= {200, 201}
    assert len({tuple(job["id"] for job in response.json()["items"]) for response in responses}) == 1
    assert await count(door) == 2


async def test_jobs_of_a_batch_may_have_keys_of_their_own(door: Door) -> None:
    """What exists is answered with, what does not is created, and dependencies lead to the right ones."""
    old = (await door.http.post(JOBS, json={"name": "a", "queue": "q", "idempotency_key": "k1"})).json()
    body = batch({"idempotency_key": "k1"}, {"idempotency_key": "k2"}, {"dependencies": [old["id"]]})
    response = await door.http.post(f"{JOBS}/batch", json=body)

    assert response.status_code == 201
    assert response.json()["items"][0]["id"] == old["id"]
    assert await count(door) == 3
    invalid(
        await door.http.post(f"{JOBS}/batch", json=batch({"idempotency_key": "k"}, {"idempotency_key": "k"})),
        "jobs[1].idempotency_key",
    )


async def test_a_clash_in_a_batch_ties_and_creates_nothing(door: Door) -> None:
    """One key that was used with another body stops the batch, and the other keys stay free."""
    await door.create(name="other", idempotency_key="k2")
    body = batch({"idempotency_key": "k1"}, {"idempotency_key": "k2"})

    conflict(await door.http.post(f"{JOBS}/batch", json=body), "jobs[1].idempotency_key")
    assert await count(door) == 1
    assert (await door.create(name="mended", idempotency_key="k1"))["name"] == "mended"


async def test_a_removed_job_stops_a_batch_that_would_create_others(door: Door) -> None:
    """All or nothing holds for keys too; the keys that were tied on the way are free again."""
    gone = await door.create(name="a", idempotency_key="k1")
    await door.http.delete(f"{JOBS}/{gone['id']}")
    body = batch({"idempotency_key": "k1"}, {"idempotency_key": "k2"})

    conflict(await door.http.post(f"{JOBS}/batch", json=body), "nothing was created")
    assert await count(door) == 0
    assert (await door.create(name="mended", idempotency_key="k2"))["name"] == "mended"


async def test_an_unknown_dependency_leaves_the_keys_of_a_batch_free(door: Door) -> None:
    """Mended, the batch goes through under the same key."""
    body = batch({}, {"dependencies": [NOBODY]})
    invalid(await door.http.post(f"{JOBS}/batch", json=body, headers={KEY: "k"}), "jobs[1].dependencies[0]")

    real = await a_job(door.store)
    mended = await door.http.post(f"{JOBS}/batch", json=batch({}, {"dependencies": [real]}), headers={KEY: "k"})
    assert mended.status_code == 201


async def test_a_repeated_retry_creates_one_job(door: Door) -> None:
    """The header works there too, for one old job at a time."""
    old, other = await door.create(), await door.create()
    for job in (old, other):
        await door.http.post(f"{JOBS}/{job['id']}/cancel")
    first = await door.http.post(f"{JOBS}/{old['id']}/retry", headers={KEY: "k"})
    again = await door.http.post(f"{JOBS}/{old['id']}/retry", headers={KEY: "k"})

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    conflict(await door.http.post(f"{JOBS}/{other['id']}/retry", headers={KEY: "k"}))
