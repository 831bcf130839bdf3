"""What workers say of themselves, read: a worker's record is texts, and each partition has its own."""

import asyncio
import math
from dataclasses import dataclass
from typing import Final, Literal, Self

from taskflow_api.settings import ApiSettings
from taskflow_streams import Partition, Store, WorkerRecord

Status = Literal["online", "degraded", "offline"]
LATE_BEATS: Final = 2  # heartbeats that a worker may be behind and pass for healthy
DRAINING: Final = frozenset({"draining", "stopping"})


@dataclass(frozen=True, slots=True)
class Silence:
    """After which silence a worker is late, and after which it is gone."""

    late_ms: int
    gone_ms: int

    @classmethod
    def of(cls, settings: ApiSettings) -> Self:
        """As the deployment is set up."""
        return cls(int(settings.heartbeat_s * LATE_BEATS * 1000), int(settings.visibility_timeout_s * 1000))


async def latest(store: Store) -> list[WorkerRecord]:
    """All workers by id, each as it last described itself, to whichever partition."""
    lists = await asyncio.gather(*(partition.workers.list() for partition in store.partitions))
    found: dict[str, WorkerRecord] = {}
    for worker in (worker for workers in lists for worker in workers):
        known = found.get(worker.id)
        if known is None or worker.last_heartbeat_ms > known.last_heartbeat_ms:
            found[worker.id] = worker
    return [found[worker_id] for worker_id in sorted(found)]


async def find(store: Store, worker_id: str) -> list[tuple[Partition, WorkerRecord]]:
    """The partitions that know a worker, each with its record."""
    records = await asyncio.gather(*(partition.workers.get(worker_id) for partition in store.partitions))
    return [(home, record) for home, record in zip(store.partitions, records, strict=True) if record is not None]


def is_online(worker: WorkerRecord, now_ms: int, silence_ms: int) -> bool:
    """Whether a worker was heard of lately."""
    return now_ms - worker.last_heartbeat_ms <= silence_ms and "buried" not in worker.fields


def status_of(worker: WorkerRecord, now_ms: int, silence: Silence) -> Status:
    """How a worker is, by what it said and when."""
    if not is_online(worker, now_ms, silence.gone_ms):
        return "offline"
    late = now_ms - worker.last_heartbeat_ms > silence.late_ms
    return "degraded" if late or worker.fields.get("status") == "degraded" else "online"


def is_draining(worker: WorkerRecord) -> bool:
    """Whether it takes nothing new."""
    return worker.fields.get("status") in DRAINING


def takes_from(worker: WorkerRecord, queue: str) -> bool:
    """Whether a worker takes jobs from a queue."""
    queues = queues_of(worker)
    return queues is None or queue in queues


def queues_of(worker: WorkerRecord) -> list[str] | None:
    """The queues that a worker takes jobs from; None is all."""
    named = worker.fields.get("queues", "*")
    return None if named == "*" else [queue for queue in named.split(",") if queue]


def running_ids(worker: WorkerRecord) -> list[str]:
    """The jobs it runs, as far as it names them."""
    return [job_id for job_id in worker.fields.get("running_ids", "").split(",") if job_id]


def number(text: str | None) -> int | None:
    """A whole number that a worker told, if it did."""
    return int(text) if text and text.isdigit() else None


def decimal(text: str | None) -> float | None:
    """A number that a worker told, if it did."""
    try:
        told = float(text or "nan")
    except ValueError:
        return None
    return told if math.isfinite(told) else None
