"""Projector: turns events into search indexes and counters."""

import os
import secrets
import socket
from functools import partial
from typing import Any

from taskflow_projector.project import Projector
from taskflow_projector.settings import ProjectorSettings
from taskflow_runtime import Service, run


async def main(service: Service[ProjectorSettings]) -> None:
    """One loop per partition."""
    owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    for partition in service.store.partitions:
        projector = Projector(partition, owner, service.settings.project_batch)
        service.background(partial(service.consume, projector.run_once), f"partition {partition.index}")
    await service.join()


def start(**overrides: Any) -> None:
    """Run until stopped."""
    run("projector", ProjectorSettings, main, **overrides)


if __name__ == "__main__":
    start()
