"""The job: SRS §1.1 and §3.1."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from taskflow_domain import Job, JobStatus, RetryPolicy, select_next_jobs, should_retry

JOB_ID = "019b7c3f-0000-7000-8000-000000000000"
OTHER_ID = "019b7c3f-abcd-7000-8000-000000000000"
CREATED = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
REQUIRED: dict[str, Any] = {
    "id": JOB_ID,
    "name": "resize",
    "queue": "images",
    "status": "READY",
    "created_at": "2026-01-02T03:04:05.678Z",
    "updated_at": "2026-01-02T03:04:05.678Z",
}


def a_job(**fields: object) -> Job:
    return Job.model_validate(REQUIRED | fields)


def refused_field(**fields: object) -> str:
    with pytest.raises(ValidationError) as caught:
        a_job(**fields)
    return str(caught.value.errors()[0]["loc"][0])


def test_a_job_has_the_eleven_fields_of_the_srs() -> None:
    """No more and no fewer, with the defaults of the SRS."""
    assert a_job().model_dump() == {
        "id": JOB_ID,
        "name": "resize",
        "queue": "images",
        "payload": {},
        "priority": 5,
        "status": JobStatus.READY,
        "dependencies": (),
        "retry_policy": RetryPolicy().model_dump(),
        "created_at": CREATED,
        "updated_at": CREATED,
        "attempt_count": 0,
    }


@pytest.mark.parametrize("field", sorted(REQUIRED))
def test_a_job_needs_its_required_fields(field: str) -> None:
    """None of them has a default."""
    with pytest.raises(ValidationError, match="Field required") as caught:
        Job.model_validate({name: value for name, value in REQUIRED.items() if name != field})

    assert caught.value.errors()[0]["loc"] == (field,)


def test_a_job_as_json_can_be_read_again() -> None:
    """Times have their fixed spelling, and the whole comes back equal."""
    job = a_job(payload={"a": [1, None]}, dependencies=[OTHER_ID], attempt_count=2)

    text = job.model_dump_json()

    assert '"created_at":"2026-01-02T03:04:05.678Z"' in text
    assert Job.model_validate_json(text) == job


def test_the_rules_take_a_job_as_it_is() -> None:
    """A Job is what ordering, retrying and dependency rules ask for."""
    first, second = a_job(priority=9, attempt_count=3), a_job(id=OTHER_ID, priority=1)

    assert select_next_jobs([second, first], running_count=0, max_concurrent=1) == [first]
    assert [should_retry(first), should_retry(second)] == [False, True]


def test_a_job_is_a_value() -> None:
    """It is not changed in place, and takes no field it does not know."""
    with pytest.raises(ValidationError, match="frozen"):
        a_job().priority = 3  # type: ignore[misc]
    assert refused_field(prority=3) == "prority"


@pytest.mark.parametrize("name", ["x", "x" * 255, "日" * 255, " ", "a\nb"])
def test_names_have_1_to_255_characters(name: str) -> None:
    """Characters, not bytes."""
    assert a_job(name=name).name == name


@pytest.mark.parametrize("name", ["", "x" * 256, "a\0", "\ud800", 5, None, b"bytes"])
def test_other_names_are_refused(name: object) -> None:
    """Empty, too long, unprintable in UTF-8, or no text at all."""
    assert refused_field(name=name) == "name"


@pytest.mark.parametrize("queue", ["a", "A_9", "x" * 64, "_"])
def test_queue_names_are_plain_words(queue: str) -> None:
    """Letters, digits and underscore, 1 to 64 of them."""
    assert a_job(queue=queue).queue == queue


@pytest.mark.parametrize("queue", ["", "x" * 65, "a-b", "a b", "a.b", "é", "٣", "a\n", "\na", "a\0", 7, None])
def test_other_queue_names_are_refused(queue: object) -> None:
    """Not even a trailing newline slips through."""
    assert refused_field(queue=queue) == "queue"


@pytest.mark.parametrize("priority", [0, 11, -1, True, "5", 5.0, 5.5, None, 10**30])
def test_other_priorities_are_refused(priority: object) -> None:
    """Whole numbers from 1 to 10."""
    assert [a_job(priority=value).priority for value in (1, 10)] == [1, 10]
    assert refused_field(priority=priority) == "priority"


@pytest.mark.parametrize("payload", [{}, [], None, 0, "text", False, {"a": {"b": [1.5]}}])
def test_a_payload_is_any_json_value(payload: object) -> None:
    """Also null."""
    assert a_job(payload=payload).payload == payload


@pytest.mark.parametrize("payload", ["x" * 65_535, float("nan"), {"a": "\0"}, {1: 2}, "\ud800", {1, 2}])
def test_a_payload_that_cannot_be_stored_is_refused(payload: object) -> None:
    """The largest one that fits is two quotes shorter."""
    assert a_job(payload="x" * 65_534)
    assert refused_field(payload=payload) == "payload"


def test_a_job_has_at_most_50_dependencies() -> None:
    """50 are accepted, 51 are not."""
    ids = [f"019b7c3f-0000-7000-8000-{i:012x}" for i in range(51)]

    assert a_job(dependencies=ids[:50]).dependencies == tuple(ids[:50])
    assert refused_field(dependencies=ids) == "dependencies"


@pytest.mark.parametrize("wrong", ["", "b", 5, None, JOB_ID[:-1], JOB_ID.replace("-", "")])
def test_ids_are_uuids(wrong: object) -> None:
    """In the job and among its dependencies; the fault names the place in the list."""
    assert refused_field(id=wrong) == "id"
    with pytest.raises(ValidationError) as caught:
        a_job(dependencies=[OTHER_ID, wrong])
    assert caught.value.errors()[0]["loc"] == ("dependencies", 1)


def test_ids_in_upper_case_become_canonical() -> None:
    """So that one job has one id."""
    job = a_job(id=JOB_ID.upper(), dependencies=[OTHER_ID.upper()])

    assert (job.id, job.dependencies) == (JOB_ID, (OTHER_ID,))


@pytest.mark.parametrize("count", [-1, True, "0", 1.0])
def test_attempts_are_counted_in_whole_numbers(count: object) -> None:
    """From 0 up."""
    assert refused_field(attempt_count=count) == "attempt_count"


@pytest.mark.parametrize("status", ["ready", "DONE", "", None])
def test_a_status_is_one_of_eight(status: object) -> None:
    """Spelling counts."""
    assert refused_field(status=status) == "status"


@pytest.mark.parametrize("moment", ["yesterday", 1_767_323_045, None, "1969-01-01"])
def test_times_are_iso_texts_or_datetimes(moment: object) -> None:
    """A bare number could be seconds or milliseconds, so it is neither."""
    assert refused_field(created_at=moment) == "created_at"


@given(st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)), st.integers(-12, 12))
def test_times_are_held_in_utc_to_the_millisecond(local: datetime, hours: int) -> None:
    """Whatever the offset, the moment is the same."""
    aware = local.replace(tzinfo=timezone(timedelta(hours=hours)))

    held = a_job(created_at=aware).created_at

    assert held.tzinfo is UTC
    assert timedelta(0) <= aware - held < timedelta(milliseconds=1)


def test_a_bad_policy_is_found_inside_the_job() -> None:
    """The fault names the field within the policy."""
    with pytest.raises(ValidationError) as caught:
        a_job(retry_policy={"base_delay_seconds": 20, "max_delay_seconds": 10})

    assert caught.value.errors()[0]["loc"] == ("retry_policy", "max_delay_seconds")
    assert a_job(retry_policy={"max_attempts": 1}).retry_policy == RetryPolicy(max_attempts=1)
