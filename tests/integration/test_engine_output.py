"""What an attempt says while it runs: output within its limit, and progress.  Only the holder may speak."""

import asyncio

import pytest

from taskflow_domain import Retries
from taskflow_streams import GIVEN_BACK, LOG_BYTES, Ending, How, Store
from tests.support.engine import Held, Worker, a_running_job, reap, record, stall

LOG_JOB_BYTES = 8 << 20  # of a job's log, beyond which its next run begins it anew


async def texts(store: Store, held: Held) -> list[tuple[str, int, bytes]]:
    """The output that is kept: stream, attempt, text."""
    return [(chunk.stream, chunk.attempt, chunk.text) for chunk in await store.partitions[0].logs.read(held.job_id)]


async def logged(store: Store, held: Held) -> int:
    """What the job's log takes, as retention will count it."""
    home = store.partitions[0]
    return int(await home.redis.hget(home.keys("job", held.job_id), "logged") or 0)


async def test_output_is_kept_in_order(store: Store) -> None:
    """Bytes as they came, with their stream and attempt."""
    held = await a_running_job(store)
    leases = store.partitions[0].leases

    assert await leases.log("w1", held.token, [("stdout", b"one\n"), ("stderr", b"\xff\x00")], 1_000) == "ok"
    assert await leases.log("w1", held.token, [("stdout", b"two")], 1_000) == "ok"

    assert await texts(store, held) == [("stdout", 1, b"one\n"), ("stderr", 1, b"\xff\x00"), ("stdout", 1, b"two")]


async def test_output_can_be_followed(store: Store) -> None:
    """From where the reader was, waiting for what comes next."""
    held = await a_running_job(store)
    leases, logs = store.partitions[0].leases, store.partitions[0].logs
    await leases.log("w1", held.token, [("stdout", b"one")], 1_000)
    [first] = await logs.read(held.job_id)
    waiting = asyncio.create_task(logs.read(held.job_id, first.id, block_ms=10_000))

    await leases.log("w1", held.token, [("stdout", b"two")], 1_000)

    [second] = await asyncio.wait_for(waiting, 10)
    assert (second.text, second.at_ms >= first.at_ms) == (b"two", True)
    assert await logs.read(held.job_id, second.id) == []


async def test_output_over_the_limit_is_cut_with_a_mark(store: Store) -> None:
    """Exactly at the limit nothing is cut; one byte more is."""
    held = await a_running_job(store)
    leases = store.partitions[0].leases

    assert await leases.log("w1", held.token, [("stdout", b"12345")], 10) == "ok"
    assert await leases.log("w1", held.token, [("stdout", b"67890")], 10) == "ok"
    assert await leases.log("w1", held.token, [("stdout", b"x"), ("stdout", b"y")], 10) == "full"
    assert await leases.log("w1", held.token, [("stdout", b"z")], 10) == "full"

    kept = await texts(store, held)
    assert [text for _, _, text in kept[:2]] == [b"12345", b"67890"]
    assert [stream for stream, _, _ in kept[2:]] == ["system"]
    assert b"over 10 bytes" in kept[2][2]


async def test_a_chunk_across_the_limit_is_kept_in_part(store: Store) -> None:
    """Up to the last byte that fits."""
    held = await a_running_job(store)

    assert await store.partitions[0].leases.log("w1", held.token, [("stdout", b"1234567890abc")], 10) == "full"

    assert (await texts(store, held))[0] == ("stdout", 1, b"1234567890")


async def test_a_second_attempt_goes_on_after_the_first(store: Store) -> None:
    """The output of both is there, and can be told apart."""
    worker = Worker(store.partitions[0])
    held = await a_running_job(store)
    await worker.partition.leases.log("w1", held.token, [("stdout", b"first")], 1_000)
    await worker.fail(held, delay_ms=0)
    again = await worker.take()

    await worker.partition.leases.log("w1", again.token, [("stdout", b"second")], 1_000)

    assert await texts(store, held) == [("stdout", 1, b"first"), ("stdout", 2, b"second")]


