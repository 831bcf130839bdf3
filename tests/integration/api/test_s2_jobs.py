"""GET /jobs/{id}, its cancel, and the list: every column, in the words of this door."""

import asyncio
from typing import Any

import pytest

from taskflow_domain import JobStatus, ms_of_iso
from taskflow_streams import LOG_BYTES, Ending, Failure, How, LogChunk, Pool
from taskflow_streams.logs import Logs
from tests.integration.api.door import NOBODY, Door, Json, conflict, invalid, refused
from tests.support.engine import Held, Worker, a_job, a_running_job, an_ended_job, record, stall

COLUMNS = {
    "id", "queue", "type", "payload", "schedule_cron", "priority", "retries_max", "retries_attempted", "status",
    "created_at", "scheduled_at", "started_at", "finished_at", "result", "error", "owner", "progress",
}  # fmt: skip


async def show(door: Door, job_id: str, **query: Any) -> Json:
    """A job as this door shows it."""
    response = await door.http.get(f"/jobs/{job_id}", params=query)
    assert response.status_code == 200, response.text
    job: Json = response.json()
    return job


async def say(door: Door, held: Held, *chunks: tuple[str, bytes], max_bytes: int = LOG_BYTES) -> None:
    """Let a worker ship output."""
    assert await door.store.partitions[0].leases.log(held.worker, held.token, chunks, max_bytes) in ("ok", "full")


async def listed(door: Door, **query: Any) -> Json:
    """One page of the list."""
    response = await door.http.get("/jobs", params=query)
    assert response.status_code == 200, response.text
    page: Json = response.json()
    return page


async def test_a_new_job_has_every_column(door: Door) -> None:
    """Null, or empty, where there is nothing to say yet."""
    created = (await door.http.post("/jobs", json={"type": "shell", "cmd": "ls", "priority": -7, "owner": "me"})).json()
    job = await show(door, created["id"])

    assert set(job) == COLUMNS | {"stdout", "stderr", "lease", "logs"}
    assert (job["status"], job["priority"], job["owner"], job["queue"]) == ("queued", -7, "me", "general")
    assert (job["payload"], job["retries_max"], job["retries_attempted"]) == ({"cmd": "ls"}, 3, 0)
    assert (job["stdout"], job["stderr"], job["logs"]) == ("", "", {"items": [], "next": None})
    empty = {name for name, value in job.items() if value is None}
    assert empty == {
        "schedule_cron", "scheduled_at", "started_at", "finished_at", "result", "error", "progress", "lease",
    }  # fmt: skip


async def test_a_running_job_shows_its_lease_output_and_progress(door: Door) -> None:
    """The lease ends a visibility time-out after it was taken, unless it is renewed."""
    held = await a_running_job(door.store)
    await say(door, held, ("stdout", b"one\n"), ("stderr", b"oh\n"), ("stdout", b"two\n"))
    await door.store.partitions[0].leases.progress(held.worker, held.token, 0.5, "half")
    job = await show(door, held.job_id)

    assert (job["status"], job["stdout"], job["stderr"]) == ("running", "one\ntwo\n", "oh\n")
    assert job["progress"] == {"fraction": 0.5, "message": "half"}
    assert (job["lease"]["worker_id"], job["lease"]["leased_at"]) == ("w1", job["started_at"])
    assert ms_of_iso(job["lease"]["lease_expires_at"]) >= ms_of_iso(job["started_at"]) + 15_000
    assert [item["text"] for item in job["logs"]["items"]] == ["one\n", "oh\n", "two\n"]


async def test_a_lease_ends_a_visibility_timeout_after_its_own_renewal(door: Door) -> None:
    """Whatever else is heard of its holder: each lease has an end of its own."""
    [first, second] = [await a_running_job(door.store, worker="w1") for _ in range(2)]
    for held in (first, second):
        await stall(door.store, held, 10)
    worker = Worker(door.store.partitions[0], "w1")
    await worker.renew(second)
    now_ms = await door.store.now_ms()

    left = [
        ms_of_iso((await show(door, held.job_id))["lease"]["lease_expires_at"]) - now_ms for held in (first, second)
    ]

    assert 0 < left[0] <= 5_000 + 1_000  # the second is for a slow machine
    assert 10_000 < left[1] <= 15_000 + 1_000


async def test_the_logs_of_a_job_are_paged(door: Door) -> None:
    """Each page goes on where the one before ended; the whole output stays beside it."""
    held = await a_running_job(door.store)
    await say(door, held, *(("stdout", b"%d" % i) for i in range(5)))
    first = await show(door, held.job_id, logs_limit=3)
    second = await show(door, held.job_id, logs_limit=3, logs_after=first["logs"]["next"])

    assert [item["text"] for item in first["logs"]["items"] + second["logs"]["items"]] == list("01234")
    assert second["logs"]["next"] is None
    assert first["stdout"] == second["stdout"] == "01234"


