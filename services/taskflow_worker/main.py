"""Worker: run jobs."""

import gc
from typing import Any

from taskflow_runtime import Service, run
from taskflow_streams import Store
from taskflow_worker.modules import load_tasks
from taskflow_worker.settings import WorkerSettings
from taskflow_worker.worker import Worker


async def main(service: Service[WorkerSettings]) -> None:
    """Take jobs and run them until the stop."""
    settings = service.settings
    tasks = load_tasks(settings.worker_modules)
    gc.freeze()  # what is loaded by now stays; the collector need not look through it again and again

    async def connect() -> Store:
        return await Store.connect(settings.redis_url, namespace=settings.namespace)

    worker = Worker(
        service.store,
        connect,
        tasks,
        slots=settings.worker_concurrency,
        queues=settings.worker_queues or None,
        heartbeat_s=min(settings.heartbeat_s, settings.lease_renewal_s),
        wait_s=min(settings.heartbeat_s, settings.ready_within_s / 2),
        on_read=service.health.beat,
    )
    service.log.info(
        "worker.started",
        worker_id=worker.id,
        slots=settings.worker_concurrency,
        queues=list(settings.worker_queues) or "all",
        tasks=sorted(tasks),
    )
    await worker.run(service.stopping)


def start(**overrides: Any) -> None:
    """Run until stopped."""
    run("worker", WorkerSettings, main, **overrides)


if __name__ == "__main__":
    start()
