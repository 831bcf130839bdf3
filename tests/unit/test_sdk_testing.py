"""`taskflow.testing.inline()`: a user's tasks in a unit test, without any server."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import taskflow
from taskflow import (
    AsyncClient,
    Client,
    Fatal,
    IdempotencyConflict,
    JobFailed,
    JobStatus,
    NotJson,
    Registry,
    RetryPolicy,
    UnknownDependency,
    current,
)
from taskflow.testing import inline

tasks = Registry()
NOWHERE = "redis://nowhere.invalid:1/0"
ran: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ran.clear()


@tasks.task(queue="sums")
def add(a: int, b: int = 0) -> int:
    """Add."""
    ran.append(f"add {a}")
    return a + b


@tasks.task
async def greet(name: str) -> str:
    """Greet."""
    await asyncio.sleep(0)
    return f"hello {name}"


@tasks.task(retry_policy=RetryPolicy(max_attempts=3, base_delay_seconds=300))
def flaky(failures: int) -> int:
    """Fail so often, then say which attempt it is."""
    if current().attempt <= failures:
        raise ValueError(f"attempt {current().attempt}")
    return current().attempt


@tasks.task
def hopeless() -> None:
    """Fail for good."""
    raise Fatal("never")


@tasks.task
def talk() -> str:
    """Print, and say how far it is."""
    print("out")  # noqa: T201 - to be seen in the log
    print("err", file=sys.stderr)  # noqa: T201
    current().progress(0.5, "half")
    return current().job_id


@tasks.task
def parent() -> int:
    """Enqueue another, and wait for it."""
    return add.delay(1, 2).result() + 1


@tasks.task
def leaves_work() -> None:
    """Enqueue another, and do not wait."""
    add.delay(5)
    ran.append("left")


@tasks.task
def forever() -> None:
    """Enqueue itself."""
    forever.delay()


@tasks.task
def later() -> None:
    """Enqueue itself for later."""
    ran.append("later")
    later.options(delay_s=60).delay()


@tasks.task
def runs_a_loop() -> int:
    """As a sync task may."""

    async def inner() -> int:
        return 4

    return asyncio.run(inner())


def test_delay_runs_the_task_here() -> None:
    """At once; and the jobs are listed."""
    with inline() as jobs:
        handle = add.delay(1, b=2)
        assert ran == ["add 1"]
        assert handle.result() == 3
        assert greet.delay("ann").result(timeout=1) == "hello ann"

    assert [(job.name, job.queue, job.status, job.attempt) for job in jobs] == [
        ("add", "sums", JobStatus.COMPLETED, 1),
        ("greet", "default", JobStatus.COMPLETED, 1),
    ]
    assert (jobs[0].payload, jobs[-1].result, len(jobs[:1])) == ({"args": [1], "kwargs": {"b": 2}}, "hello ann", 1)
    assert [job.id for job in jobs.of(add)] == [handle.id]
    assert "add COMPLETED" in repr(jobs)


async def test_a_parameter_may_have_any_name() -> None:
    """Also those of the methods that hand it on."""

    @tasks.task
    def named(self: int, task: str, args: int = 0, kwargs: int = 0) -> list[Any]:
        return [self, task, args, kwargs]

    with inline() as jobs:
        assert named.delay(self=1, task="x").result() == [1, "x", 0, 0]
        assert named.options(priority=9).delay(task="x", self=1, args=2, kwargs=3).result() == [1, "x", 2, 3]
        assert Client(NOWHERE).enqueue(named, 1, task="x").result() == [1, "x", 0, 0]
        handle = await AsyncClient(NOWHERE).enqueue(named, self=1, task="x")
        assert await handle.result() == [1, "x", 0, 0]
        Client(NOWHERE).enqueue_many([named.prepare(self=1, task="x"), named.options(priority=9).prepare(1, task="x")])
    assert [job.status for job in jobs] == ["COMPLETED"] * 6
    assert named(self=1, task="x") == [1, "x", 0, 0]


def test_any_client_is_diverted_and_comes_back() -> None:
    """Also one that was made before, with an address; afterwards it means its server again."""
    with Client(NOWHERE, tasks=tasks) as client:
        with inline() as outer:
            with inline() as inner:
                assert client.enqueue_named("add", {"a": 7}).result() == 7
            client.enqueue(add, 1)
        assert (len(outer), len(inner)) == (1, 1)
        with pytest.raises(taskflow.Unavailable):
            client.get(inner[0].id)


async def test_a_closed_client_says_so() -> None:
    """As it would anywhere else."""
    with inline():
        blocking, awaited = Client(NOWHERE), AsyncClient(NOWHERE)
        blocking.close()
        await awaited.close()
        with pytest.raises(RuntimeError, match="this client was closed"):
            blocking.get("x")
        with pytest.raises(RuntimeError, match="this client was closed"):
            await awaited.get("x")


async def test_on_an_event_loop() -> None:
    """Coroutine functions run on it, others beside it; a sync client works, too."""
    with inline() as jobs:
        async with AsyncClient(NOWHERE) as client:
            handle = await client.enqueue(greet, "bo")
            assert await handle.result() == "hello bo"
            assert await (await client.enqueue(runs_a_loop)).result() == 4
            many = await asyncio.gather(*(client.enqueue(greet, str(number)) for number in range(20)))
            assert [await one.result(5) for one in many] == [f"hello {number}" for number in range(20)]
        assert runs_a_loop.delay().result() == 4
        assert greet.delay("cy").result() == "hello cy"
        assert parent.delay().result() == 4
    assert len(jobs) == 26


def test_retries_follow_the_policy_and_nobody_waits() -> None:
    """As many attempts as it has; none after Fatal."""
    with inline():
        assert flaky.delay(2).result() == 3
        failed = flaky.delay(3)
        with pytest.raises(JobFailed, match="is FAILED: ValueError: attempt 3") as raised:
            failed.result()
        assert failed.job().attempt == 3
        assert raised.value.error is not None
        assert "taskflow/inline" not in str(raised.value.error.traceback)
        assert 'raise ValueError(f"attempt {current().attempt}")' in str(raised.value.error.traceback)
        assert hopeless.delay().job().attempt == 1


def test_payloads_and_results_are_json_as_in_production() -> None:
    """What could not be sent fails in the test, too."""
    wrong: Any = add
    with inline() as jobs:
        with pytest.raises(NotJson, match=r"args\[0\]: datetime is not JSON"):
            wrong.delay(datetime.now(UTC))
        with pytest.raises(TypeError, match="cannot be called so"):
            wrong.delay()
        assert len(jobs) == 0

        @tasks.task
        def odd() -> Any:
            return {1, 2}

        with pytest.raises(JobFailed, match="TypeError: a task returns JSON"):
            odd.options(retry_policy=RetryPolicy(max_attempts=1)).delay().result()

        @tasks.task
        def pair(value: Any, /) -> Any:
            return value

        assert pair.delay((1, 2)).result() == [1, 2]


def test_dependencies_are_obeyed() -> None:
    """Completed: it runs; failed: it is blocked; unknown: refused."""
    with inline(at_once=False) as jobs:
        first = add.delay(1)
        second = add.options(after=[first], priority=10).delay(2)
        failing = hopeless.delay()
        blocked = add.options(after=[failing, first]).delay(3)
        assert {job.status for job in jobs} == {JobStatus.READY, JobStatus.PENDING}
        assert ran == []

        assert jobs.run() == 3

        assert ran == ["add 1", "add 2"]
        assert second.status() is JobStatus.COMPLETED
        with pytest.raises(JobFailed, match="is BLOCKED: a dependency did not complete"):
            blocked.result()
        with pytest.raises(UnknownDependency):
            add.options(after=["no job"]).delay(1)
        assert jobs.run() == 0


def test_the_most_urgent_runs_first() -> None:
    """In the order of a queue."""
    with inline(at_once=False) as jobs:
        for priority in (1, 10, 5):
            add.options(priority=priority).delay(priority)
        jobs.run()
    assert ran == ["add 10", "add 5", "add 1"]


def test_jobs_that_jobs_enqueue() -> None:
    """Run after the one that enqueued them, unless it waits for them."""
    with inline() as jobs:
        assert parent.delay().result() == 4
        leaves_work.delay()
        assert ran == ["add 1", "left", "add 5"]
        assert [job.status for job in jobs] == [JobStatus.COMPLETED] * 4
        with pytest.raises(RuntimeError, match="enqueue itself for ever"):
            forever.delay()


def test_a_job_for_later_runs_when_it_is_time() -> None:
    """That is, with `run`, or when it is waited for."""
    with inline() as jobs:
        handle = later.options(delay_s=60).delay()
        assert (handle.status(), ran) == (JobStatus.READY, [])

        assert jobs.run() == 1
        assert jobs.run() == 1

        assert ran == ["later", "later"]
        assert [job.status for job in jobs] == [JobStatus.COMPLETED, JobStatus.COMPLETED, JobStatus.READY]


@pytest.mark.parametrize(
    "options", [{"delay_s": 0}, {"scheduled_at": datetime(2020, 1, 1, tzinfo=UTC)}], ids=["no-delay", "past"]
)
def test_a_time_in_the_past_is_due_now(options: Any) -> None:
    """As with a server: it is not for later, so nobody has to wait for it."""
    with inline() as jobs:
        handle = add.options(**options).delay(1)
        many = Client(NOWHERE, tasks=tasks).options(**options).bulk(add, [(2,)])

        assert handle.status() is many[0].status() is JobStatus.COMPLETED
        assert handle.job().scheduled_at is not None
        assert jobs.run() == 0


def test_output_progress_and_cancel() -> None:
    """Handles do all they do in production."""
    with inline(at_once=False):
        handle = talk.delay()
        assert [(entry.stream, entry.text) for entry in handle.logs(follow=True) if entry.text.strip()] == [
            ("stdout", "out"), ("stderr", "err"),
        ]  # fmt: skip
        assert handle.result() == handle.id
        progress = handle.progress()
        assert progress is not None
        assert (progress.fraction, progress.note) == (0.5, "half")
        assert not handle.cancel()
        unwanted = add.delay(1)
        assert unwanted.cancel()
        with pytest.raises(JobFailed, match="is CANCELED"):
            unwanted.result()
        with pytest.raises(LookupError, match="there is no job nonsense"):
            Client(NOWHERE).handle("nonsense").result()


def test_commands_and_functions_by_their_place() -> None:
    """Shell jobs really run."""
    with inline(), Client(NOWHERE) as client:
        shell = client.shell('echo "$WHO"; echo 5 > "$TASKFLOW_OUTPUT"', env={"WHO": "me"})
        assert shell.result() == {"exit_code": 0, "output": 5}
        assert "".join(map(str, shell.logs())) == "me\n"
        assert client.python("operator:add", [1, 2]).result() == 3
        bad = client.shell("exit 3", retry_policy=RetryPolicy(max_attempts=1))
        with pytest.raises(JobFailed, match="ExitCode: it exited with 3"):
            bad.result()
        assert bad.job().result == {"exit_code": 3, "output": None}


def test_what_nobody_here_can_run_stays(recwarn: pytest.WarningsRecorder) -> None:
    """As without a worker that has it; waiting for it is no use."""
    with inline(), Client(NOWHERE) as client:
        handle = client.enqueue_named("elsewhere")
        assert handle.status() is JobStatus.READY
        with pytest.raises(TimeoutError, match="is still READY"):
            handle.result()
    assert not recwarn.list


def test_an_idempotency_key_makes_one_job() -> None:
    """The same again is the same job."""
    with inline() as jobs:
        keyed = add.options(idempotency_key="k")
        assert keyed.delay(1) == keyed.delay(1)
        with pytest.raises(IdempotencyConflict):
            keyed.delay(2)
    assert len(jobs) == 1


def test_an_interrupted_test_ends() -> None:
    """What is no Exception is the test's, not the task's."""

    @tasks.task
    def interrupted() -> None:
        raise KeyboardInterrupt

    with inline() as jobs, pytest.raises(KeyboardInterrupt):
        interrupted.delay()
    assert jobs[0].status is JobStatus.CANCELED


class Odd(BaseException):
    """What is no Exception."""


@tasks.task
def raises(what: str) -> None:
    """Raise what is no Exception."""
    raise {"cancel": asyncio.CancelledError, "exit": SystemExit, "odd": Odd}[what]("bye")


@tasks.task
async def raises_on_a_loop(what: str) -> None:
    """The same."""
    await asyncio.sleep(0)
    raises(what)


@pytest.mark.parametrize("what", ["cancel", "exit", "odd"])
async def test_whatever_a_task_raises_is_a_failed_job(what: str) -> None:
    """As with a worker, in a thread or on a loop; the test goes on."""
    once = RetryPolicy(max_attempts=1)
    with inline(), Client(NOWHERE) as client:
        for task in (raises, raises_on_a_loop):
            job = client.options(retry_policy=once).enqueue(task, what).wait()
            assert (job.status, job.error and job.error.message) == (JobStatus.FAILED, "bye")
            async with AsyncClient(NOWHERE) as other:
                handle = await other.options(retry_policy=once).enqueue(task, what)
                assert await handle.status() is JobStatus.FAILED


async def test_a_test_that_is_canceled_ends() -> None:
    """What cancels the test is not the task's."""

    @tasks.task
    async def endless() -> None:
        await asyncio.sleep(3600)

    with inline() as jobs:
        async with AsyncClient(NOWHERE) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.enqueue(endless), 0.05)
    assert jobs[0].status is JobStatus.CANCELED


