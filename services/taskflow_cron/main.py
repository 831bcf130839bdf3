"""Cron: will fire due schedules.  They are not implemented yet, and it says so when it starts."""

from typing import Any

from taskflow_cron.settings import CronSettings
from taskflow_runtime import Service, run


async def main(service: Service[CronSettings]) -> None:
    """Keep watch over the broker, so that health tells the truth."""
    service.log.warning("cron.idle", reason="schedules are not implemented yet; nothing will be fired")
    await service.every(service.settings.cron_interval_s, service.store.ping)


def start(**overrides: Any) -> None:
    """Run until stopped."""
    run("cron", CronSettings, main, **overrides)


if __name__ == "__main__":
    start()
