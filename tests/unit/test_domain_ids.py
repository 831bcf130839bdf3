"""Job ids: UUIDv7 with a counter and a partition."""

import random
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from threading import Barrier, BrokenBarrierError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskflow_domain import MAX_PARTITIONS, IdFactory, canonical_id, derived_id, ms_of_id, partition_of

NOW_MS = 1_767_323_045_678
# The first 16 hex digits of the seed's SHA-256: three as counter, the others as the random part.
DERIVED_FROM_A = "019b7ca9-8f2e-7ca9-8007-8112ca1bbdca"

partitions = st.integers(0, MAX_PARTITIONS - 1)
milliseconds = st.integers(0, 2**48 - 1)


def stopped() -> int:
    return NOW_MS


def ticking(times_ms: list[int]) -> Callable[[], int]:
    remaining = iter(times_ms)
    return lambda: next(remaining)


def counted(job_id: str) -> str:
    """The part of an id that must rise: time and counter."""
    return job_id[:18]


@given(milliseconds, partitions, st.integers())
def test_an_id_is_a_uuid_7_that_holds_time_and_partition(now_ms: int, partition: int, seed: int) -> None:
    """Python's own UUID reads the version, the variant and the time; we read the partition."""
    job_id = IdFactory(lambda: now_ms, random.Random(seed).getrandbits).new(partition)

    parsed = uuid.UUID(job_id)
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert parsed.int >> 80 == now_ms
    assert str(parsed) == job_id == canonical_id(job_id)
    assert partition_of(job_id) == partition


def test_the_bits_are_where_the_design_puts_them() -> None:
    """48 ms, 4 version, 12 counter, 2 variant, 10 partition, 52 random."""
    factory = IdFactory(lambda: 0x0123456789AB, lambda bits: (1 << bits) - 1)

    assert factory.new(0b10_1010_1010) == "01234567-89ab-7000-aaaf-ffffffffffff"
    assert factory.new(0) == "01234567-89ab-7001-800f-ffffffffffff"


def test_ids_of_one_millisecond_rise() -> None:
    """The counter orders what the clock cannot, and carries into the milliseconds after 4,096."""
    factory = IdFactory(stopped)

    made = [factory.new() for _ in range(5_000)]

    assert all(counted(first) < counted(second) for first, second in pairwise(made))
    assert uuid.UUID(made[4_095]).int >> 80 == NOW_MS
    assert uuid.UUID(made[4_096]).int >> 80 == NOW_MS + 1


@given(st.lists(milliseconds, min_size=2, max_size=20))
def test_ids_rise_whatever_the_clock_does(times_ms: list[int]) -> None:
    """A clock that stands still or steps back repeats nothing."""
    factory = IdFactory(ticking(times_ms))

    made = [factory.new() for _ in times_ms]

    assert all(counted(first) < counted(second) for first, second in pairwise(made))


def test_time_moves_on_after_a_burst() -> None:
    """A clock that overtakes the counter sets the time again."""
    factory = IdFactory(ticking([NOW_MS, NOW_MS + 50]))
    factory.new()

    assert uuid.UUID(factory.new()).int >> 80 == NOW_MS + 50


@given(st.integers(0, 300), partitions)
def test_many_are_as_good_as_one_by_one(count: int, partition: int) -> None:
    """A batch goes on where the last id ended, leaves no gap, and is as long as asked."""
    factory = IdFactory(stopped)

    made = [factory.new(partition), *factory.new_many(count, partition), factory.new(partition)]

    assert len(made) == count + 2
    assert [int(counted(job_id)[-3:], 16) for job_id in made] == list(range(count + 2))
    assert {partition_of(job_id) for job_id in made} == {partition}


def test_a_batch_gives_each_id_randomness_of_its_own() -> None:
    """No two share their random part, and each of its digits takes every value."""
    noise = [job_id[22] + job_id[24:] for job_id in IdFactory(stopped).new_many(1_000)]

    assert len(set(noise)) == 1_000
    assert all(len({digits[place] for digits in noise}) == 16 for place in range(13))


def test_a_batch_larger_than_the_counter_carries() -> None:
    """10,000 ids of one millisecond are 10,000 different, rising ids."""
    made = IdFactory(stopped).new_many(10_000)

    assert len({counted(job_id) for job_id in made}) == 10_000
    assert made == sorted(made)


