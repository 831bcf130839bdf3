"""What a client asks for becomes a job for the engine, or is refused with a sentence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from taskflow import AsyncClient, Client, Registry, RetryPolicy, Submission
from taskflow.body import fingerprint
from taskflow.submission import named_job, new_job, shell_job

ID = "019b7c3f-0000-7000-8000-000000000000"
OTHER = "019b7c3f-0000-7000-8000-000000000001"


def test_a_task_brings_its_options() -> None:
    """Unless the submission says otherwise."""
    tasks = Registry()
    policy = RetryPolicy(max_attempts=9)

    @tasks.task(name="mail.send", queue="mail", retry_policy=policy, timeout_s=30)
    def send() -> None: ...

    by_function = new_job(Submission(send), ID, tasks)
    by_name = new_job(Submission("mail.send"), ID, tasks)
    assert by_function == by_name
    assert (by_name.handler, by_name.name, by_name.task) == ("mail.send", "mail.send", None)
    assert (by_name.queue, by_name.retry, by_name.timeout_ms) == ("mail", policy, 30_000)

    own = RetryPolicy(max_attempts=1)
    job = new_job(Submission(send, name="hello", queue="slow", retry_policy=own, timeout_s=1.5), ID, tasks)
    assert (job.name, job.task, job.handler) == ("hello", "mail.send", "mail.send")
    assert (job.queue, job.retry, job.timeout_ms) == ("slow", own, 1500)


def test_a_name_that_only_workers_know_will_do() -> None:
    """With the defaults of the SRS."""
    job = new_job(Submission("elsewhere", {"a": [1, "ü"]}), ID, Registry())

    assert (job.queue, job.retry, job.order, job.timeout_ms) == ("default", RetryPolicy(), 5, None)
    assert job.payload == '{"a":[1,"ü"]}'.encode()
    assert new_job(Submission("elsewhere"), ID, Registry()).payload == b"{}"
    assert new_job(Submission("elsewhere", None), ID, Registry()).payload == b"null"


def test_a_job_waits_once_for_each_other() -> None:
    """However often that is named."""
    job = new_job(Submission("x", after=[OTHER, ID, OTHER]), ID, Registry())

    assert job.dependencies == (OTHER, ID)


def test_times_and_order() -> None:
    """Seconds become milliseconds, priority becomes order."""
    at = datetime(2026, 1, 2, tzinfo=UTC)

    job = new_job(Submission("x", priority=10, after=[OTHER], delay_s=0.25, ttl_s=60), ID, Registry())
    assert (job.order, job.dependencies, job.delay_ms, job.ttl_ms) == (0, (OTHER,), 250, 60_000)
    assert new_job(Submission("x", scheduled_at=at), ID, Registry()).due_ms == 1_767_312_000_000


@pytest.mark.parametrize(
    ("submission", "reason"),
    [
        (Submission("x", queue="a b"), "a queue's name"),
        (Submission("x", queue="a\n"), "a queue's name"),
        (Submission("x", name="n" * 256), "1 to 255"),
        (Submission("", {}), "1 to 255"),
        (Submission("x", priority=0), "from 1 to 10"),
        (Submission("x", priority=11), "from 1 to 10"),
        (Submission("x", after=[OTHER] * 51), "50 others"),
        (Submission("x", delay_s=-1), "delay_s is a number"),
        (Submission("x", delay_s=float("nan")), "delay_s is a number"),
        (Submission("x", timeout_s=0), "timeout_s is a number"),
        (Submission("x", ttl_s=float("inf")), "ttl_s is a number"),
        (Submission("", name="n"), "1 to 255"),
        (Submission("x", name="\ud800"), "half a surrogate pair"),
        (Submission("\udfff"), "half a surrogate pair"),
        (Submission("x", owner=""), "an owner has 1 to 255"),
        (Submission("x", owner="o" * 256), "an owner has 1 to 255"),
        (Submission("x", owner="a\0b"), "an owner has 1 to 255 characters, none of them NUL"),
        (Submission("x", owner="\ud800"), "an owner has .* half a surrogate pair"),
        (Submission("x", timeout_s=365 * 86_400 + 1), "timeout_s is a number of seconds from 0.001 to 31,536,000"),
        (Submission("x", delay_s=3650 * 86_400 + 1), "delay_s is a number of seconds from 0 to 315,360,000"),
        (Submission("x", delay_s=1, scheduled_at=datetime(2026, 1, 1, tzinfo=UTC)), "not both"),
        (Submission("x", scheduled_at=datetime(2026, 1, 1)), r"no time zone.*value\.astimezone\(\) for local time"),
        (Submission("x", "y" * 65_536), "65,536 bytes"),
        (Submission("x", {"a": object()}), "JSON"),
        (Submission("x", idempotency_key="a b"), "visible ASCII"),
        (Submission(print), "not registered as a task"),
    ],
)
def test_what_is_out_of_bounds_is_refused(submission: Submission, reason: str) -> None:
    """Before it reaches the server."""
    with pytest.raises(ValueError, match=reason):
        new_job(submission, ID, Registry())


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("priority", "x"), ("priority", 5.5), ("priority", None), ("priority", True), ("name", 1), ("queue", ["q"]),
        ("owner", 1), ("idempotency_key", 1), ("delay_s", "1"), ("ttl_s", []), ("timeout_s", True),
        ("scheduled_at", "2026-01-01"), ("retry_policy", 3), ("after", OTHER), ("after", 1), ("after", [1]),
    ],
)  # fmt: skip
def test_an_option_of_a_wrong_type_is_named(option: str, value: Any) -> None:
    """Before anything fails over it."""
    options: Any = {option: value}
    with pytest.raises(TypeError, match=f"^{option} "):
        new_job(Submission("x", **options), ID, Registry())


def test_an_option_that_there_is_not_is_told_with_those_there_are() -> None:
    """At every place that takes options, and before a job is made."""
    wrong: Any = {"foo": 1}
    task = Registry().task(name="t")(print)
    for client in (Client(), AsyncClient()):
        with pytest.raises(TypeError, match=r"no option 'foo'; the options are name, queue, priority, after"):
            client.options(**wrong)
    with pytest.raises(TypeError, match="no option 'foo'"):
        task.options(**wrong)
    with pytest.raises(TypeError, match="no option 'foo'"):
        named_job("x", None, wrong)
    with pytest.raises(TypeError, match="no option 'foo'"):
        shell_job("true", None, None, wrong)


@pytest.mark.parametrize("change", [{"payload": 1}, {"queue": "q"}, {"priority": 1}, {"delay_s": 1}, {"owner": "me"}])
def test_a_fingerprint_tells_contents_apart(change: dict[str, Any]) -> None:
    """And not ids."""
    first = new_job(Submission("x"), ID, Registry())

    assert fingerprint(first) == fingerprint(new_job(Submission("x"), OTHER, Registry()))
    assert fingerprint(first) != fingerprint(new_job(Submission("x", **change), ID, Registry()))
