"""The retry delay of report.lua is that of the domain, for every policy and attempt."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskflow_domain import BackoffStrategy, JobStatus, RetryPolicy, calculate_retry_delay
from taskflow_streams import Store
from taskflow_streams.embedded import EmbeddedServer
from taskflow_streams.records import pack_retry, unpack_retry
from tests.support.engine import START_MS, Clock, Worker, a_running_job, record


@st.composite
def policies(draw: st.DrawFn) -> RetryPolicy:
    """Any policy that is valid."""
    base = draw(st.integers(1, 300))
    return RetryPolicy(
        max_attempts=draw(st.integers(1, 10)),
        backoff_strategy=draw(st.sampled_from(BackoffStrategy)),
        base_delay_seconds=base,
        max_delay_seconds=draw(st.integers(base, 3600)),
    )


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all examples."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def failing(server: EmbeddedServer, runner: asyncio.Runner) -> Iterator[Store]:
    """A store whose jobs all fail."""
    store = runner.run(Store.connect(server.url, namespace="retries"))
    yield store
    runner.run(store.redis.flushdb())
    runner.run(store.close())


@given(policy=policies())
def test_delays_are_those_of_the_domain(failing: Store, runner: asyncio.Runner, policy: RetryPolicy) -> None:
    """After each failed attempt the job is due when the rules say, and after the last it has failed."""
    runner.run(fails_until_the_end(failing, policy))


async def fails_until_the_end(store: Store, policy: RetryPolicy) -> None:
    """Let one job fail as often as it may."""
    clock = Clock(store)
    worker = Worker(store.partitions[0])
    held = await a_running_job(store, retry=policy)
    for attempt in range(1, policy.max_attempts):
        await worker.fail(held)
        delay = calculate_retry_delay(policy, attempt)
        assert (await record(store, held.job_id)).due_ms == clock.now_ms + delay * 1000
        clock.forward(delay)
        assert (await store.partitions[0].upkeep.promote())[0] == 1
        held = await worker.take()
        assert held.lease.attempt == attempt + 1
    await worker.fail(held)
    kept = await record(store, held.job_id)
    assert (kept.status, kept.attempt) == (JobStatus.FAILED, policy.max_attempts)
    assert clock.now_ms == START_MS + 1000 * sum(
        calculate_retry_delay(policy, attempt) for attempt in range(1, policy.max_attempts)
    )


@given(policy=policies())
def test_a_policy_survives_its_way_through_the_record(policy: RetryPolicy) -> None:
    """Short as it is stored, nothing of it is lost."""
    assert unpack_retry(pack_retry(policy)) == policy
