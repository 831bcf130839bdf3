"""One SDK: sync and async, over Redis and over HTTP, all the same to those who use it.  Against a whole TaskFlow."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from taskflow import (
    AsyncClient,
    Client,
    IdempotencyConflict,
    JobFailed,
    JobStatus,
    NotJson,
    RetryPolicy,
    Submission,
    Unavailable,
    UnknownDependency,
)
from taskflow.job import Progress
from taskflow_domain import Retries
from tests.support import sdk_tasks
from tests.support.processes import titled
from tests.support.stack import Stack, eventually
from tests.support.working import until

pytestmark = pytest.mark.xdist_group("sdk")
PATIENCE_S = 60.0
NOBODY = "019b7c3f-5d2e-7000-8000-3f2a9c1b4d5e"  # the id of no job


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """All services, and a worker with the tasks."""
    data = tmp_path_factory.mktemp("sdk") / "data"
    with Stack(data, worker_modules="tests.support.sdk_tasks", api_token="sesame") as stack:
        yield stack


@pytest.fixture(params=["redis-sync", "redis-async", "http-sync", "http-async"])
async def client(request: pytest.FixtureRequest, stack: Stack) -> AsyncIterator[Any]:
    """A client of each kind."""
    transport, _, kind = request.param.partition("-")
    url = stack.redis_url if transport == "redis" else stack.api_url
    if kind == "async":
        async with AsyncClient(url, token="sesame") as client:
            yield client
    else:
        with Client(url, token="sesame") as blocking:
            yield blocking


async def got(answer: Any) -> Any:
    """What a client of either kind answers."""
    return await answer if inspect.isawaitable(answer) else answer


async def listed(entries: Any) -> list[Any]:
    """All that comes of either kind."""
    return [entry async for entry in entries] if hasattr(entries, "__aiter__") else list(entries)


async def test_a_task_is_called_with_the_arguments_that_were_given(client: Any) -> None:
    """Positional or by keyword, sync or async, or with one payload as it is; the task's own options count."""
    sums = await got(client.enqueue(sdk_tasks.add, 1, b=2))
    greeting = await got(client.enqueue(sdk_tasks.greet, "ann", loud=True))
    echo = await got(client.enqueue(sdk_tasks.echo, {"args": [1], "kwargs": {}}))
    thread = await got(client.enqueue(sdk_tasks.where))

    assert await got(sums.result(PATIENCE_S)) == 3
    assert await got(greeting.result(timeout=PATIENCE_S)) == "HELLO ANN"
    assert await got(echo.result(PATIENCE_S)) == {"args": [1], "kwargs": {}}
    assert await got(thread.result(PATIENCE_S)) != "MainThread"
    job = await got(sums.job())
    assert (job.id, job.name, job.queue, job.status) == (sums.id, "sdk.add", "sums", JobStatus.COMPLETED)
    assert (job.payload, job.attempt, job.type, job.error, job.ended) == (
        {"args": [1], "kwargs": {"b": 2}}, 1, "task", None, True,
    )  # fmt: skip
    assert job.created_at <= job.started_at <= job.finished_at


async def test_both_ways_show_the_same_job(client: Any, stack: Stack) -> None:
    """Whatever way it was enqueued."""
    handle = await got(
        client.options(
            name="a sum", queue="other", priority=9, timeout_s=30, owner="ann", ttl_s=3600,
            retry_policy=RetryPolicy(max_attempts=2, jitter=0.5),
        ).enqueue(sdk_tasks.add, 1)
    )  # fmt: skip
    await got(handle.wait(PATIENCE_S))

    with Client(stack.redis_url) as direct, Client(stack.api_url, token="sesame") as http:
        seen, also = direct.job(handle), http.job(handle.id)
    assert seen == also
    assert (seen.name, seen.task, seen.queue, seen.priority) == ("a sum", "sdk.add", "other", 9)
    assert (seen.timeout_s, seen.owner, seen.result) == (30, "ann", 1)
    assert stack.job(handle.id)["retry_policy"]["jitter"] == 0.5


async def test_a_failed_job_is_an_error_with_its_reason(client: Any) -> None:
    """`result` raises it; `wait` gives the job."""
    handle = await got(client.enqueue(sdk_tasks.fail, "no luck"))

    with pytest.raises(JobFailed, match=r"is FAILED: ValueError: no luck") as raised:
        await got(handle.result(PATIENCE_S))

    assert raised.value.status is JobStatus.FAILED
    assert raised.value.error is not None
    assert "raise ValueError(why)" in str(raised.value.error.traceback)
    assert (await got(handle.wait(PATIENCE_S))).error.kind == "ValueError"
    assert not await got(handle.cancel())


