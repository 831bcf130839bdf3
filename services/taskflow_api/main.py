"""Api: accept jobs over HTTP, and tell what became of them."""

from typing import Any

from taskflow_api.app import create_app
from taskflow_api.settings import ApiSettings
from taskflow_runtime import Service, run


async def main(service: Service[ApiSettings]) -> None:
    """Answer until the service stops."""
    await service.serve(create_app(lambda: service.store, service.settings, service.health, service.stopping))


def start(**overrides: Any) -> None:
    """Run the service; `overrides` are settings from the command line."""
    run("api", ApiSettings, main, **overrides)


if __name__ == "__main__":
    start()
