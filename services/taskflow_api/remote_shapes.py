"""The answers to workers that speak HTTP, for OpenAPI."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from taskflow_api import examples
from taskflow_api.fields import TYPE_PATTERN
from taskflow_api.shapes import Queue, Shape, Time, Uuid


class Registered(Shape):
    """A worker's id, and the clock it has to keep to."""

    id: Uuid
    heartbeat_s: float = Field(description="Send a heartbeat this often.")
    visibility_timeout_s: float = Field(description="After this long without one, its jobs are given to others.")


class Beat(Shape):
    """What a worker has to know about the jobs it runs."""

    lost: list[Uuid] = Field(description="Not its own any more: stop them, and report nothing.")
    cancel: list[Uuid] = Field(description="To be stopped; then report `fail` or `release`, and they are canceled.")
    draining: bool = Field(description="It gets no more jobs: finish what runs, then leave.")


class LeasedJob(Shape):
    """A job to run, and the token to report with."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.LEASED_JOB]})

    job: Uuid
    token: str
    type: str = Field(pattern=TYPE_PATTERN, description="`task`, or the executor's name.")
    handler: str = Field(description="Which of the worker's handlers shall run it.")
    name: str
    task: str | None
    queue: Queue
    payload: Any = Field(description="The executor's fields, or what the task gets.")
    attempt: int = Field(ge=1, description="Which attempt this is.")
    fence: int = Field(ge=1, description="Greater with every lease of the job: show it to what must not run twice.")
    timeout_s: float | None = Field(description="How long it may take.  The worker sees to it.")
    created_at: Time


class LeasedJobs(Shape):
    """Jobs to run; none when the time was over."""

    items: list[LeasedJob]
    draining: bool = Field(description="The worker gets no more jobs.")


class Heard(Shape):
    """What became of a report."""

    outcome: Literal["accepted", "already_done", "full"] = Field(
        description="`already_done`: it was accepted before.  `full`: more output than is kept; it was cut."
    )


class Dismissed(Shape):
    """A worker that left."""

    released: int = Field(ge=0, description="Jobs that it held, and gave back.")
