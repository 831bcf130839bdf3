"""Straight to Redis.  The ids are made here, so a submission whose answer was lost is sent again, never doubled."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from math import inf
from time import monotonic
from typing import Final, TypeAlias, TypeVar

from taskflow.body import fingerprint, firsts
from taskflow.errors import IdempotencyConflict
from taskflow.job import Job, LogEntry, of_record
from taskflow.submission import Submission, batches, new_job
from taskflow.tasks import Registry
from taskflow.transport.output import Output
from taskflow.transport.patience import ASKING_S, FIRST_S, Patience
from taskflow_domain import TERMINAL
from taskflow_streams import Canceled, Full, LogChunk, NewJob, Store, Unavailable, UnknownDependency

BATCH: Final = 500  # Redis serves nobody else while a script runs
IN_FLIGHT: Final = 3  # batches: one in the script, one on its way, one being made
PIECES: Final = 100  # of output, in one read
BLOCK_S: Final = 15.0  # of one question that waits for a job

Claims: TypeAlias = list[tuple[str, str]]  # idempotency keys and the ids that were made for them
T = TypeVar("T")


class RedisTransport:
    """A client's way to Redis or Valkey."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @classmethod
    async def connect(cls, url: str, namespace: str) -> "RedisTransport":
        """Connect to a deployment.  One that is not there is given up soon; one that starts is waited for."""
        return cls(await patiently(lambda: Store.connect(url, namespace=namespace), most_s=_first))

    async def close(self) -> None:
        """Close the connections."""
        await self.store.close()

    async def submit(self, submissions: Iterable[Submission], tasks: Registry) -> list[str]:
        """Enqueue jobs.  Raises UnknownDependency, IdempotencyConflict, ValueError for what is out of bounds."""
        ids: list[str] = []
        room = asyncio.Semaphore(IN_FLIGHT)
        try:
            async with asyncio.TaskGroup() as group:
                for batch in batches(submissions, BATCH):
                    await room.acquire()
                    jobs = self._make(batch, tasks)
                    claims = await self._claim(batch, jobs)
                    ids += [job.id for job in jobs]
                    group.create_task(self._submit(jobs, claims, room))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return ids

    async def get(self, job_id: str) -> Job | None:
        """The job as it is now."""
        record = (await patiently(lambda: self.store.get([job_id])))[0]
        return of_record(record) if record else None

    async def wait(self, job_id: str, timeout_s: float | None) -> Job | None:
        """The job once it has ended, or as it is when the time is over."""
        deadline = inf if timeout_s is None else monotonic() + timeout_s
        patience = Patience.until(deadline)

        async def look() -> Job | None:
            record = await self.store.wait_end(job_id, max(0.0, min(BLOCK_S, deadline - monotonic())))
            return of_record(record) if record else None

        while True:
            job = await patiently(look, patience)
            if job is None or job.ended or monotonic() >= deadline:
                return job

    async def cancel(self, job_id: str) -> bool | None:
        """Cancel a job: at once if it has not started, else by order to its worker."""
        word = await patiently(lambda: self.store.cancel(job_id))
        return None if word is Canceled.MISSING else word is not Canceled.ENDED

    async def logs(self, job_id: str, after: str, follow: bool) -> AsyncIterator[LogEntry]:
        """Its output, piece by piece."""
        home = self.store.partition(job_id)
        if home is None:
            return
        output, ended = Output(), False
        patience = Patience.until(inf) if follow else Patience()

        async def look() -> tuple[list[LogChunk], bool]:
            """What it printed since, and whether that is all for now."""
            nonlocal ended
            if follow and not ended:
                state = await home.logs.follow(job_id)
                if state is not None and state not in TERMINAL:
                    return (await home.logs.tail(job_id, after, PIECES, int(BLOCK_S * 1000)))[:2]
                ended = True
            return await home.logs.read(job_id, after, PIECES), True

        if not follow:
            ended = (job := await self.get(job_id)) is not None and job.ended
        while True:
            chunks, over = await patiently(look, patience)
            for chunk in chunks:
                after = chunk.id
                yield output.entry(chunk)
            if over and not chunks:
                break
        for entry in output.rests() if ended or follow else []:
            yield entry

    def _make(self, batch: list[Submission], tasks: Registry) -> list[NewJob]:
        fresh = self.store.new_ids(len(batch))
        ids = [self.store.new_id(s.dependencies) if s.after else new for s, new in zip(batch, fresh, strict=True)]
        return [new_job(submission, job_id, tasks) for submission, job_id in zip(batch, ids, strict=True)]

    async def _claim(self, batch: list[Submission], jobs: list[NewJob]) -> Claims:
        """Give each job with an idempotency key the id that belongs to it; the ties that were tried."""
        keyed = [(i, key) for i, submission in enumerate(batch) if (key := submission.idempotency_key)]
        if not keyed:
            return []
        firsts(jobs, [submission.idempotency_key for submission in batch])
        rows = [(key, jobs[i].id, fingerprint(jobs[i])) for i, key in keyed]
        claimed = await patiently(lambda: self.store.claim(rows))
        for (i, key), (_, _, ours), claim in zip(keyed, rows, claimed, strict=True):
            if claim.fingerprint != ours:
                raise IdempotencyConflict(f"the idempotency key {key!r} belongs to job {claim.job_id}, which differs")
            jobs[i] = replace(jobs[i], id=claim.job_id)
        return [(key, made) for key, made, _ in rows]

    async def _submit(self, jobs: list[NewJob], claims: Claims, room: asyncio.Semaphore) -> None:
        try:
            await patiently(lambda: self.store.submit(jobs))
        except UnknownDependency:
            if claims:  # a mended submission may use the same keys; ties to jobs that exist have other ids than these
                await patiently(lambda: self.store.unclaim(claims))
            raise
        finally:
            room.release()


async def patiently(
    ask: Callable[[], Awaitable[T]],
    patience: Patience | None = None,
    most_s: Callable[[Unavailable], float] = lambda _: inf,
) -> T:
    """What the server answers, asked again while it is away.  Asking one that is full again would not help."""
    patience = patience or Patience()
    while True:
        try:
            answer = await ask()
        except Unavailable as error:
            if isinstance(error, Full) or not await patience.rest(most_s=most_s(error)):
                raise
        else:
            patience.heard()
            return answer


def _first(error: Unavailable) -> float:
    """How long to try at the first contact: one that is loading its data is there, and will be ready."""
    return ASKING_S if "loading" in str(error) else FIRST_S