async def test_the_output_is_that_of_the_last_attempt(door: Door) -> None:
    """That of the others is in the logs."""
    worker = Worker(door.store.partitions[0])
    held = await a_running_job(door.store)
    await say(door, held, ("stdout", b"first"))
    await worker.fail(held, delay_ms=0)
    again = await worker.take()
    await say(door, again, ("stdout", b"second"))
    job = await show(door, held.job_id)

    assert (job["stdout"], job["retries_attempted"], job["error"]) == ("second", 1, "Oops: no luck")
    assert [(item["attempt"], item["text"]) for item in job["logs"]["items"]] == [(1, "first"), (2, "second")]


async def test_output_that_was_cut_says_so(door: Door) -> None:
    """In the stream that was cut, and not in the other."""
    held = await a_running_job(door.store)
    await say(door, held, ("stdout", b"12345"), ("stderr", b"fine"), max_bytes=4)
    job = await show(door, held.job_id)

    assert job["stdout"].startswith("1234\n[stdout over 4 bytes was cut")
    assert job["stderr"] == "fine"


async def test_output_that_is_no_text_is_shown_as_far_as_it_is(door: Door) -> None:
    """A character cut by a seam is whole; what is no UTF-8 is marked."""
    held = await a_running_job(door.store)
    await say(door, held, ("stdout", b"a\xe2\x82"), ("stderr", b"x"), ("stdout", b"\xac\xff\n"), ("stdout", b"\xe2"))

    assert (await show(door, held.job_id))["stdout"] == "a€\ufffd\n\ufffd"


async def test_a_failed_command_keeps_its_exit_code(door: Door) -> None:
    """Result and error stand side by side, and so does the last output."""
    held = await a_running_job(door.store)
    ending = Ending(
        held.job_id, held.lease.fence, How.FATAL, b'{"exit_code":3,"output":null}', Failure("ExitCode", "exit code 3"),
        logs=(("stderr", b"bye"),),
    )  # fmt: skip
    await door.store.partitions[0].leases.report(held.worker, [ending])
    job = await show(door, held.job_id)

    assert (job["status"], job["error"], job["stderr"]) == ("failed", "ExitCode: exit code 3", "bye")
    assert job["result"] == {"exit_code": 3, "output": None}
    assert job["lease"] is None


@pytest.mark.parametrize(
    ("status", "word"),
    [(JobStatus.COMPLETED, "succeeded"), (JobStatus.FAILED, "failed"), (JobStatus.CANCELED, "canceled")],
)
async def test_endings_have_words(door: Door, status: JobStatus, word: str) -> None:
    """Those of this door."""
    job = await show(door, await an_ended_job(door.store, status))

    assert job["status"] == word
    assert job["finished_at"] is not None


async def test_a_job_that_can_never_run_has_failed(door: Door) -> None:
    """This door has no word for blocked, but says why."""
    failed = await an_ended_job(door.store, JobStatus.FAILED)
    job = await show(door, (await door.create(dependencies=[failed]))["id"])

    assert (job["status"], job["type"]) == ("failed", "task")
    assert "depends on" in job["error"]


async def test_a_job_is_canceled(door: Door) -> None:
    """At once before it starts; while it runs it is running until its worker says otherwise; then 409."""
    waiting = await a_job(door.store)
    response = await door.http.post(f"/jobs/{waiting}/cancel")
    assert (response.status_code, response.json()) == (200, {"id": waiting, "status": "canceled"})
    running = (await a_running_job(door.store)).job_id
    response = await door.http.post(f"/jobs/{running}/cancel")
    assert (response.status_code, response.json()) == (200, {"id": running, "status": "running"})

    assert (await record(door.store, running)).canceling
    conflict(await door.http.post(f"/jobs/{waiting}/cancel"), waiting, "canceled")


@pytest.mark.parametrize("job_id", [NOBODY, "no-uuid", "3fa85f64-5717-4562-b3fc-2c963f66afa6", "batch"])
async def test_what_is_no_job_is_not_found(door: Door, job_id: str) -> None:
    """Whatever shape its id has."""
    refused(await door.http.get(f"/jobs/{job_id}"), 404, "NOT_FOUND")
    refused(await door.http.post(f"/jobs/{job_id}/cancel"), 404, "NOT_FOUND")


async def test_queries_are_read_strictly(door: Door) -> None:
    """Bounds, shapes and names."""
    job_id = await a_job(door.store)

    for query in ({"logs_limit": 0}, {"logs_limit": 1001}, {"logs_after": "x"}, {"logs_after": "9" * 25 + "-0"}):
        invalid(await door.http.get(f"/jobs/{job_id}", params=query), next(iter(query)))
    for name, value in (
        ("status", "READY"), ("queue", "a b"), ("owner", ""), ("created_from", "soon"), ("created_to", "5"),
        ("page", 0), ("page", "x"), ("page_size", 0), ("page_size", 101), ("cursor", "x"),
    ):  # fmt: skip
        invalid(await door.http.get("/jobs", params={name: value}), name)


