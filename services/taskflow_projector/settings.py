"""What the projector can be told."""

from pydantic import Field

from taskflow_runtime import Settings


class ProjectorSettings(Settings):
    """The shared settings, and the projector's own."""

    project_batch: int = Field(2000, ge=1, le=2000, description="Events applied in one step.")
