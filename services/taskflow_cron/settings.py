"""What cron can be told."""

from pydantic import Field

from taskflow_runtime import Seconds, Settings


class CronSettings(Settings):
    """The shared settings, and cron's own."""

    cron_interval_s: Seconds = Field(1, description="Pause between two looks at the schedules.")
    catchup_limit: int = Field(
        5, ge=0, description="Missed fire times of a schedule that are made up for.  No effect before schedules exist."
    )