@pytest.mark.parametrize("fate", ["lost", "done", "stranger"])
async def test_who_does_not_hold_the_job_says_nothing(store: Store, fate: str) -> None:
    """Neither output nor progress of a late or another worker is taken."""
    worker = Worker(store.partitions[0])
    held = await a_running_job(store)
    if fate == "lost":
        await stall(store, held)
        await reap(store)
    elif fate == "done":
        await worker.complete(held)
    name = "w2" if fate == "stranger" else "w1"

    assert await worker.partition.leases.log(name, held.token, [("stdout", b"late")], 1_000) == "stale"
    assert not await worker.partition.leases.progress(name, held.token, 0.9, "late")

    assert await texts(store, held) == []
    assert (await record(store, held.job_id)).progress is None


async def test_progress_is_the_last_that_was_said(store: Store) -> None:
    """A fraction and a note."""
    held = await a_running_job(store)
    leases = store.partitions[0].leases

    assert await leases.progress("w1", held.token, 0.25, "a quarter")
    assert await leases.progress("w1", held.token, 0.1, "x" * 500)

    kept = await record(store, held.job_id)
    assert (kept.progress, kept.progress_note) == (0.1, "x" * 200)


async def test_a_new_attempt_begins_at_nothing(store: Store) -> None:
    """What the last one had reached is not what this one has."""
    worker = Worker(store.partitions[0])
    held = await a_running_job(store)
    await worker.partition.leases.progress("w1", held.token, 0.8, "nearly")
    await worker.fail(held, delay_ms=0)

    await worker.take()

    kept = await record(store, held.job_id)
    assert (kept.progress, kept.progress_note) == (None, None)


async def test_output_sent_twice_is_kept_once(store: Store) -> None:
    """A worker that got no answer sends it again, perhaps with more, perhaps with its last word."""
    held = await a_running_job(store)
    leases = store.partitions[0].leases

    await leases.log("w1", held.token, [("stdout", b"one ", 0)], 1_000)
    await leases.log("w1", held.token, [("stdout", b"one ", 0), ("stdout", b"two ", 4)], 1_000)
    await leases.report("w1", [Ending(*held.token, How.COMPLETED, logs=(("stdout", b"two three", 4),))])

    assert b"".join(text for _, _, text in await texts(store, held)) == b"one two three"


@pytest.mark.parametrize("size", [10, 40_000], ids=["short", "long"])
async def test_the_log_of_an_ended_job_reads_as_before(store: Store, size: int) -> None:
    """A short one is kept in one string, a long one as it was: pages, resumed reads and followers see no difference."""
    held = await a_running_job(store)
    leases, logs, keys = store.partitions[0].leases, store.partitions[0].logs, store.partitions[0].keys
    await logs.follow(held.job_id)
    await leases.log("w1", held.token, [("stdout", b"\xff" * size), ("stderr", b"oh")], 100_000)
    before = await logs.read(held.job_id)

    await leases.report("w1", [Ending(*held.token, How.COMPLETED, logs=(("stdout", b"!" * size),))])

    after = await logs.read(held.job_id)
    assert after[:2] == before
    assert (after[2].stream, after[2].attempt, after[2].text) == ("stdout", 1, b"!" * size)
    assert await logs.read(held.job_id, after[0].id, count=1) == [after[1]]
    assert await logs.read(held.job_id, after[2].id) == []
    assert await logs.up_to(held.job_id, after[1].id, 1) == [after[1]]
    assert await logs.tail(held.job_id, after[1].id) == ([after[2]], True, None)
    assert await logs.tail(held.job_id, after[2].id) == ([], True, None)
    assert await store.redis.exists(keys("log", held.job_id), keys("printed", held.job_id)) == 1
    assert await store.redis.exists(keys("printed", held.job_id)) == (size == 10)


async def test_a_short_log_goes_with_its_job(store: Store) -> None:
    """Nothing is left of it."""
    held = await a_running_job(store)
    await store.partitions[0].leases.log("w1", held.token, [("stdout", b"one")], 1_000)
    await store.partitions[0].leases.report("w1", [Ending(*held.token, How.COMPLETED)])
    assert await texts(store, held) == [("stdout", 1, b"one")]

    await store.delete(held.job_id)

    assert await texts(store, held) == []


