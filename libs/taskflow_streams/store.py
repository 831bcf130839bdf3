"""The engine's front: all partitions of one deployment, and what spans them."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic, time

from taskflow_domain import TERMINAL, IdFactory, JobStatus, detect_cycle, partition_of
from taskflow_streams.connection import Client, check_fitness, client
from taskflow_streams.errors import Unfit, translated
from taskflow_streams.graph import Graph
from taskflow_streams.history import History
from taskflow_streams.indexes import Projection
from taskflow_streams.jobs import Change, Jobs, UnknownDependency
from taskflow_streams.keys import Keys, control_keys, partition_keys
from taskflow_streams.leases import Leases
from taskflow_streams.logs import Logs
from taskflow_streams.queues import Queues
from taskflow_streams.records import Canceled, Deleted, JobRecord, NewJob, Submitted, Updated
from taskflow_streams.schedules import Schedules
from taskflow_streams.scripts import Scripts
from taskflow_streams.search import Search
from taskflow_streams.upkeep import Upkeep
from taskflow_streams.workers import Workers

VERSION = 1  # of the data in Redis
BLOCK_SECONDS = 30.0  # the longest a blocking read may ask for
CLAIM_TTL_MS = 7 * 24 * 3600 * 1000  # how long an idempotency key is remembered


@dataclass(frozen=True, slots=True)
class Claim:
    """An idempotency key's tie to a job."""

    job_id: str
    fingerprint: str
    first: bool


class Partition:
    """A complete, independent engine inside one hash slot."""

    def __init__(self, index: int, redis: Client, blocking: Client, keys: Keys) -> None:
        scripts = Scripts(redis, keys)
        self.index = index
        self.redis = redis
        self.keys = keys
        self.scripts = scripts
        self.jobs = Jobs(scripts, index, CLAIM_TTL_MS)
        self.leases = Leases(redis, blocking, keys, scripts)
        self.workers = Workers(redis, keys, scripts)
        self.queues = Queues(redis, keys, scripts)
        self.upkeep = Upkeep(scripts, CLAIM_TTL_MS)
        self.graph = Graph(redis, blocking, keys, scripts)
        self.history = History(redis, blocking, keys)
        self.projection = Projection(redis, keys, scripts)
        self.logs = Logs(redis, blocking, keys, scripts)