async def test_many_at_once(client: Any) -> None:
    """Calls of one task, or any submissions; handles come in their order."""
    handles = await got(client.bulk(sdk_tasks.add, [(number, 1) for number in range(300)] + [{"a": 7}]))
    assert len({handle.id for handle in handles}) == 301
    assert [await got(handles[i].result(PATIENCE_S)) for i in (0, 299, 300)] == [1, 300, 7]

    mixed = await got(
        client.enqueue_many(
            [
                sdk_tasks.greet.prepare("bo"),
                sdk_tasks.add.options(queue="other").prepare(1),
                Submission("sdk.add", {"a": 2}),
            ]
        )
    )
    assert [await got(handle.result(PATIENCE_S)) for handle in mixed] == ["hello bo", 1, 2]
    assert await got(client.enqueue_many([])) == []


async def test_a_job_waits_for_others(client: Any) -> None:
    """They are named by handle or id; one that does not exist is refused."""
    first = await got(client.options(delay_s=0.5).enqueue(sdk_tasks.add, 1))
    second = await got(client.enqueue(sdk_tasks.add, 2))
    last = await got(client.options(after=[first, second.id]).enqueue(sdk_tasks.add, 3))

    assert await got(last.result(PATIENCE_S)) == 3
    before, after = await got(first.job()), await got(last.job())
    assert after.dependencies == (first.id, second.id)
    assert before.finished_at <= after.started_at
    failed = await got(client.enqueue(sdk_tasks.fail, "so"))
    blocked = await got(client.enqueue_named("sdk.add", {"a": 1}, after=[failed]))
    assert (await got(blocked.wait(PATIENCE_S))).status is JobStatus.BLOCKED
    with pytest.raises(ValueError, match=NOBODY):
        await got(client.options(after=[NOBODY]).enqueue(sdk_tasks.add, 1))


async def test_shell_and_python_jobs(client: Any) -> None:
    """With the options of any job."""
    shell = await got(client.shell('echo "$WHO"; echo 5 > "$TASKFLOW_OUTPUT"', env={"WHO": "me"}, queue="commands"))
    python = await got(client.python("tests.support.workload:add", [2], {"b": 3}))

    assert await got(shell.result(PATIENCE_S)) == {"exit_code": 0, "output": 5}
    assert [entry.text for entry in await listed(shell.logs())] == ["me\n"]
    assert (await got(shell.job())).queue == "commands"
    assert await got(python.result(PATIENCE_S)) == 5
    with pytest.raises(ValueError, match="callable"):
        await got(client.python("no function"))


async def test_output(client: Any) -> None:
    """While it runs and afterwards."""
    handle = await got(client.enqueue(sdk_tasks.talk, 3))

    followed = await listed(handle.logs(follow=True))
    afterwards = await listed(handle.logs())

    for entries in (followed, afterwards):
        texts = {name: "".join(str(e) for e in entries if e.stream == name) for name in ("stdout", "stderr")}
        assert texts == {"stdout": "line 0 ü\nline 1 ü\nline 2 ü\n", "stderr": "warning\n"}
    assert {entry.attempt for entry in afterwards} == {1}


async def test_a_running_job_is_watched_and_canceled(client: Any) -> None:
    """What it prints, how far it is, and that it does not end by itself."""
    handle = await got(client.enqueue(sdk_tasks.linger))
    if isinstance(client, Client):
        for entry in handle.logs(follow=True):
            assert entry.text == "here I am\n"
            break
    else:
        async for entry in handle.logs(follow=True):
            assert entry.text == "here I am\n"
            break
    assert await got(handle.status()) is JobStatus.RUNNING

    async def says() -> bool:
        return bool(await got(handle.progress()) == Progress(0.25, "waiting"))

    await until(says, "its progress")
    with pytest.raises(TimeoutError, match="is still RUNNING"):
        await got(handle.result(0.05))

    assert await got(handle.cancel())

    with pytest.raises(JobFailed, match="is CANCELED"):
        await got(handle.result(PATIENCE_S))


async def test_an_idempotency_key_makes_one_job(client: Any, request: pytest.FixtureRequest) -> None:
    """The same again is the same job; another content is refused."""
    keyed = client.options(idempotency_key=f"key-of-{request.node.name}")
    first = await got(keyed.enqueue(sdk_tasks.add, 1))

    assert await got(keyed.enqueue(sdk_tasks.add, 1)) == first
    with pytest.raises(IdempotencyConflict):
        await got(keyed.enqueue(sdk_tasks.add, 2))
    many = await got(client.enqueue_many([Submission("sdk.add", {"a": 5}), sdk_tasks.add.prepare(6)]))
    assert len({handle.id for handle in many}) == 2


