"""What a heartbeat does, in the heart's thread: tells how the worker is, renews its leases, passes on what it hears."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from taskflow_runtime.logs import Log
from taskflow_streams import Partition, Renewed, Store, Token
from taskflow_worker.desk import Desk
from taskflow_worker.fitness import Fitness
from taskflow_worker.ledger import Ledger
from taskflow_worker.usage import Usage

SHOWN_IDS = 50  # of running jobs, in the list of workers

Fields = dict[str, str | int | float]


@dataclass(slots=True)
class Pulse:
    """The heartbeats of one worker.

    `status` is what it calls itself while nothing is wrong; `weigh` is told, on its event loop, what memory it uses.
    """

    worker: str
    desks: Sequence[Desk]
    fitness: Fitness
    ledger: Ledger
    log: Log
    status: Callable[[], str]
    join: Callable[[Partition], Awaitable[None]]
    weigh: Callable[[int], None]
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _usage: Usage = field(default_factory=Usage)
    _complaint: str | None = None  # as it was last told

    async def beat(self, store: Store) -> None:
        """One heartbeat.  What one partition suffers does not keep the others waiting."""
        self.ledger.touch()
        held = [desk.holding.tokens() for desk in self.desks]
        fields = self._fields([job_id for tokens in held for job_id, _ in tokens])
        renewals = [self._renew(store, desk, tokens, fields) for desk, tokens in zip(self.desks, held, strict=True)]
        for met in await asyncio.gather(*renewals, return_exceptions=True):
            if met is not None:
                raise met

    def _fields(self, running: Sequence[str]) -> Fields:
        """What the list of workers shows."""
        cpu, rss = self._usage.read()
        self.loop.call_soon_threadsafe(self.weigh, rss)
        return {
            "status": self._condition(),
            "running": len(running),
            "running_ids": ",".join(running[:SHOWN_IDS]),
            "cpu": round(cpu, 1),
            "rss": rss,
        }

    def _condition(self) -> str:
        """The status to tell: degraded while the worker does not do what it is there for."""
        complaint = self.fitness.complaint() or self._hanging()
        if complaint != self._complaint:
            self._complaint = complaint
            if complaint is None:
                self.log.info("worker.recovered")
            else:
                self.log.warning("worker.degraded", why=complaint)
        status = self.status()
        return "degraded" if complaint is not None and status == "active" else status

    def _hanging(self) -> str | None:
        count = sum(desk.holding.hanging for desk in self.desks)
        return f"slots are held by what does not stop: {count}" if count else None

    async def _renew(self, store: Store, desk: Desk, tokens: list[Token], fields: Fields) -> None:
        partition = store.partitions[desk.index]
        words, known = await partition.leases.renew(self.worker, tokens, fields)
        news = [(token, word) for token, word in zip(tokens, words, strict=True) if word is not Renewed.OK]
        if news:
            self.loop.call_soon_threadsafe(desk.told, news)
        if not known and desk.joined:
            self.log.warning("worker.forgotten", partition=desk.index)  # it was silent for too long, or data are gone
            await self.join(partition)