class Store:
    """All partitions.  Made by `connect`; every method raises Unavailable while the server is away."""

    def __init__(self, url: str, namespace: str, partitions: int) -> None:
        self.redis = client(url)
        self._blocking = client(url, blocking_seconds=BLOCK_SECONDS, max_connections=1024)
        self._control = control_keys(namespace)
        self._scripts = Scripts(self.redis, self._control)
        self.partitions = [
            Partition(i, self.redis, self._blocking, partition_keys(namespace, i)) for i in range(partitions)
        ]
        self.schedules = Schedules(self.redis, self._blocking, self._control, self._scripts)
        self.search = Search(self)
        self._ids = IdFactory(lambda: int(time() * 1000))

    @classmethod
    async def connect(cls, url: str, *, namespace: str = "tf", partitions: int | None = None) -> Store:
        """Connect, refuse an unfit server, and set up what is missing.

        `partitions` None takes as many as the deployment has; a larger number adds some; a smaller one is refused.
        """
        store = cls(url, namespace, 1)
        try:
            await check_fitness(store.redis)
            count = await store._agree_on_partitions(partitions)
        except BaseException:
            await store.close()
            raise
        store.partitions = [
            Partition(i, store.redis, store._blocking, partition_keys(namespace, i)) for i in range(count)
        ]
        for partition in store.partitions:
            await partition.graph.prepare(VERSION)
        return store

    async def _agree_on_partitions(self, wanted: int | None) -> int:
        meta = self._control("meta")
        with translated():
            raw: bytes | None = await self.redis.hget(meta, "partitions")
            has = int(raw) if raw else 0
            if wanted is not None and wanted < has:
                raise Unfit(
                    f"this deployment has {has} partitions, and their number can only grow: "
                    f"start with --partitions {has} or more, not {wanted}."
                )
            count = wanted or has or 1
            if count > has:
                await self.redis.hset(meta, mapping={"partitions": count, "version": VERSION})
        return count

    async def close(self) -> None:
        """Close all connections."""
        await self.redis.aclose()
        await self._blocking.aclose()

    async def ping(self) -> None:
        """A round trip to the server."""
        with translated():
            await self.redis.ping()

    async def now_ms(self) -> int:
        """The server's clock, or a test's."""
        if self._scripts.now_ms is not None:
            return self._scripts.now_ms
        with translated():
            seconds, micros = await self.redis.time()
        return int(seconds) * 1000 + int(micros) // 1000

    async def memory(self) -> tuple[int, int]:
        """Bytes in use, and the server's limit (0: none)."""
        with translated():
            info = await self.redis.info("memory")
        return int(info["used_memory"]), int(info.get("maxmemory", 0))

    def new_id(self, dependencies: Sequence[str] = ()) -> str:
        """An id for a new job, in the partition of its first dependency, or any."""
        partition = partition_of(dependencies[0]) if dependencies else None
        if partition is None or partition >= len(self.partitions):
            partition = random.randrange(len(self.partitions))
        return self._ids.new(partition)

    def new_ids(self, count: int) -> list[str]:
        """Ids for new jobs without dependencies, all of one partition, so that one script takes them."""
        return self._ids.new_many(count, random.randrange(len(self.partitions)))

    def partition(self, job_id: str) -> Partition | None:
        """The partition an id belongs to; None for an id that cannot be one of ours."""
        index = partition_of(job_id)
        return self.partitions[index] if index is not None and index < len(self.partitions) else None

    async def submit(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        """Submit jobs: one atomic script per partition.  Raises UnknownDependency, DependencyCycle.

        Those that need one another share a partition: give them ids with `new_id([first])`.
        """
        words: list[Submitted] = [Submitted.CREATED] * len(jobs)
        for partition, members in await self._by_partition(jobs):
            replies = await partition.jobs.submit([jobs[i] for i in members])
            for i, word in zip(members, replies, strict=True):
                words[i] = word
        return words

    async def create(self, jobs: Sequence[NewJob]) -> list[tuple[Submitted, JobRecord | None]]:
        """`submit`, and for each job that is new its record as it was born: by now it may be running."""
        born: list[tuple[Submitted, JobRecord | None]] = [(Submitted.CREATED, None)] * len(jobs)
        for partition, members in await self._by_partition(jobs):
            replies = await partition.jobs.create([jobs[i] for i in members])
            for i, reply in zip(members, replies, strict=True):
                born[i] = reply
        return born

    async def _by_partition(self, jobs: Sequence[NewJob]) -> list[tuple[Partition, list[int]]]:
        """Which of the jobs go into which partition, once it is known that what they need elsewhere exists."""
        await self._check_far_dependencies(jobs)
        groups: dict[int, list[int]] = defaultdict(list)
        for i, job in enumerate(jobs):
            index = partition_of(job.id)
            if index is None or index >= len(self.partitions):
                raise ValueError(f"job id {job.id} belongs to no partition")
            groups[index].append(i)
        return [(self.partitions[index], members) for index, members in groups.items()]

    async def _check_far_dependencies(self, jobs: Sequence[NewJob]) -> None:
        if len(self.partitions) == 1 and not any(job.dependencies for job in jobs):
            return
        batch = {job.id for job in jobs}
        far = [
            (job.id, dependency)
            for job in jobs
            for dependency in job.dependencies
            if partition_of(dependency) != partition_of(job.id)
        ]
        # A scheduler could ask for the one before it is written, and be told that there is none.
        if any(dependency in batch for _, dependency in far):
            raise ValueError("jobs of one batch that need one another belong in one partition")
        for (job_id, dependency), there in zip(far, await self.exist([d for _, d in far]), strict=True):
            if not there:
                raise UnknownDependency(job_id, dependency)

    async def exist(self, job_ids: Sequence[str]) -> list[bool]:
        """Which of these jobs exist."""
        if not job_ids:
            return []
        homes = [self.partition(job_id) for job_id in job_ids]
        with translated():
            async with self.redis.pipeline(transaction=False) as pipe:
                for home, job_id in zip(homes, job_ids, strict=True):
                    if home is not None:
                        pipe.exists(home.keys("job", job_id))
                replies = iter(await pipe.execute())
        return [home is not None and bool(next(replies)) for home in homes]

    async def states(self, job_ids: Sequence[str]) -> list[JobStatus | None]:
        """Where these jobs stand; None for what does not exist."""
        if not job_ids:
            return []
        homes = [self.partition(job_id) for job_id in job_ids]
        with translated():
            async with self.redis.pipeline(transaction=False) as pipe:
                for home, job_id in zip(homes, job_ids, strict=True):
                    if home is not None:
                        pipe.hget(home.keys("job", job_id), "state")
                replies = iter(await pipe.execute())
        states = [None if home is None else next(replies) for home in homes]
        return [None if state is None else JobStatus(state.decode()) for state in states]

    async def were_submitted(self, runs: Sequence[tuple[str, str]]) -> list[bool]:
        """Which of these runs of schedules exist, or did, not too long ago: (schedule, run)."""
        if not runs:
            return []
        homes = [self.partition(run) for _, run in runs]
        with translated():
            async with self.redis.pipeline(transaction=False) as pipe:
                for home, (schedule, run) in zip(homes, runs, strict=True):
                    if home is not None:
                        pipe.exists(home.keys("job", run), home.keys("gone", run))
                        pipe.zscore(home.keys("ran", schedule), run)
                replies = iter(await pipe.execute())
        # Both replies are taken, whatever the first one says.
        return [home is not None and any([next(replies), next(replies) is not None]) for home in homes]

    async def get(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        """The records of these jobs, in this order; None for what does not exist."""
        groups: dict[int, list[int]] = defaultdict(list)
        for i, job_id in enumerate(job_ids):
            home = self.partition(job_id)
            if home is not None:
                groups[home.index].append(i)
        records: list[JobRecord | None] = [None] * len(job_ids)
        loaded = await asyncio.gather(
            *(self.partitions[index].jobs.get([job_ids[i] for i in members]) for index, members in groups.items())
        )
        for members, part in zip(groups.values(), loaded, strict=True):
            for i, record in zip(members, part, strict=True):
                records[i] = record
        return records

    async def wait_end(self, job_id: str, timeout_s: float | None = None) -> JobRecord | None:
        """The job once it has ended, or as it is when the time is over; None if there is no such job."""
        home = self.partition(job_id)
        if home is None:
            return None
        deadline = None if timeout_s is None else monotonic() + timeout_s
        state = await home.logs.follow(job_id)
        while state is not None and state not in TERMINAL:
            left_s = BLOCK_SECONDS if deadline is None else min(deadline - monotonic(), BLOCK_SECONDS)
            if left_s <= 0 or await home.logs.ends_within(job_id, int(left_s * 1000)):
                break
            state = await home.logs.follow(job_id)  # the end may have come and gone while nobody was connected
        return (await self.get([job_id]))[0]

    async def cancel(self, job_id: str) -> Canceled:
        """Cancel one job."""
        home = self.partition(job_id)
        return Canceled.MISSING if home is None else (await home.jobs.cancel([job_id]))[0]

    async def delete(self, job_id: str) -> Deleted:
        """Delete one job."""
        home = self.partition(job_id)
        return Deleted.MISSING if home is None else await home.jobs.delete(job_id)

    async def find_cycle(self, job_id: str, dependencies: Sequence[str]) -> tuple[list[str], int]:
        """The cycle that these dependencies would close (empty: none), and the graph's version it holds for.

        The version is that of the job's partition at the first look, so that a change during the walk is noticed.
        """
        edges: dict[str, list[str]] = {}
        versions: dict[int, int] = {}
        ahead = {job_id, *dependencies}
        while ahead:
            for partition in self.partitions:
                if start := [node for node in ahead if partition_of(node) == partition.index]:
                    found, version = await partition.jobs.ancestry(start)
                    edges |= found
                    versions.setdefault(partition.index, version)
            named = {job_id, *dependencies, *itertools.chain.from_iterable(edges.values())}
            ahead = {node for node in named if node not in edges and self.partition(node) is not None}
        home = self.partition(job_id)
        version = versions[home.index] if home else 0
        return detect_cycle(job_id, list(dependencies), edges).cycle_path, version

    async def update(self, job_id: str, version: int, change: Change, graph_version: int = 0) -> tuple[Updated, str]:
        """Change one job."""
        home = self.partition(job_id)
        if home is None:
            return Updated.MISSING, ""
        return await home.jobs.update(job_id, version, change, graph_version)

    async def claim(self, claims: Iterable[tuple[str, str, str]]) -> list[Claim]:
        """Tie idempotency keys to job ids: (key, id, fingerprint).  Submit afterwards, under the ids replied.

        A client that dies in between finds its id again, so nothing is lost and nothing runs twice.  If one of the
        keys is tied to another fingerprint, none is claimed.
        """
        rows = [[_digest(key), job_id, fingerprint] for key, job_id, fingerprint in claims]
        replies = await self._scripts.run("claim", {"claims": rows, "ttl_ms": CLAIM_TTL_MS})
        return [Claim(job_id.decode(), fingerprint.decode(), bool(first)) for job_id, fingerprint, first in replies]

    async def unclaim(self, claims: Iterable[tuple[str, str]]) -> None:
        """Untie keys from ids whose jobs were refused, so that a mended request may use the same keys: (key, id)."""
        await self._scripts.run("unclaim", [[_digest(key), job_id] for key, job_id in claims])


def _digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()
