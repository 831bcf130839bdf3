"""The attempts that a worker holds of one partition, and the endings that the server has not taken yet.  No I/O."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from taskflow.tasks import Task
from taskflow_runtime.logs import Log, get_log
from taskflow_streams import BATCH, Ending, How, Lease, Token
from taskflow_worker.attempt import Attempt
from taskflow_worker.outcome import Outcome, Stopped, ending_of
from taskflow_worker.threads import Threads

REPORT_BYTES = 4 << 20  # of results in one call; Redis serves nobody else while it takes them


class Holding:
    """From the lease to the answer to its ending.

    `changed` is called when there is an ending to report, `freed` when an attempt has left its slot.
    """

    def __init__(
        self,
        worker: str,
        tasks: Mapping[str, Task],
        changed: Callable[[], None],
        freed: Callable[[], None],
    ) -> None:
        self.attempts: dict[Token, Attempt | None] = {}  # the heart reads the keys, from its thread
        self.progress: dict[Token, tuple[float, str]] = {}
        self.empty = asyncio.Event()
        self.empty.set()
        self._worker, self._tasks = worker, tasks
        self._changed, self._freed = changed, freed
        self._threads = Threads()
        self._log: Log = get_log(worker_id=worker)
        self._endings: list[Ending] = []

    def tokens(self) -> list[Token]:
        """All leases we know of.  Safe to call from another thread."""
        return list(self.attempts)

    def start(self, leases: Iterable[Lease]) -> list[Lease]:
        """Start an attempt for each; those that there is no handler for are given back, and returned."""
        strangers = []
        for lease in leases:
            token = lease.job_id, lease.fence
            task = self._tasks.get(lease.handler)
            if task is None:
                strangers.append(lease)
                self.attempts[token] = None
                self._endings.append(Ending(*token, How.RELEASED))
                self._freed()
            else:
                attempt = self.attempts[token] = Attempt(lease, task, self._worker, self._threads, self._note)
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
            size += len(ending.value or b"")
            if count and size > REPORT_BYTES:
                break
            count += 1
        return self._endings[:count]

    def taken(self, endings: list[Ending]) -> None:
        """The server has these, which were the next."""
        for ending in endings:
            self.attempts.pop((ending.job_id, ending.fence), None)
        del self._endings[: len(endings)]
        self._check_empty()

    @property
    def has_endings(self) -> bool:
        """Whether something is left to report."""
        return bool(self._endings)

    def _ended(self, attempt: Attempt, outcome: Outcome | None) -> None:
        ending = ending_of(attempt.token, outcome, attempt.stopped)
        self._tell(attempt, ending)
        if ending is not None:
            self._endings.append(ending)
        else:
            self.attempts.pop(attempt.token, None)
            self._check_empty()
        self.progress.pop(attempt.token, None)
        attempt.when_free(self._freed)
        self._changed()

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

    def _check_empty(self) -> None:
        if not self.attempts:
            self.empty.set()
