"""What the scheduler can be told."""

from pydantic import Field

from taskflow_runtime import Seconds, Settings


class SchedulerSettings(Settings):
    """The shared settings, and the scheduler's own."""

    take_over_after_s: Seconds = Field(
        5, description="A message that another scheduler took and did not finish for so long is taken over."
    )
