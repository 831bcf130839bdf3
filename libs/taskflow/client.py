"""Enqueue jobs and follow them, from any asyncio program; talks to Redis directly.

The ids are made here, so a submission whose answer was lost is sent again and never doubled.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from types import TracebackType
from typing import Any, Self, TypeAlias

from taskflow.broker import find_broker
from taskflow.errors import IdempotencyConflict, JobFailed
from taskflow.submission import Submission, fingerprint, new_job
from taskflow.tasks import Registry, registry
from taskflow_domain import TERMINAL, JobStatus
from taskflow_streams import Canceled, Full, JobRecord, NewJob, Store, Unavailable, UnknownDependency

__all__ = ["Client", "Submission"]

BATCH = 500  # Redis serves nobody else while a script runs
IN_FLIGHT = 3  # batches: one in the script, one on its way, one being made
TRIES = 4
FIRST_PAUSE_S = 0.1  # doubles with each try
POLL_S = (0.005, 0.25)  # the first look at a job that is waited for, and the longest pause between two

Claims: TypeAlias = list[tuple[str, str]]  # idempotency keys and the ids that were made for them


class Client:
    """A connection to a TaskFlow deployment.  `async with await Client.connect() as client: …`"""

    def __init__(self, store: Store, tasks: Registry = registry) -> None:
        self.store = store
        self._tasks = tasks

    @classmethod
    async def connect(cls, url: str | None = None, *, namespace: str | None = None) -> Self:
        """Connect to `url`; without one, to where the settings say, or the `taskflow up` of this directory runs."""
        url, namespace = find_broker(url, namespace)
        return cls(await Store.connect(url, namespace=namespace))

    async def close(self) -> None:
        """Close the connections."""
        await self.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def enqueue(self, task: str | Callable[..., Any], payload: Any = ..., **options: Any) -> str:
        """Enqueue one job and return its id.  The payload is {} unless given; `options` are the fields of `Submission`.

        Raises UnknownDependency, IdempotencyConflict, ValueError for what is out of bounds, and Unavailable.
        """
        return (await self.enqueue_many([Submission(task, {} if payload is ... else payload, **options)]))[0]

    async def enqueue_many(self, submissions: Iterable[Submission]) -> list[str]:
        """Enqueue any number of jobs, in batches, and return their ids in the same order.

        Batches that were accepted before one is refused stay accepted.
        """
        ids: list[str] = []
        room = asyncio.Semaphore(IN_FLIGHT)
        try:
            async with asyncio.TaskGroup() as group:
                for batch in _batches(submissions):
                    await room.acquire()
                    jobs = self._make(batch)
                    claims = await self._claim(batch, jobs)
                    ids += [job.id for job in jobs]
                    group.create_task(self._submit(jobs, claims, room))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return ids

    async def get(self, job_id: str) -> JobRecord | None:
        """The job as it is now; None if there is no such job."""
        return (await self.store.get([job_id]))[0]

    async def wait(self, job_id: str, timeout_s: float | None = None) -> JobRecord:
        """The job once it has ended.  Raises TimeoutError, or LookupError if there is no such job."""
        pause, longest = POLL_S
        async with asyncio.timeout(timeout_s):
            while True:
                record = await self.get(job_id)
                if record is None:
                    raise LookupError(f"there is no job {job_id}")
                if record.status in TERMINAL:
                    return record
                await asyncio.sleep(pause)
                pause = min(pause * 2, longest)

    async def result(self, job_id: str, timeout_s: float | None = None) -> Any:
        """What the job returned, once it is COMPLETED.  Raises JobFailed when it ends in any other way."""
        record = await self.wait(job_id, timeout_s)
        if record.status is not JobStatus.COMPLETED:
            why = f": {record.failure.kind}: {record.failure.message}" if record.failure else ""
            raise JobFailed(f"job {job_id} is {record.status}{why}")
        return None if record.value is None else json.loads(record.value)

    async def cancel(self, job_id: str) -> Canceled:
        """Cancel a job: at once if it has not started, else by order to its worker."""
        return await self.store.cancel(job_id)

    def _make(self, batch: list[Submission]) -> list[NewJob]:
        fresh = self.store.new_ids(len(batch))
        ids = [self.store.new_id(s.after) if s.after else new for s, new in zip(batch, fresh, strict=True)]
        return [new_job(submission, job_id, self._tasks) for submission, job_id in zip(batch, ids, strict=True)]

    async def _claim(self, batch: list[Submission], jobs: list[NewJob]) -> Claims:
        """Give each job with an idempotency key the id that belongs to it; the ties that were tried."""
        keyed = [(i, key) for i, submission in enumerate(batch) if (key := submission.idempotency_key)]
        if not keyed:
            return []
        rows = [(key, jobs[i].id, fingerprint(jobs[i])) for i, key in keyed]
        for (i, key), (_, _, ours), claim in zip(keyed, rows, await self.store.claim(rows), strict=True):
            if claim.fingerprint != ours:
                raise IdempotencyConflict(f"the idempotency key {key!r} belongs to job {claim.job_id}, which differs")
            jobs[i] = replace(jobs[i], id=claim.job_id)
        return [(key, made) for key, made, _ in rows]

    async def _submit(self, jobs: list[NewJob], claims: Claims, room: asyncio.Semaphore) -> None:
        try:
            for tries in range(TRIES):
                try:
                    await self.store.submit(jobs)
                except Unavailable as error:
                    if isinstance(error, Full) or tries + 1 == TRIES:
                        raise
                    await asyncio.sleep(FIRST_PAUSE_S * 2**tries)
                else:
                    return
        except UnknownDependency:
            if claims:  # a mended submission may use the same keys; ties to jobs that exist have other ids than these
                await self.store.unclaim(claims)
            raise
        finally:
            room.release()


def _batches(submissions: Iterable[Submission]) -> Iterator[list[Submission]]:
    rest = iter(submissions)
    while batch := list(islice(rest, BATCH)):
        yield batch
