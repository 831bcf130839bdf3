"""Jobs that run in this process, one after the other, as a worker would run them, without its waiting.

A job runs as soon as it is enqueued (`at_once`), or with `run`, or when somebody waits for it.  One that a running job
enqueues runs after that one.  One for later (`delay_s`, `scheduled_at`) runs with `run`, or when somebody waits for it.
"""

import heapq
import threading
import traceback
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from threading import get_ident
from time import time_ns
from types import TracebackType

from taskflow.body import fingerprint, firsts
from taskflow.calling import encode_result
from taskflow.context import Context, running
from taskflow.errors import Fatal, IdempotencyConflict
from taskflow.inline import calls
from taskflow.inline.calls import Caller
from taskflow.inline.entry import Entry
from taskflow.inline.hearing import heard
from taskflow.inline.transport import InlineTransport
from taskflow.job import JobError, Progress
from taskflow.submission import Submission, new_job
from taskflow.tasks import Registry, Task
from taskflow_domain import TERMINAL, IdFactory, JobStatus
from taskflow_streams import NewJob, UnknownDependency

OURS = ("taskflow.inline.", "asyncio.", "concurrent.")
MOST = 10_000  # jobs in one go; more is a job that enqueues itself for ever


class Bench:
    """All jobs, in the order they came.  It stands in for every server."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.entries: dict[str, Entry] = {}
        self.awaited = InlineTransport(self, calls.awaited)
        self.blocking = InlineTransport(self, calls.blocking)
        self._at_once = at_once
        self._ready: list[tuple[int, str]] = []  # a heap; ids of one order are as old as they sort
        self._waiting: defaultdict[str, list[Entry]] = defaultdict(list)  # for the job of an id
        self._keys: dict[str, tuple[str, str]] = {}
        self._ids = IdFactory(lambda: time_ns() // 1_000_000)
        self._lock = threading.RLock()

    async def submit(self, submissions: Iterable[Submission], tasks: Registry, caller: Caller) -> list[str]:
        """Take jobs, all or none of them; their ids."""
        batch = list(submissions)
        with self._lock:
            made = [Entry(new_job(one, self._ids.new(0), tasks), _task_of(one, tasks)) for one in batch]
            for entry in made:
                for dependency in entry.new.dependencies:
                    if dependency not in self.entries:
                        raise UnknownDependency(entry.new.id, dependency)
            firsts([entry.new for entry in made], [one.idempotency_key for one in batch])
            ids = [self._tied(one, entry.new) for one, entry in zip(batch, made, strict=True)]
            for job_id, entry in zip(ids, made, strict=True):
                if job_id == entry.new.id:
                    self.entries[job_id] = entry
                    for dependency in entry.new.dependencies:
                        self._waiting[dependency].append(entry)
                    self._resolve(entry)
        context = running()
        if self._at_once and (context is None or context.job_id not in self.entries):
            await self.run(caller, later=False)
        return ids

    async def run(self, caller: Caller, *, later: bool = True) -> int:
        """Run what waits, and what comes of that; how many attempts that were.  `later`: also what is for later."""
        if later:
            self._let_time_pass()
        count = 0
        while (entry := self._next()) is not None:
            await self._attempt(entry, caller)
            count += 1
            if count > MOST:
                raise RuntimeError(f"{MOST:,} jobs ran, and there are more: does one enqueue itself for ever?")
        return count

    def cancel(self, job_id: str) -> bool | None:
        """Cancel a job: at once if it has not started, else it is told.  None if there is no such job."""
        with self._lock:
            entry = self.entries.get(job_id)
            if entry is None or entry.ended:
                return None if entry is None else False
            if entry.context is not None:
                entry.cancel = entry.context.canceled = True
            else:
                self._end(entry, JobStatus.CANCELED)
            return True

    def _tied(self, submission: Submission, job: NewJob) -> str:
        """The job's id, or the one that its idempotency key has already."""
        key = submission.idempotency_key
        if key is None:
            return job.id
        job_id, content = self._keys.setdefault(key, (job.id, fingerprint(job)))
        if content != fingerprint(job):
            raise IdempotencyConflict(f"the idempotency key {key!r} belongs to job {job_id}, which differs")
        return job_id

    def _let_time_pass(self) -> None:
        with self._lock:
            for entry in self.entries.values():
                if entry.later:
                    entry.due = True
                    if entry.status is JobStatus.READY:
                        self._queue(entry)

    def _resolve(self, entry: Entry) -> None:
        """Whether it may run, by what it waits for."""
        states = {self.entries[dependency].status for dependency in entry.new.dependencies}
        if states <= {JobStatus.COMPLETED}:
            self._queue(entry)
        elif states & (TERMINAL - {JobStatus.COMPLETED}):
            self._end(entry, JobStatus.BLOCKED)

    def _queue(self, entry: Entry) -> None:
        entry.status = JobStatus.READY
        if entry.can_run and not entry.later:
            heapq.heappush(self._ready, (entry.new.order, entry.new.id))

    def _end(self, entry: Entry, status: JobStatus) -> None:
        entry.end(status)
        for other in self._waiting.pop(entry.new.id, ()):
            if other.status is JobStatus.PENDING:
                self._resolve(other)

    def _next(self) -> Entry | None:
        """The most urgent that may run; it is running from now on."""
        with self._lock:
            while self._ready:
                entry = self.entries[heapq.heappop(self._ready)[1]]
                if entry.status is JobStatus.READY:  # else canceled
                    entry.status, entry.attempt, entry.thread = JobStatus.RUNNING, entry.attempt + 1, get_ident()
                    entry.started_at = datetime.now(UTC)
                    return entry
        return None

    async def _attempt(self, entry: Entry, caller: Caller) -> None:
        new = entry.new

        def progress(fraction: float, note: str) -> None:
            entry.progress = Progress(fraction, note)

        entry.context = Context(
            new.id, entry.attempt, entry.attempt, new.queue, new.name, "inline", None, False, progress, entry.write
        )
        try:
            body, is_async = calls.find(entry)
            with heard():
                entry.value = encode_result(await caller(body, is_async, entry.context))
            status = JobStatus.COMPLETED
        except BaseException as error:
            if calls.ends_the_test(error):
                self._end(entry, JobStatus.CANCELED)
                raise
            status = self._failed(entry, error)
        entry.context = None
        with self._lock:
            if status is JobStatus.READY:
                self._queue(entry)
            else:
                self._end(entry, status)

    def _failed(self, entry: Entry, error: BaseException) -> JobStatus:
        shown = traceback.TracebackException(type(error), error, _below_ours(error.__traceback__))
        entry.error = JobError(type(error).__name__, str(error), "".join(shown.format()))
        if isinstance(error, calls.ShellFailed):
            entry.error = JobError("ExitCode", str(error))
            entry.value = encode_result(error.result)
        if entry.cancel:
            return JobStatus.CANCELED
        again = not isinstance(error, Fatal) and entry.attempt < entry.new.retry.max_attempts
        return JobStatus.READY if again else JobStatus.FAILED


def _below_ours(trace: TracebackType | None) -> TracebackType | None:
    """From the task's frames on."""
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(OURS):
        trace = trace.tb_next
    return trace


def _task_of(submission: Submission, tasks: Registry) -> Task | None:
    return submission.task if isinstance(submission.task, Task) else tasks.find(submission.task)
