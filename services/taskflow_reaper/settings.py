"""What the reaper can be told."""

from pydantic import Field

from taskflow_runtime import Seconds, Settings

DAY_S = 86_400


class ReaperSettings(Settings):
    """The shared settings, and the reaper's own."""

    reap_interval_s: Seconds = Field(1, description="Pause between two sweeps.")
    retention_s: Seconds = Field(7 * DAY_S, description="Ended jobs older than this are removed.")
    retention_count: int = Field(
        1_000_000, ge=0, description="Ended jobs kept per partition; beyond it the oldest go first."
    )
    retention_bytes: int = Field(
        4 * 2**30, ge=0, description="Bytes that ended jobs may hold per partition; beyond it the oldest go first."
    )
    events_retention_s: Seconds = Field(7 * DAY_S, description="Events older than this are trimmed.")
    events_max_bytes: int = Field(2**30, ge=2**20, description="Bytes the event stream of a partition may hold.")
    worker_forget_s: Seconds = Field(3600, description="A worker offline for so long leaves the list of workers.")