def test_threads_share_a_factory() -> None:
    """No two threads get the same time and counter."""
    factory = IdFactory(stopped)
    with ThreadPoolExecutor(4) as threads:
        batches = threads.map(lambda _: [factory.new() for _ in range(500)] + factory.new_many(500), range(8))

    made = [counted(job_id) for batch in batches for job_id in batch]
    assert len(set(made)) == len(made) == 8_000


def test_threads_take_turns_with_the_clock() -> None:
    """Between reading the clock and taking the count, no other thread gets in."""
    rendezvous = Barrier(2, timeout=0.1)  # breaks when nobody else comes

    def crowded_clock() -> int:
        with suppress(BrokenBarrierError):
            rendezvous.wait()
        return NOW_MS

    factory = IdFactory(crowded_clock)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(factory.new, [0, 0]))

    assert rendezvous.broken


@pytest.mark.parametrize("partition", [-1, MAX_PARTITIONS])
def test_a_partition_that_does_not_fit_is_refused(partition: int) -> None:
    """Ten bits hold 0 to 1023."""
    factory = IdFactory(stopped)

    for make in (factory.new, lambda n: factory.new_many(2, n), lambda n: derived_id("seed", NOW_MS, n)):
        with pytest.raises(ValueError, match="from 0 to 1023"):
            make(partition)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "not-a-uuid",
        "019b7c3f-0000-7000-8000-00000000000",
        "019b7c3f-0000-7000-8000-0000000000000",
        "019b7c3f-0000-7000-8000-000000000000\n",
        " 019b7c3f-0000-7000-8000-000000000000",
        "019b7c3f000070008000000000000000",
        "{019b7c3f-0000-7000-8000-000000000000}",
        "urn:uuid:019b7c3f-0000-7000-8000-000000000000",
        "019b7c3g-0000-7000-8000-000000000000",
        "٠19b7c3f-0000-7000-8000-000000000000",
    ],
)
def test_what_is_no_uuid_has_no_canonical_form_and_no_partition(text: str) -> None:
    """Other shapes, however close, are simply unknown."""
    assert canonical_id(text) is None
    assert partition_of(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "019b7c3f-0000-4000-8000-000000000000",
        "019b7c3f-0000-7000-0000-000000000000",
        "019b7c3f-0000-7000-c000-000000000000",
        "00000000-0000-0000-0000-000000000000",
    ],
)
def test_a_uuid_of_another_kind_has_a_canonical_form_but_no_partition(text: str) -> None:
    """It is a UUID, but no job can have it."""
    assert canonical_id(text) == text
    assert partition_of(text) is None


def test_upper_case_is_accepted_and_made_canonical() -> None:
    """UUIDs are written in either case; we store one."""
    shouted = "019B7C3F-ABCD-7ABC-8ABC-ABCDEFABCDEF"

    assert canonical_id(shouted) == shouted.lower()
    assert partition_of(shouted) is None
    assert partition_of(shouted.lower()) == 0xAB


@given(st.text(max_size=40))
def test_any_text_can_be_asked_about(text: str) -> None:
    """No text makes these functions fail."""
    assert partition_of(text) is None
    assert canonical_id(text) in (None, text.lower())


@given(st.text(), milliseconds, partitions)
def test_a_derived_id_is_a_job_id_and_always_the_same(seed: str, ms: int, partition: int) -> None:
    """The same seed, time and partition give the same id, and it is well-formed."""
    job_id = derived_id(seed, ms, partition)

    assert derived_id(seed, ms, partition) == job_id
    assert partition_of(job_id) == partition
    assert uuid.UUID(job_id).int >> 80 == ms_of_id(job_id) == ms


def test_derived_ids_differ_by_seed_and_time() -> None:
    """Two schedules that fire together, or one that fires twice, make different jobs, in every release."""
    ids = {derived_id(seed, ms) for seed in ("a", "b") for ms in (NOW_MS, NOW_MS + 1)}

    assert len(ids) == 4
    assert derived_id("a", NOW_MS) == DERIVED_FROM_A


@pytest.mark.parametrize("ms", [-1, 2**48])
def test_a_derived_id_needs_a_time_that_fits(ms: int) -> None:
    """48 bits of milliseconds, unsigned."""
    with pytest.raises(ValueError, match="milliseconds"):
        derived_id("seed", ms)
