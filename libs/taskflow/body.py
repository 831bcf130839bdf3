"""A job as the api takes it, and by which a repetition of it is known, whatever way either comes."""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from taskflow.errors import IdempotencyConflict
from taskflow_domain import iso_of_ms, priority_of_order
from taskflow_streams import NewJob


def body_of(job: NewJob, payload: object) -> dict[str, Any]:
    """The body that asks the api for this job; what is unset is left out."""
    policy = job.retry.model_dump(mode="json", exclude_defaults=True)
    fields = {
        "name": job.name,
        "queue": job.queue,
        "payload": payload,
        "priority": priority_of_order(job.order),
        "dependencies": list(job.dependencies),
        "type": job.type,
        "task": job.task,
        "retry_policy": policy or None,
        "timeout_s": _seconds(job.timeout_ms),
        "scheduled_at": None if job.due_ms is None else iso_of_ms(job.due_ms),
        "delay_s": _seconds(job.delay_ms),
        "ttl_s": _seconds(job.ttl_ms),
        "owner": job.owner,
    }
    return {name: value for name, value in fields.items() if value is not None}


def fingerprint(job: NewJob) -> str:
    """The same for two jobs of the same content, whatever their ids: what the api makes of their bodies."""
    content = json.dumps(body_of(job, json.loads(job.payload)), sort_keys=True)
    return sha256(content.encode()).hexdigest()[:32]


def firsts(jobs: Sequence[NewJob], keys: Sequence[str | None]) -> list[int]:
    """For each job the place of the first that has its idempotency key, most often its own.

    Raises IdempotencyConflict when jobs of different content have one key.
    """
    seen: dict[str, int] = {}
    places = []
    for i, key in enumerate(keys):
        first = i if key is None else seen.setdefault(key, i)
        if first != i and fingerprint(jobs[first]) != fingerprint(jobs[i]):
            raise IdempotencyConflict(f"two jobs that differ have the idempotency key {key!r}")
        places.append(first)
    return places


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
