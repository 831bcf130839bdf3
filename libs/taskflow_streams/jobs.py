"""Submit, read, change, cancel and delete jobs of one partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from taskflow_domain import JobStatus, detect_cycle, partition_of
from taskflow_streams.records import (
    Canceled,
    Deleted,
    JobRecord,
    NewJob,
    Submitted,
    Updated,
    as_born,
    pack_retry,
    read_record,
)
from taskflow_streams.scripts import Scripts

SUBMIT_BATCH = 1000  # an all-or-nothing batch is one script; Redis serves nobody else for its 20 ms
ANCESTRY_CHUNK = 2000


class UnknownDependency(ValueError):
    """A job names a dependency that does not exist."""

    def __init__(self, job_id: str, dependency: str) -> None:
        super().__init__(f"dependency {dependency} does not exist")
        self.job_id = job_id
        self.dependency = dependency


class DependencyCycle(ValueError):
    """Jobs of one batch need one another: each of `path` the next, and the last the first."""

    def __init__(self, path: list[str]) -> None:
        super().__init__(f"these jobs form a cycle: {' -> '.join([*path, path[0]])}")
        self.path = path


@dataclass(frozen=True, slots=True)
class Change:
    """What an update sets.  Fields not in `set` stay; those in `clear` are removed."""

    set: dict[str, Any] = field(default_factory=dict)
    clear: tuple[str, ...] = ()
    spec: bytes | None = None
    dependencies: tuple[str, ...] | None = None  # all of them, if they change


class Jobs:
    """The jobs of one partition."""

    def __init__(self, scripts: Scripts, partition: int, claim_ttl_ms: int) -> None:
        self._scripts = scripts
        self._partition = partition
        self._claim_ttl_ms = claim_ttl_ms

    async def submit(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        """Accept all jobs or, when one names an unknown dependency of this partition or some form a cycle, none.

        Safe to repeat.  At most SUBMIT_BATCH; dependencies of other partitions are known to exist.
        """
        words, _, _ = await self._accept(jobs)
        return [Submitted(word.decode()) for word in words]

    async def create(self, jobs: Sequence[NewJob]) -> list[tuple[Submitted, JobRecord | None]]:
        """`submit`, and for each job that is new its record as it was born."""
        words, states, now_ms = await self._accept(jobs)
        return [
            (Submitted(word.decode()), as_born(job, JobStatus(state.decode()), now_ms) if state else None)
            for job, word, state in zip(jobs, words, states, strict=True)
        ]

    async def _accept(self, jobs: Sequence[NewJob]) -> tuple[list[bytes], list[bytes], int]:
        if len(jobs) > SUBMIT_BATCH:
            raise ValueError(f"at most {SUBMIT_BATCH} jobs in one batch, not {len(jobs)}")
        reply = await self._scripts.run("submit", [self._pack(job) for job in jobs])
        if reply[0] == b"unknown":
            raise UnknownDependency(reply[1].decode(), reply[2].decode())
        if reply[0] == b"cycle":
            needs = {job.id: job.dependencies for job in reversed(jobs)}
            raise DependencyCycle(detect_cycle(reply[1].decode(), needs[reply[1].decode()], needs).cycle_path)
        return reply[1], reply[2], reply[3]

    def _pack(self, job: NewJob) -> dict[str, Any]:
        packed: dict[str, Any] = {
            "id": job.id,
            "queue": job.queue,
            "order": job.order,
            "handler": job.handler,
            "retry": pack_retry(job.retry),
            "spec": job.spec(),
        }
        if job.dependencies:
            here = [dep for dep in job.dependencies if partition_of(dep) == self._partition]
            elsewhere = [dep for dep in job.dependencies if partition_of(dep) != self._partition]
            if here:
                packed["dependencies"] = here
            if elsewhere:
                packed["elsewhere"] = elsewhere
        for name, value in (
            ("timeout", job.timeout_ms),
            ("due", job.due_ms),
            ("delay", job.delay_ms),
            ("expires", job.expires_ms),
            ("ttl", job.ttl_ms),
            ("owner", job.owner),
            ("run", job.run_id),
            ("retry_of", job.retry_of),
            ("schedule", job.schedule_id),
            ("tell", job.schedule_id if job.tells_schedule else None),
            ("key", "run" if job.is_run and job.schedule_id else 1 if job.has_key else None),
        ):
            if value is not None:
                packed[name] = value
        return packed

    async def get(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        """The records of these jobs, always current; None for what does not exist."""
        if not job_ids:
            return []
        return [
            read_record(job_id, dict(zip(row[0][::2], row[0][1::2], strict=True)), row[1], row[2] or None)
            if row
            else None
            for job_id, row in zip(job_ids, await self._scripts.run("get", list(job_ids)), strict=True)
        ]

    async def ancestry(self, start: Sequence[str]) -> tuple[dict[str, list[str]], int]:
        """What these jobs of this partition need, and what that needs, as far as one call goes; the graph's version."""
        edges, version = await self._scripts.run("ancestry", {"start": list(start), "limit": ANCESTRY_CHUNK})
        found = {node.decode(): [need.decode() for need in needs] for node, needs in edges}
        return {node: needs for node, needs in found.items() if partition_of(node) == self._partition}, version

    async def update(self, job_id: str, version: int, change: Change, graph_version: int = 0) -> tuple[Updated, str]:
        """Apply a change computed from `version` of the record; the second part names an unknown dependency."""
        args: dict[str, Any] = {"id": job_id, "ver": version, "set": change.set, "clear": list(change.clear)}
        if change.spec is not None:
            args["spec"] = change.spec
        if change.dependencies is not None:
            args["dependencies"] = list(change.dependencies)
            args["depver"] = graph_version
        reply = await self._scripts.run("update", args)
        return Updated(reply[0].decode()), reply[1].decode() if len(reply) > 1 else ""

    async def cancel(self, job_ids: Iterable[str]) -> list[Canceled]:
        """End what has not started, and order the holders of the others to stop."""
        return [Canceled(word.decode()) for word in await self._scripts.run("cancel", list(job_ids))]

    async def delete(self, job_id: str) -> Deleted:
        """Remove one job at once; a running one is fenced off and its worker told to kill it."""
        reply = await self._scripts.run("delete", {"id": job_id, "keep_key_ms": self._claim_ttl_ms})
        return Deleted(reply.decode())
