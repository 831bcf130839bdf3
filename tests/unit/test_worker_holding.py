"""What a worker holds: each lease gets an attempt or goes back, each ending is kept until it is taken."""

from __future__ import annotations

import asyncio
from typing import Any

from taskflow import Registry
from taskflow_streams import Ending, How, Lease, pack_spec
from taskflow_worker.attempt import Means
from taskflow_worker.holding import REPORT_BYTES, Holding
from taskflow_worker.outcome import Stopped


class Counter:
    """Counts calls, and lets one wait for the next."""

    def __init__(self) -> None:
        self.count = 0
        self._called = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._called.set()

    async def reach(self, count: int) -> None:
        """Wait until there were so many."""
        async with asyncio.timeout(10):
            while self.count < count:
                await self._called.wait()
                self._called.clear()


def a_lease(job_id: str, handler: str, **fields: Any) -> Lease:
    """A lease as the server gives it."""
    spec = pack_spec(handler, b"{}", None, "task", ())
    made = {"fence": 1, "attempt": 1, "queue": "q", "timeout_ms": 0, "created_ms": 0, "due_ms": 0, **fields}
    return Lease(job_id=job_id, handler=handler, packed_spec=made.pop("packed_spec", spec), **made)


def a_holding(tasks: Registry) -> tuple[Holding, Counter, Counter]:
    """A holding, and what it calls when an attempt ends and when its slot is free."""
    changed, freed = Counter(), Counter()
    return Holding(Means("w"), tasks.tasks, changed, freed), changed, freed


async def test_a_job_without_a_handler_is_given_back() -> None:
    """Its slot is free at once, and it costs no attempt."""
    holding, _, freed = a_holding(Registry())

    strangers = holding.start([a_lease("a", "unknown")])

    assert [lease.job_id for lease in strangers] == ["a"]
    assert holding.next_endings() == [Ending("a", 1, How.RELEASED)]
    assert (holding.tokens(), freed.count, holding.empty.is_set()) == ([("a", 1)], 1, False)


async def test_an_ending_is_held_until_it_is_taken() -> None:
    """The lease is ours, and is renewed, as long as the server does not know how it ended."""
    tasks = Registry()

    @tasks.task
    async def work() -> int:
        return 7

    holding, changed, freed = a_holding(tasks)
    holding.start([a_lease("a", "work")])
    await changed.reach(1)
    endings = holding.next_endings()

    assert endings == [Ending("a", 1, How.COMPLETED, b"7")]
    assert (changed.count, freed.count) == (1, 1)
    assert holding.tokens() == [("a", 1)]

    holding.taken(endings)
    assert (holding.tokens(), holding.endings, holding.empty.is_set()) == ([], 0, True)


async def test_a_lost_attempt_leaves_no_ending() -> None:
    """It is cancelled and forgotten; its slot is free."""
    tasks = Registry()

    @tasks.task
    async def forever() -> None:
        await asyncio.sleep(3600)

    holding, changed, freed = a_holding(tasks)
    holding.start([a_lease("a", "forever")])
    holding.stop(("a", 1), Stopped.CANCELED)
    holding.stop(("a", 1), Stopped.LOST)
    async with asyncio.timeout(10):
        await holding.empty.wait()

    assert (holding.endings, changed.count, freed.count) == (0, 1, 1)


async def test_an_order_for_another_fence_stops_nothing() -> None:
    """It was meant for an earlier attempt."""
    tasks, go = Registry(), asyncio.Event()

    @tasks.task
    async def work() -> None:
        await go.wait()

    holding, changed, _ = a_holding(tasks)
    holding.start([a_lease("a", "work", fence=2)])
    holding.stop(("a", 1), Stopped.CANCELED)
    go.set()
    await changed.reach(1)

    assert [ending.how for ending in holding.next_endings()] == [How.COMPLETED]


async def test_an_attempt_stopped_before_it_began_is_reported() -> None:
    """A coroutine that never ran has no code to notice."""
    tasks = Registry()

    @tasks.task
    async def work() -> None: ...

    holding, changed, freed = a_holding(tasks)
    holding.start([a_lease("a", "work")])
    holding.stop_all(Stopped.RELEASED)
    await changed.reach(1)

    assert [ending.how for ending in holding.next_endings()] == [How.RELEASED]
    assert freed.count == 1


async def test_a_damaged_job_fails_and_harms_no_other() -> None:
    """Also one whose spec cannot be read."""
    tasks = Registry()

    @tasks.task
    async def work() -> None: ...

    holding, changed, _ = a_holding(tasks)
    holding.start([a_lease("a", "work", packed_spec=b"\xc1"), a_lease("b", "work")])
    await changed.reach(2)

    endings = {ending.job_id: ending.how for ending in holding.next_endings()}
    assert endings == {"a": How.FAILED, "b": How.COMPLETED}


async def test_large_results_are_reported_a_few_at_a_time() -> None:
    """One call carries so many bytes, and at least one ending."""
    tasks = Registry()

    @tasks.task
    async def large() -> str:
        return "x" * (1 << 19)

    holding, changed, _ = a_holding(tasks)
    holding.start([a_lease(str(number), "large") for number in range(20)])
    await changed.reach(20)

    reported = 0
    while endings := holding.next_endings():
        assert sum(len(ending.value or b"") for ending in endings) <= REPORT_BYTES
        reported += len(endings)
        holding.taken(endings)
    assert reported == 20
