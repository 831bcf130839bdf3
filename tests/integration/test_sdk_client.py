"""The client enqueues once, however often it has to ask, and tells what became of a job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from taskflow import Client, IdempotencyConflict, JobFailed, Registry, Submission
from taskflow.broker import find_broker
from taskflow.supervisor.claim import Claim, Running
from taskflow_domain import JobStatus, partition_of
from taskflow_streams import Canceled, Full, Store, Unavailable, UnknownDependency
from taskflow_streams.embedded import EmbeddedServer
from tests.support.working import ONCE, hired


@pytest.fixture
def tasks() -> Registry:
    """Two tasks: one that adds, one that fails."""
    registry = Registry()

    @registry.task(queue="sums")
    async def add(a: int, b: int) -> int:
        return a + b

    @registry.task
    async def fail() -> None:
        raise ValueError("no luck")

    return registry


async def test_enqueue_and_wait_for_the_result(store: Store, server: EmbeddedServer, tasks: Registry) -> None:
    """By function or by name; the task's own options count."""
    client = Client(store, tasks)
    async with hired(store, server, tasks):
        job = await client.enqueue(tasks.tasks["add"].function, {"a": 1, "b": 2})
        assert await client.result(job, 20) == 3

        done = await client.wait(await client.enqueue("add", {"args": [3], "kwargs": {"b": 4}}, queue="other"), 20)
        assert (done.status, done.queue, done.value) == (JobStatus.COMPLETED, "other", b"7")

    record = await client.get(job)
    assert record is not None
    assert (record.queue, record.spec.name, record.spec.payload) == ("sums", "add", b'{"a":1,"b":2}')


async def test_a_result_that_never_comes_is_an_error(store: Store, server: EmbeddedServer, tasks: Registry) -> None:
    """With the reason, if there is one."""
    client = Client(store, tasks)
    async with hired(store, server, tasks):
        failing = await client.enqueue("fail", retry_policy=ONCE)
        with pytest.raises(JobFailed, match=r"is FAILED: ValueError: no luck"):
            await client.result(failing, 20)

    waiting = await client.enqueue("add", {"a": 1, "b": 2})
    with pytest.raises(TimeoutError):
        await client.wait(waiting, 0.05)
    assert await client.cancel(waiting) is Canceled.CANCELED
    with pytest.raises(JobFailed, match="is CANCELED"):
        await client.result(waiting, 5)
    with pytest.raises(LookupError, match="there is no job"):
        await client.wait(store.new_id(), 5)
    assert await client.get("nonsense") is None


async def test_thousands_of_jobs_in_batches(wide_store: Store) -> None:
    """All are there, and their ids come in the order they were asked for."""
    client = Client(wide_store)

    ids = await client.enqueue_many(Submission("work", {"number": number}) for number in range(2_345))

    assert len(set(ids)) == 2_345
    records = await wide_store.get(ids)
    assert [json.loads(record.spec.payload)["number"] for record in records if record] == list(range(2_345))
    assert await client.enqueue_many([]) == []


async def test_a_job_waits_for_others(wide_store: Store) -> None:
    """It is born in the partition of its first dependency; an unknown one is refused."""
    client = Client(wide_store)
    first = await client.enqueue("work")
    second = await client.enqueue("work")

    last = await client.enqueue("work", after=[first, second])

    record = await client.get(last)
    assert record is not None
    assert (record.status, record.spec.dependencies) == (JobStatus.PENDING, (first, second))
    assert partition_of(last) == partition_of(first)
    with pytest.raises(UnknownDependency, match="does not exist"):
        await client.enqueue("work", after=[wide_store.new_id()])


async def test_an_idempotency_key_makes_one_job(store: Store) -> None:
    """The same again is the same job; another content is refused."""
    client = Client(store)

    first = await client.enqueue("work", {"n": 1}, idempotency_key="order 17")

    assert await client.enqueue("work", {"n": 1}, idempotency_key="order 17") == first
    with pytest.raises(IdempotencyConflict, match=first):
        await client.enqueue("work", {"n": 2}, idempotency_key="order 17")
    many = await client.enqueue_many(
        [
            Submission("work"),
            Submission("work", {"n": 1}, idempotency_key="order 17"),
            Submission("work", idempotency_key="order 18"),
        ]
    )
    assert many[1] == first
    assert len(set(many)) == 3


async def test_a_refused_job_gives_its_key_back(store: Store) -> None:
    """Mended, it may use the same key; keys of jobs that exist keep them."""
    client = Client(store)
    old = await client.enqueue("work", idempotency_key="old")
    with pytest.raises(UnknownDependency):
        await client.enqueue_many(
            [
                Submission("work", idempotency_key="old"),
                Submission("work", after=[store.new_id()], idempotency_key="new"),
            ]
        )

    mended = await client.enqueue("work", {"mended": True}, idempotency_key="new")

    assert mended != old
    assert await client.enqueue("work", idempotency_key="old") == old


async def test_an_answer_that_was_lost_does_not_double_the_job(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The submission is repeated under the same id."""
    client, submit, calls = Client(store), store.submit, list[int]()

    async def cut(jobs: Any) -> Any:
        calls.append(len(jobs))
        words = await submit(jobs)
        if len(calls) == 1:
            raise Unavailable("the connection was cut")
        return words

    monkeypatch.setattr(store, "submit", cut)
    job = await client.enqueue("work")

    assert calls == [1, 1]
    home = store.partitions[0]
    assert [event.job_id for event in await home.history.after("0-0", 10)] == [job]


async def test_a_full_server_is_told_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking again would not help; that is for the caller to decide."""
    calls: list[int] = []

    async def refuse(_jobs: Any) -> Any:
        calls.append(1)
        raise Full("the Redis server has reached its maxmemory")

    monkeypatch.setattr(store, "submit", refuse)
    with pytest.raises(Full):
        await Client(store).enqueue("work")

    assert calls == [1]


def test_the_server_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told, or set, or that of the `taskflow up` which runs here, or the default."""
    monkeypatch.chdir(tmp_path)
    for name in ("TASKFLOW_REDIS_URL", "DATABASE_URL", "TASKFLOW_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    assert find_broker() == ("redis://127.0.0.1:6379/0", "tf")

    with Claim(Path(".taskflow")) as claim:
        claim.publish(Running(1, "http://127.0.0.1:8000", "unix:///run/up.sock", True, {}))
        assert find_broker() == ("unix:///run/up.sock", "tf")
        monkeypatch.setenv("TASKFLOW_REDIS_URL", "redis://set/0")
        monkeypatch.setenv("TASKFLOW_NAMESPACE", "mine")
        assert find_broker() == ("redis://set/0", "mine")
        assert find_broker("redis://told/0", "yours") == ("redis://told/0", "yours")


async def test_connect_and_close(server: EmbeddedServer) -> None:
    """A client is a context."""
    async with await Client.connect(server.url, namespace="connecting") as client:
        assert await client.get(client.store.new_id()) is None
        await client.store.redis.flushdb()
