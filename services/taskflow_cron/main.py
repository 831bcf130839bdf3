"""Cron: starts the runs of schedules when their time has come."""

from typing import Any

from taskflow_cron.settings import CronSettings
from taskflow_cron.tick import Ticker
from taskflow_runtime import Service, run


async def main(service: Service[CronSettings]) -> None:
    """One loop; schedules belong to no partition."""
    settings = service.settings
    ticker = Ticker(service.store, settings.catchup_limit, settings.cron_hold_s)
    await service.consume(ticker.run_once)
    await ticker.close()


def start(**overrides: Any) -> None:
    """Run until stopped."""
    run("cron", CronSettings, main, **overrides)


if __name__ == "__main__":
    start()
