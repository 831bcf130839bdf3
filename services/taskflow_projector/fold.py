"""What a run of events changes in the indexes and counters, worked out before anything is written.

Only the net effect counts: a job that was submitted, started and completed within one batch is added once,
where it ended up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from taskflow_streams import Event
from taskflow_streams.indexes import positions

MINUTE_MS = 60_000
MINUTE_TTL_MS = 25 * 3600 * 1000  # a day of charts, and an hour to look at them


def fold(events: Sequence[Event]) -> dict[str, Any]:
    """The changes that `Projection.apply` takes."""
    before: dict[str, tuple[str, ...]] = {}
    after: dict[str, Event] = {}
    totals: Counter[str] = Counter()
    minutes: dict[int, Counter[str]] = defaultdict(Counter)
    for event in events:
        if event.job_id not in before:
            before[event.job_id] = _stood(event)
        after[event.job_id] = event
        totals[event.type] += 1
        totals[f"{event.type}:{event.queue}"] += 1
        minute = minutes[event.at_ms // MINUTE_MS]
        minute[event.type] += 1
        minute[f"{event.type}:{event.queue}"] += 1

    adds: dict[str, list[object]] = defaultdict(list)
    removes: dict[str, list[str]] = defaultdict(list)
    for job_id, event in after.items():
        old, new = before[job_id], positions(event.to, event.queue, event.order, event.owner)
        if old == new:
            continue
        for index in old:
            removes[index].append(job_id)
        for index in new:
            adds[index] += (-event.created_ms, job_id)
    return {
        "adds": list(adds.items()),
        "removes": list(removes.items()),
        "totals": list(totals.items()),
        "minutes": [(minute, list(counts.items())) for minute, counts in minutes.items()],
        "minute_ttl_ms": MINUTE_TTL_MS,
    }


def _stood(event: Event) -> tuple[str, ...]:
    """Where the job stood before the event: an update may have moved it between queues, priorities or owners."""
    if event.type == "job.updated":
        was = event.more["was"]
        return positions(event.from_, was["queue"], int(was["order"]), was.get("owner") or "")
    return positions(event.from_, event.queue, event.order, event.owner)
