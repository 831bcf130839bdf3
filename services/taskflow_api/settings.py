"""What the api can be told."""

from pydantic import Field

from taskflow_runtime import Address, DoorSettings

MIB = 1024 * 1024


class ApiSettings(DoorSettings):
    """Settings of the api."""

    body_limit_bytes: int = Field(MIB, ge=1024, description="The largest body of a request.")
    batch_limit_bytes: int = Field(32 * MIB, ge=1024, description="The largest body of a batch.")
    memory_limit: float = Field(
        0.8, gt=0, le=1, description="The share of the server's maxmemory from which on new jobs are refused."
    )
    search_wait_s: float = Field(
        0.25, ge=0, le=10, description="How long a search waits for the indexes to show what had happened by then."
    )
    retry_max_default: int = Field(
        3, ge=0, le=1000, description="Retries of a job sent to POST /jobs that does not say how many it may have."
    )
    stream_limit: int = Field(
        500, ge=1, le=1000, description="Clients that may follow logs or wait for jobs at once; more are put off."
    )
    slow_request_s: float = Field(1.0, gt=0, description="Requests that take longer are logged.")

    @property
    def address(self) -> Address:
        """One server answers for the api and for health."""
        return Address(self.host, self.port, "TASKFLOW_PORT")
