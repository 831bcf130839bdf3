"""The attempts that a worker holds of one partition, and the endings that the server has not taken yet.  No I/O."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from time import monotonic

from taskflow.executor import Executor
from taskflow.tasks import Task
from taskflow_runtime.logs import Log, get_log
from taskflow_streams import BATCH, Ending, How, Lease, Token
from taskflow_worker.attempt import Attempt, Means
from taskflow_worker.outcome import Outcome, Stopped, ending_of
from taskflow_worker.output import Chunk, Output

REPORT_BYTES = 4 << 20  # of results and output in one call; Redis serves nobody else while it takes them

Handlers = Mapping[str, Task | Executor]  # by the handler's name: a task's, or `@` and an executor's


class Holding:
    """From the lease to the answer to its ending.

    `changed` is called when there is an ending to report, `freed` when an attempt has left its slot.
    """

    def __init__(
        self,
        means: Means,
        handlers: Handlers,
        changed: Callable[[], None],
        freed: Callable[[], None],
        partition: int = 0,
    ) -> None:
        self.attempts: dict[Token, Attempt | None] = {}  # the heart reads the keys, from its thread
        self.progress: dict[Token, tuple[float, str]] = {}
        self.empty = asyncio.Event()
        self.empty.set()
        self.spoken = asyncio.Event()  # there is output to ship
        self.hanging = 0  # attempts that are over, and yet keep their slots
        self._means, self._handlers = means, handlers
        self._changed, self._freed = changed, freed
        self._partition, self._ledger = partition, means.ledger
        self._log: Log = get_log(worker_id=means.worker)
        self._talking: dict[Token, Output] = {}
        self._endings: list[Ending] = []

    def tokens(self) -> list[Token]:
        """All leases we know of.  Safe to call from another thread."""
        return list(self.attempts)

    def start(self, leases: Iterable[Lease]) -> list[Lease]:
        """Start an attempt for each; those that there is no handler for are given back, and returned."""
        self._home, self._loop = threading.get_ident(), asyncio.get_running_loop()
        strangers = []
        for lease in leases:
            token = lease.job_id, lease.fence
            if self._ledger is not None:  # before it runs: from then on there may be no time for it
                self._ledger.add(self._partition, token)
            handler = self._handlers.get(lease.handler)
            if handler is None:
                strangers.append(lease)
                self.attempts[token] = None
                self._endings.append(Ending(*token, How.RELEASED))
                self._freed()
            else:
                means = self._means
                output = Output(token, self._heard, self._note, means.kill_grace_s, means.discretion)
                attempt = self.attempts[token] = Attempt(lease, handler, means, output)
                attempt.start(self._ended)
        if self.attempts:
            self.empty.clear()
        return strangers

    def stop(self, token: Token, why: Stopped) -> None:
        """Tell one attempt to stop, if it still runs."""
        attempt = self.attempts.get(token)
        if attempt is not None:
            attempt.stop(why)

    def stop_all(self, why: Stopped) -> None:
        """Tell all to stop."""
        for token in self.tokens():
            self.stop(token, why)

    def give_up(self) -> None:
        """Give back what was told to stop, and has not."""
        for attempt in list(self.attempts.values()):
            if attempt is not None and not attempt.ended:
                attempt.ended = True
                self._ended(attempt, None)

    def next_endings(self) -> list[Ending]:
        """What to report next: as much as fits into one call."""
        size, count = 0, 0
        for ending in self._endings[:BATCH]:
            size += len(ending.value or b"") + sum(len(chunk[1]) for chunk in ending.logs)
            if count and size > REPORT_BYTES:
                break
            count += 1
        return self._endings[:count]

    def taken(self, endings: list[Ending]) -> None:
        """The server has these, which were the next."""
        for ending in endings:
            self._forget((ending.job_id, ending.fence))
        del self._endings[: len(endings)]
        self._check_empty()

    @property
    def endings(self) -> int:
        """How many there are to report."""
        return len(self._endings)

    def take_output(self) -> list[tuple[Output, list[Chunk]]]:
        """What the attempts have written, as much as fits into one call, and without those that have to wait."""
        rows: list[tuple[Output, list[Chunk]]] = []
        size, now_s = 0, monotonic()
        for token, output in list(self._talking.items()):
            if size >= REPORT_BYTES or len(rows) == BATCH:
                break
            if not output.may_ship(now_s):
                continue
            del self._talking[token]
            if chunks := output.take():
                rows.append((output, chunks))
                size += sum(len(chunk[1]) for chunk in chunks)
        if not self._talking:
            self.spoken.clear()
        return rows

    def keep_output(self, output: Output, chunks: Iterable[Chunk]) -> None:
        """It could not be shipped; it is again, or goes with the ending."""
        self._listen(output)
        output.shipped(back=chunks)

    def _heard(self, output: Output) -> None:
        if threading.get_ident() == self._home:
            self._listen(output)
        else:
            self._loop.call_soon_threadsafe(self._listen, output)

    def _listen(self, output: Output) -> None:
        attempt = self.attempts.get(output.token)
        if attempt is not None and not attempt.ended:
            self._talking[output.token] = output
            self.spoken.set()

    def _ended(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """Output that is on its way must arrive first: after the ending it would be refused."""
        self._talking.pop(attempt.token, None)
        if attempt.output.shipping:
            attempt.output.when_shipped(partial(self._settle, attempt, outcome))
        else:
            self._settle(attempt, outcome)

    def _settle(self, attempt: Attempt, outcome: Outcome | None) -> None:
        ending = ending_of(attempt.token, outcome, attempt.stopped)
        self._tell(attempt, ending)
        if ending is not None:
            rest, progress = attempt.output.take_rest(), self.progress.get(attempt.token)
            self._endings.append(replace(ending, logs=rest, progress=progress) if rest or progress else ending)
        else:
            self._forget(attempt.token)
            self._check_empty()
        self.progress.pop(attempt.token, None)
        if attempt.is_free:
            self._freed()
        else:
            self.hanging += 1
            attempt.when_free(self._let_go)
        self._changed()

    def _let_go(self) -> None:
        self.hanging -= 1
        self._freed()

    def _tell(self, attempt: Attempt, ending: Ending | None) -> None:
        """One line for each attempt that did not succeed; those that did are in the history, and too many to tell."""
        if ending is not None and ending.how is How.COMPLETED:
            return
        lease, failure = attempt.lease, ending.failure if ending else None
        self._log.warning(
            f"attempt.{ending.how if ending else 'lost'}",
            job_id=lease.job_id,
            attempt=lease.attempt,
            queue=lease.queue,
            task=lease.handler,
            **({"error": f"{failure.kind}: {failure.message[:200]}"} if failure else {}),
        )

    def _note(self, token: Token, fraction: float, note: str) -> None:
        self.progress[token] = (fraction, note)

    def _forget(self, token: Token) -> None:
        self.attempts.pop(token, None)
        if self._ledger is not None:
            self._ledger.remove(self._partition, token)

    def _check_empty(self) -> None:
        if not self.attempts:
            self.empty.set()