async def test_a_mark_stands_between_two_runs_of_one_attempt(store: Store) -> None:
    """What was given back runs again under the same number; a job that printed nothing has no mark."""
    worker = Worker(store.partitions[0])
    held = await a_running_job(store)
    await worker.partition.leases.log("w1", held.token, [("stdout", b"first")], 1_000)
    await worker.partition.leases.report("w1", [Ending(*held.token, How.RELEASED)])
    again = await worker.take()
    await worker.partition.leases.log("w1", again.token, [("stdout", b"second", 0)], 1_000)

    assert await texts(store, held) == [
        ("stdout", 1, b"first"), ("system", 1, GIVEN_BACK), ("stdout", 1, b"second"),
    ]  # fmt: skip

    silent = await a_running_job(store)
    await worker.partition.leases.report("w1", [Ending(*silent.token, How.RELEASED)])
    assert await texts(store, silent) == []


@pytest.mark.parametrize("fate", ["released", "lost", "failed"])
async def test_the_log_of_a_job_is_bounded_however_often_it_runs(store: Store, fate: str) -> None:
    """Give-backs cost no attempt, so the number of attempts bounds nothing.  The newest run is there, whole."""
    home, sizes = store.partitions[0], list[int]()
    held = await a_running_job(store, retry=Retries(max_attempts=100))
    worker = Worker(home)
    for run in range(24):
        piece = b"%02d" % run + b"x" * 899_998
        assert await home.leases.log("w1", held.token, [("stdout", piece), ("stderr", piece)], LOG_BYTES) == "ok"
        kept = b"".join(text for _, _, text in await texts(store, held))
        sizes.append(len(kept))
        assert kept.endswith(piece + piece)
        assert await logged(store, held) >= len(kept)
        if fate == "released":
            await home.leases.report("w1", [Ending(*held.token, How.RELEASED)])
        elif fate == "lost":
            await stall(store, held)
            assert await reap(store) == (1, 0)
        else:
            await worker.fail(held, delay_ms=0)
        held = await worker.take()

    assert max(sizes) < LOG_JOB_BYTES + 2 * LOG_BYTES + 10_000
    marks = [text for stream, _, text in await texts(store, held) if stream == "system" and b"dropped" in text]
    assert len(marks) == 1
    assert (await texts(store, held))[0][2] == marks[0]


async def test_marks_alone_do_not_fill_a_log(store: Store) -> None:
    """Runs that print nothing leave nothing, however many are given back after one that did."""
    home = store.partitions[0]
    held = await a_running_job(store)
    await home.leases.log("w1", held.token, [("stdout", b"first")], 1_000)
    for _ in range(5):
        await home.leases.report("w1", [Ending(*held.token, How.RELEASED)])
        held = await Worker(home).take()

    assert await texts(store, held) == [("stdout", 1, b"first"), ("system", 1, GIVEN_BACK)]


async def test_who_follows_a_log_goes_on_when_it_begins_anew(store: Store) -> None:
    """From the last piece it saw, which is gone: the mark comes, and what the new run prints."""
    home = store.partitions[0]
    held = await a_running_job(store)
    await home.logs.follow(held.job_id)
    for _ in range(8):
        await home.leases.log("w1", held.token, [("stdout", b"x" * LOG_BYTES)], LOG_BYTES)
        seen = await home.logs.tip(held.job_id)
        await home.leases.report("w1", [Ending(*held.token, How.RELEASED)])
        held = await Worker(home).take()
    assert seen is not None
    waiting = asyncio.create_task(home.logs.read(held.job_id, seen, block_ms=10_000))

    [mark] = await asyncio.wait_for(waiting, 10)
    await home.leases.report("w1", [Ending(*held.token, How.COMPLETED, logs=(("stdout", b"last"),))])

    assert b"older output was dropped" in mark.text
    assert await home.logs.tail(held.job_id, mark.id) == ((await home.logs.read(held.job_id))[1:], True, None)
    assert [text for _, _, text in await texts(store, held)] == [mark.text, b"last"]
    size = int(await store.redis.hget(home.keys("job", held.job_id), "size") or 0)
    assert size < 10_000, "retention counts what is gone"


async def test_the_last_word_on_progress_comes_with_the_ending(store: Store) -> None:
    """Who is done before it was shipped still says how far it came."""
    held = await a_running_job(store)

    await store.partitions[0].leases.report("w1", [Ending(*held.token, How.COMPLETED, progress=(1.0, "x" * 300))])

    kept = await record(store, held.job_id)
    assert (kept.status.value, kept.progress, kept.progress_note) == ("COMPLETED", 1.0, "x" * 200)
