"""The engine as a few dictionaries: what every operation should do, said as plainly as possible.

It shares the rules of taskflow_domain with the product, and nothing else.  Dependencies are resolved when `tell` is
called, as by a scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from taskflow_domain import (
    TERMINAL,
    DependencyStatus,
    JobStatus,
    RetryPolicy,
    calculate_retry_delay,
    check_dependencies,
)
from taskflow_streams import How, NewJob

S = JobStatus
BORN = {
    DependencyStatus.SATISFIED: S.READY,
    DependencyStatus.WAITING: S.PENDING,
    DependencyStatus.BLOCKED: S.BLOCKED,
}


@dataclass(slots=True)
class ModelJob:
    """One job."""

    id: str
    queue: str
    handler: str
    order: int
    created_ms: int
    retry: RetryPolicy
    state: JobStatus = S.READY
    due_ms: int | None = None
    expires_ms: int | None = None
    keyed: bool = False
    attempt: int = 0
    fence: int = 0
    version: int = 0
    worker: str = ""
    delayed: bool = False  # READY, but not in its lane yet
    canceling: bool = False
    needs: set[str] = field(default_factory=set)
    waits: set[str] = field(default_factory=set)
    retire_at_ms: int = 0  # when it ended, or a little later if it was waited for when its time came

    @property
    def rank(self) -> tuple[int, int, str]:
        """What lanes are sorted by."""
        return self.order, self.created_ms, self.id

    def late(self, now_ms: int) -> bool:
        """Whether it should have started by now."""
        return self.expires_ms is not None and self.expires_ms <= now_ms and self.attempt == 0


@dataclass(slots=True)
class ModelQueue:
    """A queue's settings."""

    paused: bool = False
    limit: int | None = None


