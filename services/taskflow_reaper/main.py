"""Reaper: hands the work of dead workers to living ones, and forgets what is old."""

from functools import partial
from typing import Any

from taskflow_reaper.settings import ReaperSettings
from taskflow_reaper.sweep import Sweeper
from taskflow_runtime import Service, run


async def main(service: Service[ReaperSettings]) -> None:
    """One loop per partition."""
    for partition in service.store.partitions:
        sweeper = Sweeper(service.store, partition, service.settings)
        loop = partial(service.every, service.settings.reap_interval_s, sweeper.run_once)
        service.background(loop, f"partition {partition.index}")
    await service.join()


def start(**overrides: Any) -> None:
    """Run until stopped."""
    run("reaper", ReaperSettings, main, **overrides)


if __name__ == "__main__":
    start()
