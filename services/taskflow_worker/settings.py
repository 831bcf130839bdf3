"""What a worker can be told."""

import re

from pydantic import Field, field_validator

from taskflow_runtime import CommaList, Settings

QUEUE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class WorkerSettings(Settings):
    """The shared settings, and the worker's own."""

    worker_concurrency: int = Field(
        16, ge=1, le=10_000, description="Slots: jobs that one worker runs at the same time."
    )
    worker_queues: CommaList = Field((), description="The queues to take jobs from; none named: all, also new ones.")
    worker_modules: CommaList = Field((), description="Python modules to import for their @task functions.")

    @field_validator("worker_queues")
    @classmethod
    def _are_queue_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if QUEUE_NAME.fullmatch(name) is None:
                raise ValueError(f"{name!r} is no queue: 1 to 64 letters, digits, '_', '-' and '.'")
        return tuple(dict.fromkeys(names))
