"""The answers about schedules, for OpenAPI."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from taskflow_api import examples
from taskflow_api.shapes import Shape, Time, Uuid
from taskflow_domain import Origin, Overlap, What


class Schedule(Shape):
    """When to run what, and how far that has come."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.SCHEDULE]})

    id: Uuid
    name: str | None
    cron: str | None
    interval_s: float | None
    timezone: str
    start_at: Time | None
    end_at: Time | None
    jitter_s: float
    overlap: Overlap
    catchup_limit: int | None = Field(description="null: as CATCHUP_LIMIT says.")
    catchup_window_s: float | None
    max_runs: int | None
    owner: str | None
    job: Any = Field(description="What it runs, as it was sent.")
    status: Literal["active", "paused", "ended"]
    message: str = Field(description="Why it is as it is, and what comes next.")
    paused: bool
    reason: str | None = Field(description="Why it is paused.")
    next_at: Time | None = Field(description="When it fires next, but for its jitter; null while it is paused.")
    next_local: str | None = Field(description="The same on the clocks of its zone, with their offset.")
    last_at: Time | None = Field(description="The time of its last run, as the schedule has it.")
    last_job_id: Uuid | None
    runs: int = Field(ge=0, description="Started by its own times, not by triggers or backfills.")
    waiting: int = Field(ge=0, description="Fires that wait for a run to end.")
    created_at: Time
    updated_at: Time = Field(description="The time of its last fire or change.")


class SchedulePage(Shape):
    """Some schedules, the newest first."""

    items: list[Schedule]
    next_cursor: str | None
    has_more: bool


class ScheduleRef(Shape):
    """Which schedule it is."""

    id: Uuid


class Upcoming(Shape):
    """One time at which it will fire."""

    at: Time
    local: str
    due_at: Time = Field(description="With its jitter.")


class Preview(Shape):
    """The next times."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.PREVIEW]})

    timezone: str
    items: list[Upcoming]


class HistoryLine(Shape):
    """Something that happened to a schedule."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.HISTORY_LINE]})

    id: str = Field(pattern=r"^\d+-\d+$")
    at: Time
    what: What
    fire_at: Time | None = Field(description="The fire it is about; of several the first.")
    origin: Origin | None = Field(description="Why there was a fire.")
    why: str | None = Field(description="Why it was skipped, or the reason of a pause.")
    job_id: Uuid | None = Field(description="The job that was started, or that was in its way.")
    until: Time | None = Field(description="If it is about several fires, the last.")
    count: int | None = Field(description="How many fires it is about; null: none, or too many to count.")
    message: str


class HistoryPage(Shape):
    """What happened to a schedule, the newest first."""

    items: list[HistoryLine]
    next_cursor: str | None


class Triggered(Shape):
    """What became of a trigger."""

    outcome: Literal["fired", "buffered"]
    job_id: Uuid = Field(description="The job it started, or will.")
    fire_at: Time


class Backfilling(Shape):
    """What a backfill will start."""

    count: int = Field(ge=0, description="Times in that span; those that have run are skipped unless `rerun` is true.")
    from_: Time = Field(alias="from")
    to: Time
    overlap: Literal["allow", "buffer_all"]
    rerun: bool
