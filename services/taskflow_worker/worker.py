"""The worker: slots, one desk for each partition, and a heart.

Told to stop, it takes nothing new and lets what runs come to its end.  Cancelled while it does, it gives the rest
back, which costs no attempt.  Either way it leaves the list of workers.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress

from taskflow.executor import Executor
from taskflow.tasks import Task
from taskflow_domain import Subscriptions
from taskflow_runtime.logs import Log, get_log
from taskflow_runtime.loops import Backoff, Outage, name_of
from taskflow_streams import Partition, Pool, Renewed, Store, Unavailable
from taskflow_worker.attempt import KILL_GRACE_S, Means, TaskRunner
from taskflow_worker.desk import Desk
from taskflow_worker.heart import Connect, Heart
from taskflow_worker.holding import Handlers
from taskflow_worker.identity import describe, new_worker_id
from taskflow_worker.outcome import Stopped
from taskflow_worker.output import OPEN, Discretion
from taskflow_worker.slots import Slots
from taskflow_worker.usage import Usage

PROGRESS_S = 1.0
UNWIND_S = 1.5  # for attempts that were told to stop; all three together: less than the five seconds that
HAND_BACK_S = 2.0  # the process has after its grace
LEAVE_S = 1.0
CANCEL_AGAIN_S = 0.1
SHOWN_IDS = 50  # of running jobs, in the list of workers
BUSY_LOOP_S = 1.0  # an event loop that answers later than this runs something that blocks it

Step = Callable[[], Awaitable[None]]


class Worker:
    """Runs the jobs of a store.  `connect` makes a second store, for the heart in its own thread.

    `on_read` is called after the server was read, as long as nothing fails: who consumes nothing is not ready.
    After `max_jobs` jobs, or beyond `max_memory_bytes`, it comes to its end as if it were told to stop.
    """

    def __init__(
        self,
        store: Store,
        connect: Connect,
        tasks: Mapping[str, Task],
        *,
        executors: Mapping[str, Executor] | None = None,
        processes: TaskRunner | None = None,
        slots: int = 16,
        queues: Subscriptions | None = None,
        heartbeat_s: float = 5.0,
        wait_s: float = 5.0,
        on_read: Callable[[], None] = lambda: None,
        kill_grace_s: float = KILL_GRACE_S,
        discretion: Discretion = OPEN,
        cancel_at_stop: bool = False,
        max_jobs: int | None = None,
        max_memory_bytes: int | None = None,
    ) -> None:
        self.id = new_worker_id()
        handlers: dict[str, Task | Executor] = {f"@{name}": executor for name, executor in (executors or {}).items()}
        handlers |= tasks
        means = Means(self.id, processes=processes, kill_grace_s=kill_grace_s, discretion=discretion)
        self.pool = _pool(handlers, queues or Subscriptions(all=True))
        self.slots = Slots(slots)
        self.desks = [self._desk(partition, handlers, means, wait_s) for partition in store.partitions]
        self.slots.share_among(self.desks)
        self._store = store
        self._about = describe(self.id, slots, queues or Subscriptions(all=True), len(handlers))
        self._usage = Usage()
        self._cancel_at_stop = cancel_at_stop
        self._max_jobs, self._max_memory_bytes = max_jobs, max_memory_bytes
        self._enough = asyncio.Event()
        self._answered_at = time.monotonic()  # by the event loop, to the heart
        self._status = "active"
        self._on_read = on_read
        self._log: Log = get_log(worker_id=self.id)
        self._outage = Outage(self._log)
        self.failing: set[Step] = set()  # steps that did not succeed when they were last taken
        self._heart = Heart(connect, self._beat, heartbeat_s, self._log)

    async def run(self, stopping: asyncio.Event) -> None:
        """Work until `stopping` is set and all that runs has ended, or until cancelled."""
        self._loop = asyncio.get_running_loop()
        self._heart.start()
        steps = [self._ship_progress, *(desk.pump for desk in self.desks), *(desk.ship_output for desk in self.desks)]
        loops = [asyncio.create_task(self._again(step)) for step in steps]
        loops += [asyncio.create_task(self._again(desk.listen, reads=True)) for desk in self.desks]
        try:
            await _first(stopping, self._enough)
            self.drain("stopping")
            await self._empty()
        finally:
            self.drain("stopping")
            await self._hand_back()
            await _end(loops)
            await self._heart.stop()
            await self._leave()

    def drain(self, status: str = "draining") -> None:
        """Take nothing new; what runs goes on."""
        self._status = status
        for desk in self.desks:
            desk.drain()

    def _desk(self, partition: Partition, handlers: Handlers, means: Means, wait_s: float) -> Desk:
        return Desk(
            partition, self.id, self.pool, handlers, means, self.slots, wait_s=wait_s, join=self._join,
            on_drain=self.drain,
        )  # fmt: skip

    async def _again(self, step: Step, *, reads: bool = False) -> None:
        """Take a step for ever, and survive whatever it meets."""
        backoff = Backoff()
        while True:
            try:
                await step()
            except Unavailable as error:
                self.failing.add(step)
                self._outage.failed(error)
            except Exception:
                self.failing.add(step)
                self._log.exception("step.failed", step=name_of(step))
            else:
                self.failing.discard(step)
                self._went_well(reads)
                backoff.reset()
                continue
            await asyncio.sleep(backoff.pause())

    def _went_well(self, reads: bool) -> None:
        if not self.failing and not self._heart.failing:
            self._outage.passed()
            if reads:
                self._on_read()

    async def _join(self, partition: Partition) -> None:
        await partition.workers.join(self.id, self.pool, {**self._about, "status": self._status})

    async def _beat(self, store: Store) -> None:
        """One heartbeat; runs in the heart's thread."""
        held = [desk.holding.tokens() for desk in self.desks]
        ids = [job_id for tokens in held for job_id, _ in tokens]
        cpu, rss = self._usage.read()
        fields: dict[str, str | int | float] = {
            "status": self._condition(),
            "running": len(ids),
            "running_ids": ",".join(ids[:SHOWN_IDS]),
            "cpu": round(cpu, 1),
            "rss": rss,
        }
        self._loop.call_soon_threadsafe(self._answer)
        if self._max_memory_bytes is not None and rss > self._max_memory_bytes:
            self._loop.call_soon_threadsafe(self._recycle, "memory")
        for desk, tokens in zip(self.desks, held, strict=True):
            partition = store.partitions[desk.index]
            words, known = await partition.leases.renew(self.id, tokens, fields)
            news = [(token, word) for token, word in zip(tokens, words, strict=True) if word is not Renewed.OK]
            if news:
                self._loop.call_soon_threadsafe(desk.told, news)
            if not known:
                await self._join(partition)

    def _condition(self) -> str:
        """The status to tell: degraded while something fails, or a job blocks the event loop."""
        if self._status == "active" and (self.failing or time.monotonic() - self._answered_at > BUSY_LOOP_S):
            return "degraded"
        return self._status

    def _answer(self) -> None:
        self._answered_at = time.monotonic()

    def _recycle(self, why: str) -> None:
        if not self._enough.is_set():
            self._log.info("worker.recycling", why=why)
            self._enough.set()

    async def _ship_progress(self) -> None:
        await asyncio.sleep(PROGRESS_S)
        if self._max_jobs is not None and sum(desk.holding.started for desk in self.desks) >= self._max_jobs:
            self._recycle("jobs")
        for desk in self.desks:
            await desk.ship_progress()

    async def _empty(self) -> None:
        for desk in self.desks:
            await desk.idle()

    async def _hand_back(self) -> None:
        """Stop what runs, and report it as given back, also what does not stop."""
        for desk in self.desks:
            desk.holding.stop_all(Stopped.CANCELED if self._cancel_at_stop else Stopped.RELEASED)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._empty(), UNWIND_S)
        for desk in self.desks:
            desk.holding.give_up()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._empty(), HAND_BACK_S)

    async def _leave(self) -> None:
        with suppress(TimeoutError, Unavailable):
            async with asyncio.timeout(LEAVE_S):
                for partition in self._store.partitions:
                    await partition.leases.resync(self.id, [])  # what an answer brought that we did not wait for
                    await partition.workers.leave(self.id)


def _pool(handlers: Handlers, subscriptions: Subscriptions) -> Pool:
    if not subscriptions.all:
        return Pool(frozenset(handlers), subscriptions.queues)
    weights = tuple((name, weight) for name, weight in subscriptions.queues if weight is not None)
    return Pool(frozenset(handlers), None, weights)


async def _first(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def _end(loops: Iterable[asyncio.Task[None]]) -> None:
    """Cancel them until they are done: the Redis client swallows a cancel that comes while it connects."""
    left = set(loops)
    while left:
        for loop in left:
            loop.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
