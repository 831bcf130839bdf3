"""One execution of one job: started, perhaps told to stop, ended once."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol

from taskflow.calling import encode_result
from taskflow.context import Context, enter
from taskflow.executor import Executor, Report, Work
from taskflow.tasks import Task
from taskflow_streams import Lease, Spec, Token
from taskflow_worker.ledger import Ledger
from taskflow_worker.outcome import Outcome, Stopped, Succeeded, TimedOut, checked, failed
from taskflow_worker.output import OPEN, Discretion, Output
from taskflow_worker.threads import ThreadRun, Threads

KILL_GRACE_S = 10.0  # between SIGTERM and SIGKILL, unless set
RELEASE_GRACE_S = 1.0  # the worker stops, and has waited already
STUBBORN_S = 5.0  # beyond the grace; what has not ended by then is not waited for, and keeps its slot

OnEnd = Callable[["Attempt", Outcome | None], None]


class TaskRunner(Protocol):
    """Runs tasks in processes of their own."""

    async def run(self, task: str, work: Work, report: Report) -> Outcome:
        """One attempt."""


@dataclass(frozen=True, slots=True)
class Means:
    """What a worker runs attempts with, the same for all of them."""

    worker: str
    threads: Threads = field(default_factory=Threads)
    processes: TaskRunner | None = None
    kill_grace_s: float = KILL_GRACE_S
    discretion: Discretion = OPEN
    ledger: Ledger | None = None


class Attempt:
    """A handler at work on a lease: an executor, or a task on the event loop, in a process or in a thread.

    A thread cannot be stopped: it sees `current().canceled`, and ends when it ends.  Past its time limit the attempt
    has failed at once.  Whatever else does not stop when it is told to is given up some time after its grace.  Either
    way the slot stays taken until nothing of the attempt runs any more.
    """

    __slots__ = (
        "_broken_off", "_context", "_handler", "_late", "_limit_s", "_means", "_on_end", "_patience", "_run", "_thread",
        "ended", "lease", "output", "stopped",
    )  # fmt: skip

    def __init__(self, lease: Lease, handler: Task | Executor, means: Means, output: Output) -> None:
        self.lease = lease
        self.output = output
        self.stopped: Stopped | None = None
        self.ended = False
        self._handler = handler
        self._means = means
        own_s = handler.timeout_s if isinstance(handler, Task) else None
        self._limit_s = lease.timeout_ms / 1000 if lease.timeout_ms else own_s
        self._late = False
        self._broken_off = False
        self._patience: asyncio.TimerHandle | None = None
        self._context: Context | None = None
        self._thread: ThreadRun[Outcome] | None = None

    @property
    def token(self) -> Token:
        """What the server knows it by."""
        return self.lease.job_id, self.lease.fence

    def start(self, on_end: OnEnd) -> None:
        """Begin; `on_end` is called once, with None when it was stopped before it had an outcome."""
        self._on_end = on_end
        self._run = asyncio.create_task(self._attempt())
        self._run.add_done_callback(self._done)

    def stop(self, why: Stopped) -> None:
        """Tell it to stop.  The first reason counts, but for a lost lease, which leaves nothing to report."""
        if self.ended:
            return
        again = self.stopped is why  # a heartbeat repeats itself
        if self.stopped is None or why is Stopped.LOST:
            self.stopped = why
        if why is Stopped.LOST:
            self.output.grace_s = 0.0
        elif why in (Stopped.RELEASED, Stopped.FELLED):
            self.output.grace_s = min(RELEASE_GRACE_S, self.output.grace_s)
        if self._context is not None:
            self._context.canceled = True
        if again:
            return
        if self._thread is None or why in (Stopped.RELEASED, Stopped.FELLED):
            self._break_off(at_once=why is not Stopped.CANCELED)
        self._expect_end()

    @property
    def is_free(self) -> bool:
        """Whether nothing of it runs any more."""
        return self._run.done() if self._thread is None else self._thread.finished

    def when_free(self, action: Callable[[], None]) -> None:
        """Call it once nothing of the attempt runs any more."""
        if self.is_free:
            action()
        elif self._thread is not None:
            self._thread.when_finished(action)
        else:
            self._run.add_done_callback(lambda _: action())

    def _break_off(self, at_once: bool = False) -> None:
        """Cancel it, once; `at_once`: also what is being cancelled, and takes its time to end politely."""
        if at_once or not self._broken_off:
            self._broken_off = True
            self._run.cancel()

    def _too_late(self) -> None:
        self._late = True
        self._break_off()
        self._expect_end()

    def _expect_end(self) -> None:
        """Wait no longer than its grace allows, and a little more; what is more urgent now counts."""
        if self._patience is not None:
            self._patience.cancel()
        wait_s = self.output.grace_s + STUBBORN_S
        self._patience = asyncio.get_running_loop().call_later(wait_s, self._give_up)

    def _give_up(self) -> None:
        """It should have ended long ago.  Nobody shall wait for it any more."""
        self._end(TimedOut(self._limit_s or 0) if self._late else None)

    def _end(self, outcome: Outcome | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        if not self.ended:
            self.ended = True
            self._on_end(self, outcome)

    async def _attempt(self) -> Outcome:
        """Run the handler once.  Every ending but a stop is returned, not raised."""
        limit_s = self._limit_s
        timer = asyncio.get_running_loop().call_later(limit_s, self._too_late) if limit_s else None
        try:
            return await self._execute(self.lease.spec, limit_s)
        except asyncio.CancelledError as error:
            if self._late:
                return TimedOut(limit_s or 0)
            if self.stopped is not None:
                raise
            return failed(error)  # the handler's own
        except BaseException as error:  # also what would end an event loop: no job shall end its worker
            return failed(error)
        finally:
            if timer is not None:
                timer.cancel()

    async def _execute(self, spec: Spec, limit_s: float | None) -> Outcome:
        handler, means = self._handler, self._means
        if not isinstance(handler, Task):
            return checked(await handler.run(self._work(spec, limit_s), self.output), self.lease.handler)
        if handler.isolation == "process" and means.processes is not None:
            return await means.processes.run(handler.name, self._work(spec, limit_s), self.output)
        self._context = context = self._make_context(spec, limit_s)
        if handler.is_async:
            return await _call_on_the_loop(handler, spec, context)
        self._thread = means.threads.run(partial(_call_in_a_thread, handler, spec, context))
        return await self._thread.result

    def _work(self, spec: Spec, limit_s: float | None) -> Work:
        lease = self.lease
        return Work(
            lease.job_id, lease.attempt, lease.fence, lease.queue, spec.name, spec.type, self._means.worker,
            spec.payload, limit_s,
        )  # fmt: skip

    def _make_context(self, spec: Spec, limit_s: float | None) -> Context:
        lease, output = self.lease, self.output
        deadline = datetime.now(UTC) + timedelta(seconds=limit_s) if limit_s else None
        return Context(
            lease.job_id, lease.attempt, lease.fence, lease.queue, spec.name, self._means.worker, deadline, False,
            output.progress, output.write,
        )  # fmt: skip

    def _done(self, run: "asyncio.Task[Outcome]") -> None:
        if run.cancelled():
            self._end(None)
        else:
            error = run.exception()
            self._end(run.result() if error is None else failed(error))


async def _call_on_the_loop(task: Task, spec: Spec, context: Context) -> Outcome:
    enter(context)
    args, kwargs = task.arguments(spec.payload)
    return Succeeded(encode_result(await task.function(*args, **kwargs)))


def _call_in_a_thread(task: Task, spec: Spec, context: Context) -> Outcome:
    try:
        enter(context)
        args, kwargs = task.arguments(spec.payload)
        return Succeeded(encode_result(task.function(*args, **kwargs)))
    except BaseException as error:
        return failed(error)
