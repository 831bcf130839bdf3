"""What a job may look like, whatever way it goes: the bounds of the api, which Redis would not mind."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from taskflow_domain import MAX_DEPENDENCIES, MAX_PRIORITY, MIN_PRIORITY, NAME_MAX_CHARS, RetryPolicy

if TYPE_CHECKING:
    from taskflow.submission import Submission

QUEUE_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
TYPE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
KEY = re.compile(r"[!-~]{1,255}")  # as the api takes it, where it may be a header
NO_TEXT = re.compile("[\0\ud800-\udfff]")  # half a surrogate pair has no place in UTF-8
SHORTEST_S = 0.001
LONGEST_S = 3650 * 86_400
LONGEST_TIMEOUT_S = 365 * 86_400


@lru_cache(maxsize=1024)
def check_name(name: str, what: str = "a job's name") -> None:
    """Raise ValueError for what is no name."""
    if not 1 <= len(name) <= NAME_MAX_CHARS or NO_TEXT.search(name):
        raise ValueError(f"{what} has 1 to {NAME_MAX_CHARS} characters, none of them NUL or half a surrogate pair")


@lru_cache(maxsize=1024)
def check_queue(queue: str) -> None:
    """Raise ValueError for what is no name of a queue."""
    if QUEUE_NAME.fullmatch(queue) is None:
        raise ValueError(f"a queue's name is 1 to 64 letters, digits and any of _ - . and not {queue!r}")


def check_types(submission: Submission) -> None:
    """Raise TypeError for what a type checker would have found; the bounds come later."""
    if type(submission.priority) is not int:
        raise TypeError(f"priority is a whole number, not {submission.priority!r}")
    for option in ("name", "queue", "owner", "idempotency_key"):
        text = getattr(submission, option)
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{option} is a str, not {text!r}")
    for option in ("delay_s", "ttl_s", "timeout_s"):
        seconds = getattr(submission, option)
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float)):
            raise TypeError(f"{option} is a number of seconds, not {seconds!r}")
    if submission.scheduled_at is not None and not isinstance(submission.scheduled_at, datetime):
        raise TypeError(f"scheduled_at is a datetime, not {submission.scheduled_at!r}")
    if submission.retry_policy is not None and not isinstance(submission.retry_policy, RetryPolicy):
        raise TypeError(f"retry_policy is a RetryPolicy, not {submission.retry_policy!r}")
    if submission.after:
        _check_after(submission.after)


def _check_after(after: Any) -> None:
    if isinstance(after, str):
        raise TypeError(f"after is a list of jobs, such as [{after!r}], not one of them")
    if not isinstance(after, Collection):
        raise TypeError(f"after is a list of jobs, not {after!r}")
    for job in after:
        if not isinstance(job if isinstance(job, str) else getattr(job, "id", None), str):
            raise TypeError(f"after holds handles or ids of jobs, not {job!r}")


def check_limits(submission: Submission) -> None:
    """Raise ValueError for what is out of bounds."""
    if not MIN_PRIORITY <= submission.priority <= MAX_PRIORITY:
        raise ValueError(f"priority is from {MIN_PRIORITY} to {MAX_PRIORITY}, not {submission.priority}")
    if len(submission.after) > MAX_DEPENDENCIES:
        raise ValueError(f"a job may wait for {MAX_DEPENDENCIES} others, not {len(submission.after)}")
    if submission.delay_s is not None and submission.scheduled_at is not None:
        raise ValueError("a job has a delay_s or a scheduled_at, not both")
    if submission.scheduled_at is not None and submission.scheduled_at.utcoffset() is None:
        raise ValueError(
            "scheduled_at has no time zone, so it could be any of many moments; give it one, e.g. "
            "datetime.now(UTC) + …, or value.astimezone() for local time"
        )
    if submission.idempotency_key is not None and KEY.fullmatch(submission.idempotency_key) is None:
        raise ValueError(f"an idempotency key is 1 to 255 visible ASCII characters, not {submission.idempotency_key!r}")
    if submission.owner is not None:
        check_name(submission.owner, "an owner")
    check_seconds("delay_s", submission.delay_s, 0)
    check_seconds("ttl_s", submission.ttl_s)
    check_seconds("timeout_s", submission.timeout_s, most=LONGEST_TIMEOUT_S)


def check_seconds(name: str, seconds: float | None, least: float = SHORTEST_S, most: float = LONGEST_S) -> None:
    """Raise ValueError for what is no length of time within these bounds."""
    if seconds is not None and not least <= seconds <= most:
        raise ValueError(f"{name} is a number of seconds from {least:g} to {most:,}, not {seconds!r}")