async def test_an_idempotency_key_is_the_same_at_both_doors(
    client: Any, stack: Stack, request: pytest.FixtureRequest
) -> None:
    """Whichever way the job was enqueued first, with whatever options."""
    at = datetime.now(UTC) + timedelta(hours=1)
    options: list[Any] = [
        {},
        {"name": "näme", "queue": "other", "priority": 9, "owner": "ann", "timeout_s": 0.29, "ttl_s": 3600},
        {"retry_policy": RetryPolicy(max_attempts=2, jitter=0.1), "scheduled_at": at},
    ]
    with Client(stack.redis_url) as direct, Client(stack.api_url, token="sesame") as http:
        for number, some in enumerate(options):
            some["idempotency_key"] = f"{number}-of-{request.node.name}"
            first = await got(client.options(**some).enqueue(sdk_tasks.add, 1, b=2))
            for other in (direct, http):
                assert other.options(**some).enqueue(sdk_tasks.add, 1, b=2).id == first.id
                with pytest.raises(IdempotencyConflict):
                    other.options(**some).enqueue(sdk_tasks.add, 2)
        shell = await got(client.shell("echo ü 1.0", idempotency_key=f"shell-of-{request.node.name}"))
        for other in (direct, http):
            assert other.shell("echo ü 1.0", idempotency_key=f"shell-of-{request.node.name}").id == shell.id


async def test_an_idempotency_key_may_be_twice_in_a_batch(client: Any, request: pytest.FixtureRequest) -> None:
    """Equal calls are one job; calls that differ are refused, and the key is still free."""
    keyed = client.options(idempotency_key=f"key-of-{request.node.name}")
    with pytest.raises(IdempotencyConflict, match="two jobs that differ have the idempotency key 'key-of-"):
        await got(keyed.bulk(sdk_tasks.add, [(1,), (2,)]))

    twice = await got(keyed.bulk(sdk_tasks.add, [(3,), (3,)]))

    assert twice[0] == twice[1]
    assert await got(twice[0].result(PATIENCE_S)) == 3


@pytest.mark.parametrize("nobody", [NOBODY, "nonsense"])
async def test_a_job_cannot_wait_for_one_that_does_not_exist(client: Any, nobody: str) -> None:
    """Neither alone nor among others."""
    some = await got(client.enqueue(sdk_tasks.add, 1))
    with pytest.raises(UnknownDependency) as alone:
        await got(client.options(after=[some, nobody]).enqueue(sdk_tasks.add, 1))
    with pytest.raises(UnknownDependency) as among:
        await got(client.enqueue_many([Submission("sdk.add"), Submission("sdk.add", after=[nobody])]))

    assert alone.value.dependency == among.value.dependency == nobody


async def test_a_job_for_later(client: Any) -> None:
    """At a time, or after a while; it can be called off."""
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    handle = await got(client.options(scheduled_at=at).enqueue(sdk_tasks.add, 1))

    assert (await got(handle.job())).scheduled_at == at
    with pytest.raises(TimeoutError, match="is still READY"):
        await got(handle.wait(0))
    assert await got(handle.cancel())
    assert await got(handle.status()) is JobStatus.CANCELED


LATER: list[tuple[str, Any]] = [
    ("enqueue", lambda client, some: client.options(**some).enqueue(sdk_tasks.add, 1)),
    ("enqueue_named", lambda client, some: client.enqueue_named("sdk.add", {"a": 1}, **some)),
    ("bulk", lambda client, some: client.options(**some).bulk(sdk_tasks.add, [(1,)])),
    ("enqueue_many", lambda client, some: client.enqueue_many([Submission("sdk.add", {"a": 1}, **some)])),
    ("prepare", lambda client, some: client.enqueue_many([sdk_tasks.add.options(**some).prepare(1)])),
    ("shell", lambda client, some: client.shell("true", **some)),
    ("python", lambda client, some: client.python("math:sqrt", [4], **some)),
]


@pytest.mark.parametrize(("_name", "make"), LATER, ids=[name for name, _ in LATER])
async def test_whatever_makes_a_job_can_make_it_for_later(client: Any, _name: str, make: Any) -> None:
    """At a time or after a while; a time in the past is due now."""

    async def made(**some: Any) -> Any:
        found = await got(make(client, some))
        return found[0] if isinstance(found, list) else found

    at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    later = [await made(scheduled_at=at), await made(delay_s=3600)]
    now = [await made(scheduled_at=at - timedelta(days=365)), await made(delay_s=0)]

    for handle in now:
        assert (await got(handle.wait(PATIENCE_S))).status is JobStatus.COMPLETED
    first, second = [await got(handle.job()) for handle in later]
    assert first.status is second.status is JobStatus.READY
    assert first.scheduled_at == at
    assert second.scheduled_at - second.created_at == timedelta(hours=1)
    for handle in later:
        assert await got(handle.cancel())


