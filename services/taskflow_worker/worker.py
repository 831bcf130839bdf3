"""The worker: slots, one desk for each partition, and a heart.

Told to stop, it takes nothing new and lets what runs come to its end.  Cancelled while it does, it gives the rest
back, which costs no attempt.  Either way it leaves the list of workers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress

from taskflow.executor import Executor
from taskflow.tasks import Task
from taskflow_domain import Subscriptions
from taskflow_runtime.logs import Log, get_log
from taskflow_runtime.loops import Backoff, Outage, name_of
from taskflow_streams import Partition, Pool, Store, Unavailable
from taskflow_worker.attempt import KILL_GRACE_S, Means, TaskRunner
from taskflow_worker.deputy import Deputy
from taskflow_worker.desk import Desk
from taskflow_worker.fitness import Fitness, Step
from taskflow_worker.heart import Connect, Heart
from taskflow_worker.holding import Handlers
from taskflow_worker.identity import describe, new_worker_id
from taskflow_worker.ledger import Ledger
from taskflow_worker.outcome import Stopped
from taskflow_worker.output import OPEN, Discretion
from taskflow_worker.pulse import Pulse
from taskflow_worker.slots import Slots

PROGRESS_S = 1.0
UNWIND_S = 1.5  # for attempts that were told to stop; all three together: less than the five seconds that
HAND_BACK_S = 2.0  # the process has after its grace
LEAVE_S = 1.0
CANCEL_AGAIN_S = 0.1


class Broken(Exception):
    """A part without which the worker would only look alive has ended."""


class Worker:
    """Runs the jobs of a store.  `connect` makes a second store, for the heart in its own thread; `deputize` a deputy.

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
        deputize: Callable[[str, Ledger], Deputy] | None = None,
    ) -> None:
        self.id = new_worker_id()
        self._ledger = Ledger(2 * slots)  # an ending that was not told yet still holds its lease
        self._deputy = deputize(self.id, self._ledger) if deputize is not None else None
        handlers: dict[str, Task | Executor] = {f"@{name}": executor for name, executor in (executors or {}).items()}
        handlers |= tasks
        means = Means(
            self.id, processes=processes, kill_grace_s=kill_grace_s, discretion=discretion, ledger=self._ledger
        )
        self.pool = _pool(handlers, queues or Subscriptions(all=True))
        self.slots = Slots(slots, max_jobs)
        self.desks = [self._desk(partition, handlers, means, wait_s) for partition in store.partitions]
        self.slots.share_among(self.desks)
        self._store = store
        self._about = describe(self.id, slots, queues or Subscriptions(all=True), len(handlers))
        self._cancel_at_stop = cancel_at_stop
        self._max_memory_bytes = max_memory_bytes
        self._enough = asyncio.Event()
        self._status = "active"
        self._on_read = on_read
        self._log: Log = get_log(worker_id=self.id)
        self._outage = Outage(self._log)
        self.fitness = Fitness(wait_s)
        self._loops: list[asyncio.Task[None]] = []
        pulse = Pulse(
            self.id, self.desks, self.fitness, self._ledger, self._log, lambda: self._status, self._join, self._weigh
        )
        self._heart = Heart(connect, pulse.beat, heartbeat_s, self._log)

    async def run(self, stopping: asyncio.Event) -> None:
        """Work until `stopping` is set and all that runs has ended, or until cancelled.  Raises Broken."""
        rounds: list[Step] = [desk.listen for desk in self.desks]
        self.fitness.expect(rounds)
        self._heart.start()
        self._take_again([self.fitness.tick, self._ship_progress, *self._outward(), *rounds])
        self._loops.append(asyncio.create_task(self._heart.wait_end(), name="heart"))
        cut_short = Stopped.CANCELED if self._cancel_at_stop else Stopped.RELEASED
        try:
            await self._while_whole(_first(stopping, self._enough))
            self.drain("stopping")
            await self._while_whole(self._empty())
        except asyncio.CancelledError:
            if not stopping.is_set():  # a job did that: it cancelled whatever it found, or broke the event loop
                self._log.error("worker.felled")
                cut_short = Stopped.FELLED
            raise
        finally:
            self.drain("stopping")
            if cut_short is Stopped.FELLED:
                await _end(
                    self._loops
                )  # some may have ended with us, and all are needed to tell what becomes of the jobs
                self._take_again(self._outward())
            await self._hand_back(cut_short)
            await _end(self._loops)
            await self._heart.stop()
            if self._deputy is not None:
                self._deputy.close()
            self._ledger.close()
            await self._leave()

    def drain(self, status: str = "draining") -> None:
        """Take nothing new; what runs goes on."""
        if status != self._status:
            self._log.info(f"worker.{status}", running=sum(len(desk.holding.attempts) for desk in self.desks))
        self._status = status
        for desk in self.desks:
            desk.drain()

    def resume(self) -> None:
        """Take jobs again, after a drain that was no stop."""
        if self._status == "draining":
            self._status = "active"
            self._log.info("worker.resumed")
            for desk in self.desks:
                desk.resume()

    async def _while_whole(self, work: Awaitable[None]) -> None:
        """Do it; but not without all the loops, which never end by themselves."""
        doing = asyncio.ensure_future(work)
        try:
            await asyncio.wait([doing, *self._loops], return_when=asyncio.FIRST_COMPLETED)
            if ended := [loop.get_name() for loop in self._loops if loop.done()]:
                raise Broken(f"{', '.join(ended)} has ended; nothing would be done any more")
            doing.result()
        finally:
            doing.cancel()

    def _desk(self, partition: Partition, handlers: Handlers, means: Means, wait_s: float) -> Desk:
        return Desk(
            partition, self.id, self.pool, handlers, means, self.slots, wait_s=wait_s, join=self._join,
            orders={"drain": self.drain, "resume": self.resume},
        )  # fmt: skip

    def _outward(self) -> list[Step]:
        """The steps that tell the server what happens here."""
        return [step for desk in self.desks for step in (desk.pump, desk.ship_output)]

    def _take_again(self, steps: Iterable[Step]) -> None:
        self._loops = [asyncio.create_task(self._again(step), name=name_of(step)) for step in steps]

    async def _again(self, step: Step) -> None:
        """Take a step for ever, and survive whatever it meets."""
        backoff = Backoff()
        while True:
            try:
                await step()
            except Unavailable as error:
                self.fitness.failing.add(step)
                self._outage.failed(error)
            except Exception:
                self.fitness.failing.add(step)
                self._log.exception("step.failed", step=name_of(step))
            else:
                self._went_well(step)
                backoff.reset()
                continue
            await asyncio.sleep(backoff.pause())

    def _went_well(self, step: Step) -> None:
        self.fitness.went_well(step)
        if self.slots.spent:
            self._recycle("jobs")
        if not self.fitness.failing and not self._heart.failing:
            self._outage.passed()
            if self.fitness.is_round(step):
                self._on_read()

    async def _join(self, partition: Partition) -> None:
        await partition.workers.join(self.id, self.pool, {**self._about, "status": self._status})

    def _weigh(self, rss: int) -> None:
        """End if it has grown too large.  One that has done nothing yet would be no smaller if it were started anew."""
        if self._max_memory_bytes is not None and rss > self._max_memory_bytes and self.slots.taken:
            self._recycle("memory")

    def _recycle(self, why: str) -> None:
        if not self._enough.is_set():
            self._log.info("worker.recycling", why=why)
            self._enough.set()

    async def _ship_progress(self) -> None:
        if self._deputy is not None:
            self._deputy.ensure()
        await asyncio.sleep(PROGRESS_S)
        for desk in self.desks:
            await desk.ship_progress()

    async def _empty(self) -> None:
        for desk in self.desks:
            await desk.idle()

    async def _hand_back(self, why: Stopped) -> None:
        """Stop what runs, and report it as given back, also what does not stop."""
        for desk in self.desks:
            desk.holding.stop_all(why)
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
