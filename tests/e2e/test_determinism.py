"""The same submissions with the same seed come to the same ends, whoever runs them and in whatever order."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from taskflow_domain import TERMINAL, BackoffStrategy, RetryPolicy, derived_id
from taskflow_streams import NewJob, Store
from taskflow_streams.embedded import EmbeddedServer
from tests.support.consistency import faults
from tests.support.crew import DEADLINE_S, Process, started
from tests.support.working import until

SEED = 11
BORN_MS = 1_767_225_600_000
JOBS = 40

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("fleet")]


@dataclass(frozen=True, slots=True)
class End:
    """All of a job's end that must not hang on chance."""

    status: str
    attempts: int
    value: bytes | None
    error: tuple[str, str] | None
    rests_ms: tuple[int, ...]  # how long it was to rest after each failed attempt


def submissions(seed: int) -> list[NewJob]:
    """Jobs of three queues and all priorities, some of which need others; ids and all hang on the seed alone."""
    dice, jobs = random.Random(seed), list[NewJob]()
    for number in range(JOBS):
        retry = RetryPolicy(
            max_attempts=dice.randint(1, 4),
            backoff_strategy=dice.choice(list(BackoffStrategy)),
            base_delay_seconds=1,
            max_delay_seconds=1,
            jitter=dice.choice((0.0, 0.5, 1.0)),
        )
        needs = tuple(job.id for job in dice.sample(jobs[:12], k=min(len(jobs), dice.choice((0, 0, 1, 2)))))
        jobs.append(
            NewJob(
                derived_id(f"{seed}:{number}", BORN_MS + number),
                f"job {number}",
                dice.choice(("red", "green", "blue")),
                "decide",
                json.dumps({"seed": seed}).encode(),
                order=dice.randint(0, 9),
                dependencies=needs,
                retry=retry,
            )
        )
    return jobs


async def run(folder: Path, seed: int, workers: int, slots: int) -> list[End]:
    """All of them on a fresh server with so many workers; how each ended."""
    with EmbeddedServer(folder, durable=False) as server:
        store = await Store.connect(server.url)
        crew = [
            Process("worker", server.url, folder, "tests.support.crew_tasks", TASKFLOW_WORKER_CONCURRENCY=str(slots))
            for _ in range(workers)
        ]
        jobs = submissions(seed)
        try:
            with started(Process("scheduler", server.url, folder), *crew):
                await store.submit(jobs)

                async def all_ended() -> bool:
                    return all(record and record.status in TERMINAL for record in await store.get([j.id for j in jobs]))

                await until(all_ended, f"the end of {JOBS} jobs", DEADLINE_S)
            assert await faults(store) == []
            return await ends(store, jobs)
        finally:
            await store.close()


async def ends(store: Store, jobs: list[NewJob]) -> list[End]:
    rests: dict[str, list[int]] = defaultdict(list)
    for event in await store.partitions[0].history.after("0-0", 1_000_000):
        if event.type == "job.retrying":
            rests[event.job_id].append(event.more["due"] - event.at_ms)
    found = []
    for record in await store.get([job.id for job in jobs]):
        assert record is not None
        error = (record.failure.kind, record.failure.message) if record.failure else None
        found.append(End(record.status.value, record.attempt, record.value, error, tuple(rests[record.id])))
    return found


async def test_the_same_seed_brings_the_same_ends(tmp_path: Path) -> None:
    """States, attempts, results, errors and rests with their jitter: with one worker, and with three at once."""
    folders = [tmp_path / name for name in ("alone", "crowd", "other")]
    for folder in folders:
        folder.mkdir()

    alone, crowd, other = await asyncio.gather(
        run(folders[0], SEED, workers=1, slots=1),
        run(folders[1], SEED, workers=3, slots=8),
        run(folders[2], SEED + 1, workers=1, slots=8),
    )

    assert alone == crowd
    assert other != alone  # it is the seed that decides
    assert Counter(end.status for end in alone).keys() == {"COMPLETED", "FAILED", "BLOCKED"}
    assert len({rest for end in alone for rest in end.rests_ms}) > 5  # the jitter was there
