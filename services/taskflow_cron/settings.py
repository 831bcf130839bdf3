"""What cron can be told."""

from pydantic import Field

from taskflow_domain import LARGEST_CATCHUP
from taskflow_runtime import Seconds, Settings


class CronSettings(Settings):
    """The shared settings, and cron's own."""

    catchup_limit: int = Field(
        5,
        ge=0,
        le=LARGEST_CATCHUP,
        description="Missed fire times that are made up for, of a schedule that does not say how many.",
    )
    cron_hold_s: Seconds = Field(
        3,
        description="How long schedules are left to the replica that has taken them; should it die, they wait so long.",
    )
