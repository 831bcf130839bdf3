"""Who runs first: priority, then age, then id.

Inside the engine a priority is an *order*, where lower is better; order and age together are one score for
a sorted set, and equal scores fall back to the id.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Protocol, TypeVar

MIN_ORDER: Final = -1000
MAX_ORDER: Final = 1000
MIN_PRIORITY: Final = 1
MAX_PRIORITY: Final = 10

EPOCH_2020_MS: Final = 1_577_836_800_000

# 2^42 ms are 139 years.  With orders up to 1000 a score stays below 2^52, so a double holds it exactly.
ORDER_STEP: Final = 1 << 42


class Orderable(Protocol):
    """What the order of two jobs depends on."""

    @property
    def id(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def created_at(self) -> datetime: ...


J = TypeVar("J", bound=Orderable)


def sort_jobs(jobs: Iterable[J]) -> list[J]:
    """Highest priority first, then the oldest, then the lowest id."""
    return sorted(jobs, key=lambda job: (-job.priority, job.created_at, job.id))


def select_next_jobs(ready_jobs: Iterable[J], running_count: int, max_concurrent: int) -> list[J]:
    """The jobs to start now, in order: as many as there are free slots."""
    free_slots = max_concurrent - running_count
    return sort_jobs(ready_jobs)[:free_slots] if free_slots > 0 else []


def order_of_priority(priority: int) -> int:
    """The order of a priority, where 10 is most urgent: 10 becomes 0, 1 becomes 9."""
    return MAX_PRIORITY - priority


def priority_of_order(order: int) -> int:
    """The priority to show for an order; orders beyond the scale show as its ends."""
    return min(max(MAX_PRIORITY - order, MIN_PRIORITY), MAX_PRIORITY)


def score(order: int, created_ms: int) -> int:
    """One number that sorts as (order, created_ms), for jobs created less than 139 years apart."""
    if not MIN_ORDER <= order <= MAX_ORDER:
        raise ValueError(f"an order is a number from {MIN_ORDER} to {MAX_ORDER}, not {order}")
    return order * ORDER_STEP + (created_ms - EPOCH_2020_MS)
