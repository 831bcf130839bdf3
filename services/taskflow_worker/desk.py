"""A worker's dealings with one partition: takes jobs, hears orders, tells how attempts ended.

One call is under way at a time.  It carries all endings since the last one and asks for as many jobs as there are
free slots, so at load one round trip serves hundreds of jobs.  An ending is kept until the server has taken it;
after a lost answer, what it may have leased unseen is given back before anything new is asked for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from taskflow_streams import LOG_BYTES, Ending, Lease, Order, Partition, Pool, Renewed, Token
from taskflow_worker.attempt import Means
from taskflow_worker.holding import Handlers, Holding
from taskflow_worker.outcome import Stopped
from taskflow_worker.slots import Slots

RESTING_S = 0.02  # when all who have something to say have shipped too much lately
GATHER_S = 0.004  # before output is shipped: what is written together travels together


class NoHandler(Exception):
    """The server offered a job that this worker never said it could run."""


class Desk:
    """One partition, as a worker sees it.  `pump` and `listen` are steps, to be taken again and again."""

    def __init__(
        self,
        partition: Partition,
        worker: str,
        pool: Pool,
        handlers: Handlers,
        means: Means,
        slots: Slots,
        *,
        wait_s: float,
        join: Callable[[Partition], Awaitable[None]],
        orders: Mapping[str, Callable[[], None]],
    ) -> None:
        self.index = partition.index
        self.using = 0
        self.hungry = True  # there may be jobs for us
        self.draining = False
        self.holding = Holding(means, handlers, self.wake, lambda: slots.give_back(self), partition.index)
        self._partition, self._leases = partition, partition.leases
        self._worker, self._pool, self._slots = worker, pool, slots
        self._wait_s, self._join, self._orders = wait_s, join, orders
        self._work = asyncio.Event()
        self._work.set()
        self._looked = asyncio.Event()
        self._quiet = asyncio.Event()  # no call is under way
        self._quiet.set()
        self.joined = False
        self._has_bell = False
        self._deaf = False  # waiting for orders alone
        self._in_doubt = False  # an answer was lost that may have held leases
        self._doubt_again = False

    def wake(self) -> None:
        """Let the pump look."""
        self._work.set()

    def slot_freed(self) -> None:
        """A slot is free; the pump looks if it could use it, or has to listen for the bell again."""
        if self.hungry or self._deaf:
            self._work.set()

    def drain(self) -> None:
        """Take nothing new."""
        self.draining = True
        self.hungry = False

    def resume(self) -> None:
        """Take jobs again."""
        self.draining = False
        self.hungry = True
        self._work.set()

    async def pump(self) -> None:
        """Wait until something has ended or may be taken, then make one call."""
        await self._work.wait()
        self._work.clear()
        try:
            await self._look()
        except BaseException:
            self._work.set()
            raise
        if self.holding.endings:
            self._work.set()
        self._looked.set()

    async def listen(self) -> None:
        """Wait for the bell, an order, or the time to look without being asked; then let the pump look."""
        self._deaf = self.draining or self.hungry or not self._slots.free
        heard = await self._leases.wait(self._worker, None if self._deaf else self._pool, self._wait_s)
        self._deaf = False
        if isinstance(heard, Order):
            self._obey(heard)
            return
        self._has_bell = self._has_bell or heard
        self.hungry = not self.draining
        self._looked.clear()
        self._work.set()
        await self._looked.wait()

    async def idle(self) -> None:
        """Wait until nothing is held, and no call is under way that may bring more."""
        while not (self.holding.empty.is_set() and self._quiet.is_set()):
            await self.holding.empty.wait()
            await self._quiet.wait()

    def told(self, renewed: Iterable[tuple[Token, Renewed]]) -> None:
        """What a heartbeat learnt about leases that are not simply ours."""
        for token, word in renewed:
            self.holding.stop(token, Stopped.LOST if word is Renewed.LOST else Stopped.CANCELED)

    async def ship_progress(self) -> None:
        """Send the latest word of each attempt that has told how far it is."""
        while self.holding.progress:
            token, (fraction, note) = self.holding.progress.popitem()
            await self._leases.progress(self._worker, token, fraction, note)

    async def ship_output(self) -> None:
        """Wait for output, and send what has gathered."""
        await self.holding.spoken.wait()
        await asyncio.sleep(GATHER_S)
        rows = self.holding.take_output()
        if not rows:
            await asyncio.sleep(RESTING_S)
            return
        try:
            await self._leases.log_many(self._worker, [(output.token, chunks) for output, chunks in rows], LOG_BYTES)
        except BaseException:
            for output, chunks in rows:
                self.holding.keep_output(output, chunks)
            raise
        for output, _ in rows:
            output.shipped()

    def _obey(self, order: Order) -> None:
        match order.verb:
            case "cancel":
                self.holding.stop((order.job_id, order.fence), Stopped.CANCELED)
            case "lost":
                self.holding.stop((order.job_id, order.fence), Stopped.LOST)
            case verb if verb in self._orders:
                self._orders[verb]()

    async def _look(self) -> None:
        if not self.joined:
            await self._join(self._partition)
            self.joined = True
        if self._in_doubt:
            await self._resync()
        has_bell, self._has_bell = self._has_bell, False
        endings = self.holding.next_endings()
        # What cannot be told in this call keeps its lease meanwhile, so there is no room for others.
        told = len(endings) == self.holding.endings
        asks = not self.draining and told and (self.hungry or bool(endings))
        want = self._slots.reserve(self) if asks else 0
        if endings or want:
            self._quiet.clear()
            try:
                await self._exchange(endings, want)
            finally:
                self._quiet.set()
        if has_bell and not want:
            await self._join(self._partition)  # which rings for the others, if there is work
        if self._deaf and not self.hungry and not self.draining and self._slots.free:
            self._deaf = False
            await self._leases.nudge(self._worker)

    async def _exchange(self, endings: list[Ending], want: int) -> None:
        self.hungry = False
        leases: list[Lease] = []
        try:
            _, leases = await self._leases.report(self._worker, endings, self._pool, want)
        except BaseException:
            self._in_doubt = self._doubt_again = self._in_doubt or want > 0
            self.hungry = True
            raise
        finally:
            self.hungry = (self.hungry or 0 < want == len(leases)) and not self.draining
            self._slots.fill(self, want, len(leases))
            if 0 < want == len(leases) and self._slots.free:
                self._work.set()
        self.holding.taken(endings)
        strangers = self.holding.start(leases)
        if strangers:
            raise NoHandler(f"{len(strangers)} jobs were given back, the first for {strangers[0].handler!r}")

    async def _resync(self) -> None:
        """Repeat the endings, which is safe; then what the lost answer may have leased goes back."""
        while endings := self.holding.next_endings():
            await self._exchange(endings, 0)
        await self._leases.resync(self._worker, self.holding.tokens())
        self._in_doubt = False
        self.hungry = not self.draining
        if self._doubt_again:  # a server that had only stalled may take the lost call after this one
            self._doubt_again = False
            asyncio.get_running_loop().call_later(self._wait_s, self._doubt)

    def _doubt(self) -> None:
        self._in_doubt = True
        self._work.set()
