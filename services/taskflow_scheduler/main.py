"""Scheduler: releases jobs when their time has come or their dependencies have ended."""

import os
import secrets
import socket
from functools import partial
from typing import Any

from taskflow_runtime import Service, run
from taskflow_scheduler.schedule import PartitionScheduler
from taskflow_scheduler.settings import SchedulerSettings


async def main(service: Service[SchedulerSettings]) -> None:
    """One loop per partition."""
    consumer = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    for partition in service.store.partitions:
        scheduler = PartitionScheduler(service.store, partition, consumer, service.settings.take_over_after_s)
        service.background(partial(_schedule, service, scheduler), f"partition {partition.index}")
    await service.join()


async def _schedule(service: Service[SchedulerSettings], scheduler: PartitionScheduler) -> None:
    await service.consume(scheduler.run_once)
    await scheduler.finish()


def start(**overrides: Any) -> None:
    """Run until stopped."""
    run("scheduler", SchedulerSettings, main, **overrides)


if __name__ == "__main__":
    start()
