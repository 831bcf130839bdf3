"""One execution of one job: started, perhaps told to stop, ended once."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from taskflow.calling import encode_result
from taskflow.context import Context, Progress, enter
from taskflow.tasks import Task
from taskflow_streams import Lease, Spec, Token
from taskflow_worker.outcome import Outcome, Stopped, Succeeded, TimedOut, failed
from taskflow_worker.threads import ThreadRun, Threads

OnEnd = Callable[["Attempt", Outcome | None], None]
OnProgress = Callable[[Token, float, str], None]


class Attempt:
    """A handler at work on a lease.  A coroutine function runs on the event loop, any other in a thread.

    A thread cannot be stopped: it sees `current().canceled`, and ends when it ends.  Past its time limit the attempt
    has failed at once, but the slot stays taken until the thread is free.
    """

    __slots__ = ("_context", "_on_end", "_on_progress", "_run", "_task", "_thread", "_threads", "_worker", "ended",
                 "lease", "stopped")  # fmt: skip

    def __init__(self, lease: Lease, task: Task, worker: str, threads: Threads, on_progress: OnProgress) -> None:
        self.lease = lease
        self.stopped: Stopped | None = None
        self.ended = False
        self._task = task
        self._worker = worker
        self._threads = threads
        self._on_progress = on_progress
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
        if self.stopped is None or why is Stopped.LOST:
            self.stopped = why
        if self._context is not None:
            self._context.canceled = True
        if self._thread is None or why is Stopped.RELEASED:
            self._run.cancel()

    def when_free(self, action: Callable[[], None]) -> None:
        """Call it once nothing of the attempt runs any more."""
        if self._thread is None:
            action()
        else:
            self._thread.when_finished(action)

    async def _attempt(self) -> Outcome:
        """Run the handler once.  Every ending but cancellation is returned, not raised."""
        limit_s = self.lease.timeout_ms / 1000 if self.lease.timeout_ms else self._task.timeout_s
        try:
            async with asyncio.timeout(limit_s) as limit:
                spec = self.lease.spec
                self._context = context = self._make_context(spec, limit_s)
                if self._task.is_async:
                    return await _call_on_the_loop(self._task, spec, context)
                self._thread = self._threads.run(partial(_call_in_a_thread, self._task, spec, context))
                return await self._thread.result
        except asyncio.CancelledError as error:
            if self._run.cancelling():
                raise
            return failed(error)  # the handler's own
        except TimeoutError as error:
            return TimedOut(limit_s or 0) if limit.expired() else failed(error)
        except (Exception, SystemExit) as error:
            return failed(error)

    def _make_context(self, spec: Spec, limit_s: float | None) -> Context:
        lease = self.lease
        deadline = datetime.now(UTC) + timedelta(seconds=limit_s) if limit_s else None
        progress: Progress = partial(self._on_progress, self.token)
        return Context(
            lease.job_id, lease.attempt, lease.fence, lease.queue, spec.name, self._worker, deadline, False, progress
        )

    def _done(self, run: "asyncio.Task[Outcome]") -> None:
        if not self.ended:
            self.ended = True
            self._on_end(self, None if run.cancelled() else run.result())


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
