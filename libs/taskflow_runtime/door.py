"""Where the api listens, and what it refuses: an open door without a token."""

import ipaddress
from typing import Self

from pydantic import Field, model_validator

from taskflow_runtime.settings import Port, Settings


class DoorSettings(Settings):
    """The settings that the api and whoever starts it must agree on."""

    host: str = Field("127.0.0.1", min_length=1, description="The address that the api listens on.")
    port: Port = Field(8000, description="The port that the api listens on; 0 finds a free one.")
    insecure: bool = Field(False, description="Listen on an address that others can reach without asking for a token.")

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