def test_what_a_task_logs_is_in_its_output(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """From INFO on, as with a worker; afterwards the streams and the loggers are as before."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # some test may have set up others
    monkeypatch.setattr(logging.getLogger(), "level", logging.WARNING)
    before = (sys.stdout, sys.stderr, logging.getLogger().level, list(logging.getLogger().handlers))

    @tasks.task
    def logs() -> None:
        logging.getLogger("mine").debug("no")
        logging.getLogger("mine").info("yes")
        print("printed")  # noqa: T201 - to be seen in the log

    with inline():
        text = "".join(map(str, logs.delay().logs()))
        print("outside")  # noqa: T201 - not to be seen there

    assert text == "INFO mine: yes\nprinted\n"
    assert capsys.readouterr().out == "printed\noutside\n"
    assert before == (sys.stdout, sys.stderr, logging.getLogger().level, list(logging.getLogger().handlers))


@pytest.mark.parametrize("capture", ["fd", "sys", "no"])
def test_the_fixture(tmp_path: Path, capture: str) -> None:
    """`taskflow_jobs` is there for those who name the plugin, and has the output however pytest takes it."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["taskflow.testing"]')
    (tmp_path / "test_it.py").write_text(
        "from taskflow import task\n\n"
        "@task\ndef double(n):\n    print('hi')\n    return 2 * n\n\n"
        "def test_it(taskflow_jobs):\n    handle = double.delay(2)\n    assert handle.result() == 4\n"
        "    assert ''.join(map(str, handle.logs())) == 'hi\\n'\n    assert len(taskflow_jobs) == 1\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        f"--capture={capture}",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        ".",
        ".",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
