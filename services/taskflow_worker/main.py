"""Worker: run jobs."""

import gc
import os
from contextlib import AsyncExitStack
from typing import Any

from taskflow.executor import Kit, Limits
from taskflow_domain import secret_values
from taskflow_runtime import Service, run
from taskflow_streams import Store
from taskflow_worker.capture import capture
from taskflow_worker.deputy import Charge, Deputy
from taskflow_worker.ledger import Ledger
from taskflow_worker.modules import load_tasks
from taskflow_worker.output import Discretion
from taskflow_worker.processes import Nursery
from taskflow_worker.runners.pool import TaskPool
from taskflow_worker.settings import WorkerSettings
from taskflow_worker.toolbox import load_executors
from taskflow_worker.worker import Worker

MIB = 1 << 20


async def main(service: Service[WorkerSettings]) -> None:
    """Take jobs and run them until the stop."""
    settings = service.settings
    async with AsyncExitStack() as stack:
        nursery = Nursery()
        await nursery.start()  # before anything of the user's is imported
        stack.push_async_callback(nursery.close)
        tasks = load_tasks(settings.worker_modules)
        executors = load_executors(_kit(settings, nursery))
        for executor in executors.values():
            stack.push_async_callback(executor.close)
        processes = TaskPool(nursery, settings.worker_modules, settings.worker_concurrency)
        stack.push_async_callback(processes.close)
        capture()
        gc.freeze()  # what is loaded by now stays; the collector need not look through it again and again

        async def connect() -> Store:
            return await Store.connect(settings.redis_url, namespace=settings.namespace)

        heartbeat_s = min(settings.heartbeat_s, settings.lease_renewal_s)

        def deputize(worker_id: str, ledger: Ledger) -> Deputy:
            charge = Charge(worker_id, settings.redis_url, settings.namespace, heartbeat_s, ledger.rows)
            return Deputy(charge, ledger)

        worker = Worker(
            service.store,
            connect,
            tasks,
            executors=executors,
            processes=processes,
            slots=settings.worker_concurrency,
            queues=settings.subscriptions,
            heartbeat_s=heartbeat_s,
            wait_s=min(settings.heartbeat_s, settings.ready_within_s / 2),
            on_read=service.health.beat,
            kill_grace_s=settings.kill_grace_s,
            discretion=Discretion(settings.redact_patterns, tuple(secret_values(os.environ, settings.secret_names))),
            cancel_at_stop=settings.worker_cancel_at_stop,
            max_jobs=settings.worker_max_jobs,
            max_memory_bytes=settings.worker_max_memory_mb and settings.worker_max_memory_mb * MIB,
            deputize=deputize,
        )
        service.log.info(
            "worker.started",
            worker_id=worker.id,
            slots=settings.worker_concurrency,
            queues=settings.worker_queues,
            executors=sorted(executors),
            tasks=sorted(tasks),
        )
        await worker.run(service.stopping)


def _kit(settings: WorkerSettings, nursery: Nursery) -> Kit:
    limits = Limits(
        settings.limit_cpu_s,
        settings.limit_memory_mb and settings.limit_memory_mb * MIB,
        settings.limit_open_files,
        settings.limit_nice,
    )
    return Kit(settings.env_allowlist, settings.denylist_cmds, settings.secret_names, limits, {"nursery": nursery})


def start(**overrides: Any) -> None:
    """Run until stopped."""
    run("worker", WorkerSettings, main, **overrides)


if __name__ == "__main__":
    start()
