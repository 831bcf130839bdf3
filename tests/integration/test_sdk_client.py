"""The client enqueues once, however often it has to ask, and tells what became of a job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from taskflow import AsyncClient, IdempotencyConflict, JobFailed, Registry, Submission, TaskFunction
from taskflow.broker import Server, find_server
from taskflow.supervisor.claim import Claim, Running
from taskflow.transport import patience
from taskflow.transport.direct import RedisTransport
from taskflow.transport.output import Output
from taskflow_domain import JobStatus, partition_of
from taskflow_streams import GIVEN_BACK, Ending, Full, How, LogChunk, Store, Unavailable, UnknownDependency
from taskflow_streams.embedded import EmbeddedServer
from tests.support.engine import a_running_job
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


def adding(tasks: Registry) -> TaskFunction[..., int]:
    """The task that adds."""
    return TaskFunction(tasks.tasks["add"])


async def test_enqueue_and_wait_for_the_result(store: Store, server: EmbeddedServer, tasks: Registry) -> None:
    """By function or by name; the task's own options count."""
    client = AsyncClient(transport=RedisTransport(store), tasks=tasks)
    async with hired(store, server, tasks):
        job = await client.enqueue(adding(tasks), a=1, b=2)
        assert await client.result(job, 20) == 3

        named = await client.enqueue_named("add", {"args": [3], "kwargs": {"b": 4}}, queue="other")
        done = await named.wait(20)
        assert (done.status, done.queue, done.result) == (JobStatus.COMPLETED, "other", 7)

    record = await client.get(job)
    assert record is not None
    assert (record.queue, record.name, record.payload) == ("sums", "add", {"a": 1, "b": 2})


async def test_a_result_that_never_comes_is_an_error(store: Store, server: EmbeddedServer, tasks: Registry) -> None:
    """With the reason, if there is one."""
    client = AsyncClient(transport=RedisTransport(store), tasks=tasks)
    async with hired(store, server, tasks):
        failing = await client.enqueue_named("fail", retry_policy=ONCE)
        with pytest.raises(JobFailed, match=r"is FAILED: ValueError: no luck"):
            await client.result(failing, 20)

    waiting = await client.enqueue_named("add", {"a": 1, "b": 2})
    with pytest.raises(TimeoutError):
        await client.wait(waiting, 0.05)
    assert await client.cancel(waiting)
    with pytest.raises(JobFailed, match="is CANCELED"):
        await client.result(waiting, 5)
    wrong: list[Any] = ["5", float("nan"), -1, True]
    for timeout in wrong:
        with pytest.raises(ValueError, match=r"^timeout is a number of seconds"):
            await client.result(waiting, timeout)
    with pytest.raises(LookupError, match="there is no job"):
        await client.wait(store.new_id(), 5)
    assert await client.get("nonsense") is None


async def test_thousands_of_jobs_in_batches(wide_store: Store) -> None:
    """All are there, and their ids come in the order they were asked for."""
    client = AsyncClient(transport=RedisTransport(wide_store))

    ids = await client.enqueue_many(Submission("work", {"number": number}) for number in range(2_345))

    assert len(set(ids)) == 2_345
    records = await wide_store.get([handle.id for handle in ids])
    assert [json.loads(record.spec.payload)["number"] for record in records if record] == list(range(2_345))
    assert await client.enqueue_many([]) == []


async def test_a_job_waits_for_others(wide_store: Store) -> None:
    """It is born in the partition of its first dependency; an unknown one is refused."""
    client = AsyncClient(transport=RedisTransport(wide_store))
    first = await client.enqueue_named("work")
    second = await client.enqueue_named("work")

    last = await client.enqueue_named("work", after=[first, second])

    record = await client.get(last)
    assert record is not None
    assert (record.status, record.dependencies) == (JobStatus.PENDING, (first.id, second.id))
    assert partition_of(last.id) == partition_of(first.id)
    with pytest.raises(UnknownDependency, match="does not exist"):
        await client.enqueue_named("work", after=[wide_store.new_id()])


async def test_an_idempotency_key_makes_one_job(store: Store) -> None:
    """The same again is the same job; another content is refused."""
    client = AsyncClient(transport=RedisTransport(store))

    first = await client.enqueue_named("work", {"n": 1}, idempotency_key="order-17")

    assert await client.enqueue_named("work", {"n": 1}, idempotency_key="order-17") == first
    with pytest.raises(IdempotencyConflict, match=first.id):
        await client.enqueue_named("work", {"n": 2}, idempotency_key="order-17")
    many = await client.enqueue_many(
        [
            Submission("work"),
            Submission("work", {"n": 1}, idempotency_key="order-17"),
            Submission("work", idempotency_key="order-18"),
        ]
    )
    assert many[1] == first
    assert len(set(many)) == 3


async def test_a_refused_job_gives_its_key_back(store: Store) -> None:
    """Mended, it may use the same key; keys of jobs that exist keep them."""
    client = AsyncClient(transport=RedisTransport(store))
    old = await client.enqueue_named("work", idempotency_key="old")
    with pytest.raises(UnknownDependency):
        await client.enqueue_many(
            [
                Submission("work", idempotency_key="old"),
                Submission("work", after=[store.new_id()], idempotency_key="new"),
            ]
        )

    mended = await client.enqueue_named("work", {"mended": True}, idempotency_key="new")

    assert mended != old
    assert await client.enqueue_named("work", idempotency_key="old") == old


