"""What a worker can be told."""

import re

from pydantic import Field, field_validator

from taskflow_domain import DEFAULT_SECRET_NAMES, Subscriptions, parse_subscriptions
from taskflow_runtime import CommaList, PatternList, Settings

ENV_ALLOWLIST = ("PATH", "HOME", "LANG", "LC_*", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL")


class WorkerSettings(Settings):
    """The shared settings, and the worker's own."""

    worker_concurrency: int = Field(
        16, ge=1, le=10_000, description="Slots: jobs that one worker runs at the same time."
    )
    worker_queues: str = Field(
        "*",
        description="The queues to take jobs from, perhaps with weights: a,b or critical=6,default=3 or critical=6,*; "
        "* is all, also new ones.",
    )
    worker_modules: CommaList = Field((), description="Python modules to import for their @task functions.")
    worker_max_jobs: int | None = Field(None, ge=1, description="A worker ends after so many jobs, to be started anew.")
    worker_max_memory_mb: int | None = Field(
        None, ge=16, description="A worker that uses more memory, with all its processes, takes no more jobs and ends."
    )
    worker_cancel_at_stop: bool = Field(
        False, description="What the grace of a stop cuts short is canceled, instead of given back to the queue."
    )
    kill_grace_s: float = Field(
        10, ge=0, le=3600, allow_inf_nan=False, description="Between SIGTERM and SIGKILL for a job's processes."
    )
    env_allowlist: CommaList = Field(
        ENV_ALLOWLIST, description="Variables of the worker that shell and Python jobs see; X_* is all that begin so."
    )
    secret_names: str = Field(
        DEFAULT_SECRET_NAMES,
        description="Values of variables, the job's and the worker's, whose names match are hidden in the output.",
    )
    redact_patterns: PatternList = Field(
        (),
        description="Regular expressions; what matches is hidden in all output.  Commas stand between them, except for "
        r"those within (), [] or {} and after \.",
    )
    limit_cpu_s: int | None = Field(None, ge=1, description="CPU seconds that a job's process may use.")
    limit_memory_mb: int | None = Field(None, ge=16, description="Address space that a job's process may have.")
    limit_open_files: int | None = Field(None, ge=16, description="Files that a job's process may have open.")
    limit_nice: int = Field(0, ge=0, le=19, description="How far a job's processes stand back for others.")

    @field_validator("worker_queues")
    @classmethod
    def _are_subscriptions(cls, text: str) -> str:
        parse_subscriptions(text)
        return text

    @field_validator("secret_names", "redact_patterns")
    @classmethod
    def _are_expressions(cls, given: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for expression in (given,) if isinstance(given, str) else given:
            try:
                re.compile(expression)
            except re.error as error:
                raise ValueError(f"{expression!r} is no regular expression: {error}") from None
        return given

    @property
    def subscriptions(self) -> Subscriptions:
        """The queues, read."""
        return parse_subscriptions(self.worker_queues)