async def test_what_is_wrong_is_told_before_it_is_sent(client: Any) -> None:
    """Wrong arguments, what is no JSON, what is no task, what is out of bounds."""
    wrong: Any = sdk_tasks.add
    with pytest.raises(TypeError, match=r"sdk.add\(a, b=0\) cannot be called so: missing a required argument: 'a'"):
        await got(client.enqueue(wrong))
    with pytest.raises(NotJson, match=r"^kwargs.loud: datetime is not JSON; convert it, e.g. value.isoformat\(\)$"):
        await got(client.enqueue(sdk_tasks.greet, "ann", loud=datetime.now(UTC)))
    with pytest.raises(TypeError, match="is no task; decorate it with @task"):
        await got(client.enqueue(print, 1))
    with pytest.raises(TypeError, match="use enqueue_named"):
        await got(client.enqueue("sdk.add", 1))
    with pytest.raises(ValueError, match="priority is from 1 to 10"):
        await got(client.options(priority=11).enqueue(sdk_tasks.add, 1))
    with pytest.raises(ValueError, match="scheduled_at has no time zone"):
        await got(client.options(scheduled_at=datetime(2026, 1, 1)).enqueue(sdk_tasks.add, 1))
    with pytest.raises(ValueError, match="a queue's name"):
        await got(client.options(queue="a b").enqueue(sdk_tasks.add, 1))


async def test_a_job_that_does_not_exist(client: Any) -> None:
    """None, or a LookupError."""
    handle = client.handle(NOBODY)

    assert await got(client.get(NOBODY)) is None
    assert await got(client.get("nonsense")) is None
    for call in (handle.job, handle.status, handle.progress, handle.wait, handle.result, handle.cancel):
        with pytest.raises(LookupError, match=f"there is no job {NOBODY}"):
            await got(call())
    with pytest.raises(LookupError, match="there is no job"):
        await listed(handle.logs())


async def test_a_closed_client_says_so(client: Any) -> None:
    """Whichever copy of it was closed."""
    await got(client.options(priority=3).close())

    with pytest.raises(RuntimeError, match="this client was closed; make another"):
        await got(client.get(NOBODY))
    await got(client.close())


def process(stack: Stack, name: str) -> psutil.Process:
    """The process of a service, or that of the server, which pads its title."""
    [found] = titled(stack.process.pid, f"taskflow {name}")
    return found


@pytest.mark.parametrize(("way", "victim"), [("redis", "valkey"), ("http", "valkey"), ("http", "api")])
def test_waiting_and_following_outlive_the_death_of_a_server(stack: Stack, way: str, victim: str) -> None:
    """As long as they have time; nothing is lost, and nothing has to be asked again by the user."""
    url = stack.redis_url if way == "redis" else stack.api_url
    with ThreadPoolExecutor(3) as pool, Client(url, token="sesame") as client:
        handle = client.options(delay_s=3600).enqueue(sdk_tasks.add, 1)
        waiting = [pool.submit(handle.wait, 120), pool.submit(handle.wait)]
        following = pool.submit(lambda: list(handle.logs(follow=True)))
        all_: list[Future[Any]] = [*waiting, following]
        assert not wait(all_, timeout=2, return_when=FIRST_COMPLETED).done  # and the job is on disk

        process(stack, victim).kill()

        assert not wait(all_, timeout=2, return_when=FIRST_COMPLETED).done

        def called_off() -> bool:
            try:
                return client.cancel(handle)
            except Unavailable:  # a slow machine may take longer to start it than the client tries
                return False

        eventually(called_off, "server that is back")
        assert [one.result(PATIENCE_S).status for one in waiting] == [JobStatus.CANCELED] * 2
        assert following.result(PATIENCE_S) == []


def test_a_program_over_http_ends_without_a_word(stack: Stack, tmp_path: Path) -> None:
    """Also when it forgets to close, and forks."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys, taskflow\n"
        f"client = taskflow.Client({stack.api_url!r}, token='sesame')\n"
        "handle = client.enqueue_named('taskflow.echo', 1)\n"
        "if pid := os.fork():\n    assert os.waitpid(pid, 0)[1] == 0\n"
        "assert handle.result(60) == 1\n"
    )
    command = [sys.executable, "-W", "always", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


async def test_more_retries_than_the_api_allows(stack: Stack) -> None:
    """Are refused with the api's own words."""
    with Client(stack.api_url, token="sesame") as http, pytest.raises(ValueError, match="max_attempts"):
        http.options(retry_policy=Retries(max_attempts=100)).enqueue(sdk_tasks.add, 1)
