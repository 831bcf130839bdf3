"""What `taskflow up` runs: which processes, what each is told, and in which order they stop.

A service is told everything through its environment, under the names that its settings have there.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from taskflow.services import find
from taskflow.supervisor import ports
from taskflow_runtime.door import DoorSettings
from taskflow_runtime.sources import variable

START_ORDER = ("api", "worker", "scheduler", "cron", "reaper", "projector")  # the slowest to start is first
STOP_ORDER = (("api", "cron"), ("worker",), ("scheduler",), ("reaper",), ("projector",))  # nothing new; drain


class StackSettings(DoorSettings):
    """What the stack must know of the settings of its services; the names are theirs."""

    worker_concurrency: int | None = Field(
        None, ge=1, le=10_000, description="Jobs that a worker runs at the same time."
    )


@dataclass(frozen=True, slots=True)
class Program:
    """One process to keep running, and where it answers for its health."""

    name: str
    service: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    host: str
    port: int

    @property
    def url(self) -> str:
        """Where its HTTP server is reached."""
        host = ports.reachable(self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def programs(settings: StackSettings, redis_url: str, workers: int) -> list[Program]:
    """All the processes of a stack."""
    named = [(name, service) for service in START_ORDER for name in _names(service, workers)]
    shared = {"redis_url": redis_url, "partitions": settings.partitions, "log_format": "json"}
    free = ports.find_free(len(named))
    return [_program(name, service, settings, shared, port) for (name, service), port in zip(named, free, strict=True)]


def _names(service: str, workers: int) -> list[str]:
    if service != "worker":
        return [service]
    return ["worker"] if workers == 1 else [f"worker-{number}" for number in range(1, workers + 1)]


def _program(name: str, service: str, settings: StackSettings, shared: Mapping[str, object], free_port: int) -> Program:
    if service == "api":
        host, port = settings.host, settings.port or free_port
        own: dict[str, object] = {"host": host, "port": port, "insecure": settings.insecure}
    else:
        host, port = ports.LOOPBACK, free_port
        own = {"health_host": host, "health_port": port}
    if service == "worker":
        own["worker_concurrency"] = settings.worker_concurrency
    told = {**shared, **own}
    environment = {variable(field): str(value) for field, value in told.items() if value is not None}
    command = (sys.executable, "-P", "-m", find(service).module)  # -P: the working directory is not our code
    return Program(name, service, command, environment, host, port)