async def test_an_answer_that_was_lost_does_not_double_the_job(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The submission is repeated under the same id."""
    client, submit, calls = AsyncClient(transport=RedisTransport(store)), store.submit, list[int]()

    async def cut(jobs: Any) -> Any:
        calls.append(len(jobs))
        words = await submit(jobs)
        if len(calls) == 1:
            raise Unavailable("the connection was cut")
        return words

    monkeypatch.setattr(store, "submit", cut)
    job = await client.enqueue_named("work")

    assert calls == [1, 1]
    home = store.partitions[0]
    assert [event.job_id for event in await home.history.after("0-0", 10)] == [job.id]


async def test_enqueueing_and_reading_are_tried_for_some_seconds(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of it, also the one that ties a key to its job; then the server's last word is told."""
    monkeypatch.setattr(patience, "FIRST_PAUSE_S", 0.001)
    client, calls = AsyncClient(transport=RedisTransport(store)), list[str]()

    def away(name: str, times: float) -> None:
        ask = getattr(store, name)

        async def sometimes(rows: Any) -> Any:
            calls.append(name)
            if calls.count(name) <= times:
                raise Unavailable("the connection was cut")
            return await ask(rows)

        monkeypatch.setattr(store, name, sometimes)

    for name in ("claim", "submit", "get"):
        away(name, 6)
    job = await client.enqueue_named("work", idempotency_key="k")
    assert await job.status() is JobStatus.READY
    assert sorted(calls) == ["claim"] * 7 + ["get"] * 7 + ["submit"] * 7

    monkeypatch.setattr(patience, "ASKING_S", 0.1)
    away("get", float("inf"))
    with pytest.raises(Unavailable, match="the connection was cut"):
        await job.status()


async def test_a_full_server_is_told_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking again would not help; that is for the caller to decide."""
    calls: list[int] = []

    async def refuse(_jobs: Any) -> Any:
        calls.append(1)
        raise Full("the Redis server has reached its maxmemory")

    monkeypatch.setattr(store, "submit", refuse)
    with pytest.raises(Full):
        await AsyncClient(transport=RedisTransport(store)).enqueue_named("work")

    assert calls == [1]


@pytest.mark.parametrize("follow", [False, True])
async def test_half_a_character_at_the_end_of_output_is_marked(store: Store, follow: bool) -> None:
    """Once nothing can complete it any more."""
    held = await a_running_job(store)
    leases = store.partitions[0].leases
    client = AsyncClient(transport=RedisTransport(store))
    await leases.log("w1", held.token, [("stdout", b"abc\xe2\x82")], 1_000)
    assert [entry.text async for entry in client.logs(held.job_id)] == ["abc"]

    await leases.report("w1", [Ending(*held.token, How.COMPLETED)])

    assert [entry.text async for entry in client.logs(held.job_id, follow=follow)] == ["abc", "\ufffd"]


def test_two_runs_of_one_attempt_share_no_character() -> None:
    """The mark between them stands for the half that the first one left."""
    output = Output()
    chunks = [("stdout", b"one\xe2"), ("system", GIVEN_BACK), ("stdout", b"\x82\xactwo")]
    seen = [output.entry(LogChunk(f"{n}-0", stream, 1, text)) for n, (stream, text) in enumerate(chunks)]
    assert [entry.text for entry in seen] == ["one", "\ufffd[its worker gave it back]\n", "\ufffd\ufffdtwo"]
    assert output.rests() == []


def test_the_server_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told, or set, or that of the `taskflow up` which runs here, or the default."""
    monkeypatch.chdir(tmp_path)
    for name in ("REDIS_URL", "API_URL", "API_TOKEN", "NAMESPACE", "DATA_DIR", "CONFIG"):
        monkeypatch.delenv(f"TASKFLOW_{name}", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert find_server() == Server("redis://127.0.0.1:6379/0", "tf", None, guessed=True)

    with Claim(Path(".taskflow")) as claim:
        claim.publish(Running(1, "http://127.0.0.1:8000", "unix:///run/up.sock", True, {}))
        assert find_server().url == "unix:///run/up.sock"
        Path(".env").write_text("TASKFLOW_API_URL=http://api\nTASKFLOW_API_TOKEN=secret\n")
        assert find_server() == Server("http://api", "tf", "secret")
        monkeypatch.setenv("TASKFLOW_REDIS_URL", "redis://set/0")
        monkeypatch.setenv("TASKFLOW_NAMESPACE", "mine")
        assert find_server() == Server("redis://set/0", "mine", "secret")
        assert find_server("http://told", "yours", "other") == Server("http://told", "yours", "other")


async def test_connect_and_close(server: EmbeddedServer) -> None:
    """A client is a context."""
    async with await AsyncClient.connect(server.url, namespace="connecting") as client:
        assert await client.get(client.store.new_id()) is None
        await client.store.redis.flushdb()
