"""Which job waits for which: cycles, readiness, and what an ending does to those who wait.

Nothing here recurses and everything is linear in jobs and edges, so chains of any length are fine.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, Protocol

from taskflow_domain.states import UNSUCCESSFUL, JobStatus


class DependencyStatus(StrEnum):
    """What a job's dependencies mean for it."""

    SATISFIED = "SATISFIED"
    WAITING = "WAITING"
    BLOCKED = "BLOCKED"


class CycleDetectionResult(NamedTuple):
    """Whether there is a cycle, and its jobs: each depends on the next, and the last on the first again."""

    has_cycle: bool
    cycle_path: list[str]


class Dependent(Protocol):
    """A job as far as dependencies are concerned."""

    @property
    def id(self) -> str: ...
    @property
    def status(self) -> JobStatus: ...
    @property
    def dependencies(self) -> Collection[str]: ...


def detect_cycle(
    new_job_id: str, new_job_dependencies: Iterable[str], existing_jobs: Mapping[str, Iterable[str]]
) -> CycleDetectionResult:
    """Look for a cycle among all that the new job depends on, directly or not.

    `existing_jobs` maps a job to its dependencies.  The new job's own entry there, if any, is overruled, so
    an update can ask the same question.  An id without an entry is a job unknown here: it depends on nothing.
    """
    # The trail leads from the new job to where we stand; each stop keeps the edges it has yet to follow.
    trail: dict[str, Iterator[str]] = {new_job_id: iter(new_job_dependencies)}
    explored: set[str] = set()
    while trail:
        here = next(reversed(trail))
        following = next(trail[here], None)
        if following is None:
            explored.add(here)
            trail.popitem()  # not `del`: it leaves a hole, and `reversed` walks over all of them
        elif following in trail:
            stops = list(trail)
            return CycleDetectionResult(True, stops[stops.index(following) :])
        elif following not in explored:
            trail[following] = iter(existing_jobs.get(following, ()))
    return CycleDetectionResult(False, [])


def check_dependencies(dependencies: Iterable[str], dependency_statuses: Mapping[str, JobStatus]) -> DependencyStatus:
    """Whether a job may run, must wait, or never can.

    The first rule that fits decides: one dependency without success blocks, whatever the others do; one that
    has not ended, or that has no status here, makes the job wait; otherwise, or with none at all, it may run.
    """
    statuses = {dependency_statuses.get(job_id) for job_id in dependencies}
    if not statuses.isdisjoint(UNSUCCESSFUL):
        return DependencyStatus.BLOCKED
    if statuses <= {JobStatus.COMPLETED}:
        return DependencyStatus.SATISFIED
    return DependencyStatus.WAITING


def propagate_failure(failed_job_id: str, all_jobs: Iterable[Dependent]) -> set[str]:
    """The PENDING jobs that can never run now, because they wait for the failed job, directly or not.

    Jobs that are past waiting are left alone, and the chain is not followed through them.
    """
    waiting = _waiting_by_dependency(all_jobs)
    blocked: set[str] = set()
    ended = [failed_job_id]
    while ended:
        fresh = waiting.pop(ended.pop(), set()) - blocked - {failed_job_id}
        blocked |= fresh
        ended.extend(fresh)
    return blocked


def propagate_completion(completed_job_id: str, all_jobs: Iterable[Dependent]) -> set[str]:
    """The PENDING jobs that become READY, because the completed job was the last they waited for.

    The completed job counts as COMPLETED even where its record has yet to say so.
    """
    jobs = list(all_jobs)
    statuses = {job.id: job.status for job in jobs} | {completed_job_id: JobStatus.COMPLETED}
    return {
        job.id
        for job in jobs
        if statuses[job.id] == JobStatus.PENDING
        and completed_job_id in job.dependencies
        and check_dependencies(job.dependencies, statuses) is DependencyStatus.SATISFIED
    }


def _waiting_by_dependency(jobs: Iterable[Dependent]) -> dict[str, set[str]]:
    waiting: defaultdict[str, set[str]] = defaultdict(set)
    for job in jobs:
        if job.status == JobStatus.PENDING:
            for dependency in job.dependencies:
                waiting[dependency].add(job.id)
    return waiting