@dataclass(slots=True)
class Model:
    """All jobs and queues."""

    now_ms: int
    jobs: dict[str, ModelJob] = field(default_factory=dict)
    queues: dict[str, ModelQueue] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)  # removed jobs that had a key

    def of(self, *states: JobStatus) -> list[ModelJob]:
        """The jobs in these states."""
        return [job for job in self.jobs.values() if job.state in states]

    # Births ------------------------------------------------------------------------------------------------------

    def unknown(self, jobs: list[NewJob]) -> set[str]:
        """Dependencies that neither exist nor come with the batch."""
        batch = {job.id for job in jobs}
        return {need for job in jobs for need in job.dependencies if need not in self.jobs and need not in batch}

    def submit(self, jobs: list[NewJob]) -> None:
        """New jobs, parents first."""
        for new in jobs:
            job = ModelJob(new.id, new.queue, new.handler, new.order, self.now_ms, new.retry, keyed=new.has_key)
            job.due_ms = None if new.delay_ms is None else self.now_ms + new.delay_ms
            job.expires_ms = None if new.ttl_ms is None else self.now_ms + new.ttl_ms
            self.jobs[job.id] = job
            self.depend(job, set(new.dependencies))

    def depend(self, job: ModelJob, needs: set[str]) -> None:
        """It waits for these, and for nothing else."""
        states = {need: self.jobs[need].state if need in self.jobs else S.COMPLETED for need in needs}
        job.needs, job.state = needs, BORN[check_dependencies(needs, states)]
        job.waits = {need for need in needs if job.state is S.PENDING and states[need] not in TERMINAL}
        job.delayed = False
        if job.state is S.BLOCKED:
            self.end(job, S.BLOCKED)
        elif job.state is S.READY:
            self.place(job)

    def place(self, job: ModelJob) -> None:
        """READY: in its lane, or delayed."""
        job.state, job.worker = S.READY, ""
        job.delayed = job.due_ms is not None and job.due_ms > self.now_ms

    # Leases ------------------------------------------------------------------------------------------------------

    def lane(self, queue: str, handlers: Iterable[str]) -> list[ModelJob]:
        """What a worker with these handlers may take from a queue, in order."""
        able = set(handlers)
        ready = [job for job in self.of(S.READY) if job.queue == queue and not job.delayed and job.handler in able]
        return sorted(ready, key=lambda job: job.rank)

    def room(self, queue: str) -> float:
        """How many more of a queue may run."""
        settings = self.queues.get(queue, ModelQueue())
        if settings.paused:
            return 0
        running = sum(job.queue == queue for job in self.of(S.RUNNING))
        return float("inf") if settings.limit is None else max(0, settings.limit - running)

    def start(self, job: ModelJob, worker: str) -> None:
        """A worker takes it."""
        job.state, job.worker = S.RUNNING, worker
        job.attempt += 1
        job.fence += 1

    def report(self, worker: str, job_id: str, fence: int, how: How, delay_ms: int | None) -> str:
        """How an attempt ended, and what the engine should answer."""
        job = self.jobs.get(job_id)
        if job is None:
            return "gone"
        if job.fence != fence:
            return "stale"
        if job.state is not S.RUNNING:
            return "done"
        if job.worker != worker:
            return "stale"
        if how is How.COMPLETED:
            self.end(job, S.COMPLETED)
        elif how is How.CANCELED or job.canceling:
            self.end(job, S.CANCELED)
        elif how is How.RELEASED:
            self.give_back(job)
        elif how is How.FATAL or job.attempt >= job.retry.max_attempts:
            self.end(job, S.FAILED)
        else:
            wait_ms = calculate_retry_delay(job.retry, job.attempt) * 1000 if delay_ms is None else delay_ms
            job.due_ms = self.now_ms + wait_ms
            self.place(job)
        return "ok"

    def give_back(self, job: ModelJob) -> None:
        """Without cost, unless it shall stop anyway."""
        if job.canceling:
            self.end(job, S.CANCELED)
            return
        job.attempt -= 1
        self.place(job)

    def lose(self, job: ModelJob) -> None:
        """Its lease was not renewed."""
        job.fence += 1
        if job.canceling:
            self.end(job, S.CANCELED)
        elif job.attempt >= job.retry.max_attempts:
            self.end(job, S.FAILED)
        else:
            self.place(job)

    # Endings -----------------------------------------------------------------------------------------------------

    def end(self, job: ModelJob, state: JobStatus) -> None:
        """For good."""
        job.state, job.waits, job.delayed = state, set(), False
        job.retire_at_ms = self.now_ms

    def tell(self, ended: ModelJob) -> None:
        """Those who wait for a job that has ended move."""
        for job in self.of(S.PENDING):
            if ended.id in job.waits:
                job.waits.discard(ended.id)
                if ended.state is not S.COMPLETED:
                    self.end(job, S.BLOCKED)
                elif not job.waits:
                    self.place(job)

    def tell_all(self) -> None:
        """All endings, and those that follow from them."""
        while any(self.jobs[need].state in TERMINAL for job in self.of(S.PENDING) for need in job.waits):
            for job in self.of(*TERMINAL):
                self.tell(job)

    def named(self, job_id: str) -> bool:
        """Whether another job names it as a dependency."""
        return any(job_id in job.needs for job in self.jobs.values())

    def waited_for(self, job_id: str) -> bool:
        """Whether somebody has yet to be told how it ended."""
        return any(job_id in job.waits for job in self.jobs.values())

    def remove(self, job_id: str) -> None:
        """Every trace but the mark of its key."""
        if self.jobs.pop(job_id).keyed:
            self.gone.add(job_id)

    def retire(self, before_ms: int, max_count: int | None) -> tuple[int, int]:
        """The oldest that ended, unless they are waited for."""
        ended = sorted(self.of(*TERMINAL), key=lambda job: (job.retire_at_ms, job.id))
        removed = kept = 0
        for job in ended:
            over = max_count is not None and len(ended) - removed > max_count
            if not (job.retire_at_ms < before_ms or over):
                break
            if self.waited_for(job.id):
                job.retire_at_ms += 1000
                kept += 1
            else:
                self.remove(job.id)
                removed += 1
        return removed, kept