async def test_pages_are_numbered(door: Door) -> None:
    """From 1, the newest first, with the total; a page beyond the last is empty."""
    ids = [await a_job(door.store) for _ in range(5)]
    await door.project()
    pages = [await listed(door, page=number, page_size=2) for number in (1, 2, 3, 4)]

    assert sorted(job["id"] for page in pages for job in page["items"]) == sorted(ids)
    assert [len(page["items"]) for page in pages] == [2, 2, 1, 0]
    assert {(page["total"], page["page_size"]) for page in pages} == {(5, 2)}
    assert [page["page"] for page in pages] == [1, 2, 3, 4]
    assert set(pages[0]["items"][0]) == COLUMNS
    created = [job["created_at"] for page in pages for job in page["items"]]
    assert created == sorted(created, reverse=True)
    assert (await listed(door))["page_size"] == 20


async def test_lists_are_filtered_by_state(door: Door) -> None:
    """A word may stand for two states of the engine."""
    failed = await an_ended_job(door.store, JobStatus.FAILED)
    blocked = (await door.create(dependencies=[failed]))["id"]
    done = await an_ended_job(door.store)
    running = (await a_running_job(door.store)).job_id
    ready = await a_job(door.store)
    pending = await a_job(door.store, dependencies=(ready,))
    await door.project()

    for word, ids in {
        "queued": {ready, pending}, "running": {running}, "succeeded": {done}, "failed": {failed, blocked},
        "canceled": set(), "expired": set(),
    }.items():  # fmt: skip
        page = await listed(door, status=word)
        assert ({job["id"] for job in page["items"]}, page["total"]) == (ids, len(ids)), word


async def test_times_of_creation_bound_a_list_on_both_sides(door: Door) -> None:
    """Both ends belong to it."""
    job_id = await a_job(door.store)
    await door.project()
    created = (await show(door, job_id))["created_at"]

    assert (await listed(door, created_from=created, created_to=created))["total"] == 1
    assert (await listed(door, created_from="2999-01-01T00:00:00Z"))["total"] == 0
    assert (await listed(door, created_to="2020-01-01T00:00:00Z")) == {
        "items": [], "page": 1, "page_size": 20, "total": 0,
    }  # fmt: skip


async def test_a_queue_and_an_owner_together_are_exact(wide_door: Door) -> None:
    """Pages and totals count what matches both, however much matches one, over all partitions."""
    wanted = {await a_job(wide_door.store, queue="a", owner="me") for _ in range(7)}
    for i in range(60):
        await a_job(wide_door.store, queue="a", owner="you")
        await a_job(wide_door.store, queue=f"b{i % 3}", owner="me")
    await wide_door.project()
    pages = [await listed(wide_door, queue="a", owner="me", page=n, page_size=3) for n in (1, 2, 3)]

    assert {job["id"] for page in pages for job in page["items"]} == wanted
    assert [len(page["items"]) for page in pages] == [3, 3, 1]
    assert {page["total"] for page in pages} == {7}
    assert (await listed(wide_door, owner="me"))["total"] == 67
    assert (await listed(wide_door, queue="a", owner="nobody"))["total"] == 0
    assert (await listed(wide_door, queue="a", owner="me", created_from="2999-01-01"))["total"] == 0


async def test_a_few_of_many_are_found(door: Door) -> None:
    """Two old jobs of an owner behind a thousand newer ones of others in the same queue."""
    old = [await a_job(door.store, queue="a", owner="me") for _ in range(2)]
    for _ in range(1100):
        await a_job(door.store, queue="a", owner="you")
    await door.project()

    pages = [await listed(door, queue="a", owner="me", page_size=1, page=number) for number in (1, 2)]

    assert {page["total"] for page in pages} == {2}
    assert {job["id"] for page in pages for job in page["items"]} == set(old)


async def test_a_job_that_prints_without_end_is_shown_as_it_was_asked_for(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that is slower than the job does not run after it."""
    held = await a_running_job(door.store)
    await say(door, held, ("stdout", b"before"))
    read = Logs.read

    async def slow(logs: Logs, *args: Any, **options: Any) -> list[LogChunk]:
        await say(door, held, ("stdout", b"meanwhile"), ("stderr", b"."))
        return await read(logs, *args, **options)

    monkeypatch.setattr(Logs, "read", slow)
    monkeypatch.setattr("taskflow_api.logs._MANY", 1)

    async with asyncio.timeout(20):
        job = await show(door, held.job_id)

    assert job["stdout"].startswith("before")


@pytest.mark.parametrize("asked", ["2020-01-01T00:00:00.000Z", None])
async def test_a_retry_does_not_change_when_a_job_was_asked_to_start(door: Door, asked: str | None) -> None:
    """`scheduled_at` is what was sent, also after attempts that failed."""
    body = {"type": "shell", "cmd": "false", "scheduled_at": asked, "queue": "q"}
    job_id = (await door.http.post("/jobs", json=body)).json()["id"]
    worker = await Worker(door.store.partitions[0], pool=Pool(frozenset({"@shell"}))).join()
    for _ in range(2):
        held = await worker.take()
        await worker.fail(held, delay_ms=0)

    assert (await show(door, job_id))["scheduled_at"] == asked
