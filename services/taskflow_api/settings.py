"""What the api can be told, and what it refuses to be told: an open door without a token."""

import ipaddress
from typing import Self

from pydantic import Field, model_validator

from taskflow_runtime import Address, Settings

MIB = 1024 * 1024


class ApiSettings(Settings):
    """Settings of the api."""

    host: str = Field("127.0.0.1", min_length=1, description="The address that the api listens on.")
    port: int = Field(8000, ge=0, le=65535, description="The port that the api listens on; 0 finds a free one.")
    insecure: bool = Field(False, description="Listen on an address that others can reach without asking for a token.")
    body_limit_bytes: int = Field(MIB, ge=1024, description="The largest body of a request.")
    batch_limit_bytes: int = Field(32 * MIB, ge=1024, description="The largest body of a batch.")
    memory_limit: float = Field(
        0.8, gt=0, le=1, description="The share of the server's maxmemory from which on new jobs are refused."
    )
    search_wait_s: float = Field(
        0.25, ge=0, le=10, description="How long a search waits for the indexes to show what had happened by then."
    )
    slow_request_s: float = Field(1.0, gt=0, description="Requests that take longer are logged.")

    @property
    def address(self) -> Address:
        """One server answers for the api and for health."""
        return Address(self.host, self.port, "TASKFLOW_PORT")

    @property
    def token(self) -> str | None:
        """The bearer token, if one is asked for."""
        return (self.api_token.get_secret_value() or None) if self.api_token is not None else None

    @model_validator(mode="after")
    def _asks_strangers_for_a_token(self) -> Self:
        if self.token is None and not self.insecure and not is_loopback(self.host):
            raise ValueError(
                f"The api would be open to everyone who can reach {self.host}: set TASKFLOW_API_TOKEN, "
                "or start it with --insecure (TASKFLOW_INSECURE=true) if that is what you want."
            )
        return self


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can connect to an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:  # a name, which may lead anywhere
        return False
