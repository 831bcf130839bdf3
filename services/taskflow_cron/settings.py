"""What cron can be told."""

from pydantic import Field

from taskflow_runtime import Seconds, Settings


class CronSettings(Settings):
    """The shared settings, and cron's own."""

    cron_hold_s: Seconds = Field(
        3,
        description="How long schedules are left to the replica that has taken them; should it die, they wait so long.",
    )
