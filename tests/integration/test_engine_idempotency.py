"""Idempotency keys: the first claim of a key wins, and a client that died in between finds its job again."""

import asyncio

from taskflow_streams import Claim, Store, Submitted
from taskflow_streams.keys import control_keys
from tests.support.engine import new_job


async def test_the_first_claim_wins(store: Store) -> None:
    """Everyone who comes later is told its id."""
    first, second = store.new_id(), store.new_id()

    assert await store.claim([("order-1", first, "body")]) == [Claim(first, "body", first=True)]
    assert await store.claim([("order-1", second, "body")]) == [Claim(first, "body", first=False)]
    assert await store.claim([("order-2", second, "body")]) == [Claim(second, "body", first=True)]


async def test_of_many_at_once_one_is_first(store: Store) -> None:
    """And all submit the same job, once."""
    jobs = [new_job(store, has_key=True) for _ in range(20)]

    claims = await asyncio.gather(*(store.claim([("order-1", job.id, "body")]) for job in jobs))
    [job_id] = {claim.job_id for [claim] in claims}
    words = [(await store.submit([new_job(store, id=job_id, has_key=True)]))[0] for _ in jobs]

    assert sum(claim.first for [claim] in claims) == 1
    assert words == [Submitted.CREATED] + [Submitted.EXISTING] * 19


async def test_a_clash_in_a_batch_claims_nothing(store: Store) -> None:
    """Another body under a known key: the caller is told whose it is, and the other keys stay free."""
    first, second, third = store.new_id(), store.new_id(), store.new_id()
    await store.claim([("a", first, "body")])

    clash = await store.claim([("b", second, "new"), ("a", third, "other body")])

    assert clash[1] == Claim(first, "body", first=False)
    assert not clash[0].first
    assert await store.claim([("b", third, "new")]) == [Claim(third, "new", first=True)]


async def test_the_same_key_twice_in_a_batch(store: Store) -> None:
    """The second is a repetition of the first."""
    first, second = store.new_id(), store.new_id()

    assert await store.claim([("a", first, "body"), ("a", second, "body")]) == [
        Claim(first, "body", first=True),
        Claim(first, "body", first=False),
    ]


async def test_a_refused_job_gives_its_key_back(store: Store) -> None:
    """But never one that has been tied to another job since."""
    first, second = store.new_id(), store.new_id()
    await store.claim([("a", first, "body")])
    await store.unclaim([("a", second)])
    assert (await store.claim([("a", second, "body")]))[0].job_id == first

    await store.unclaim([("a", first), ("never", first)])

    assert (await store.claim([("a", second, "body")]))[0].job_id == second


async def test_keys_expire(store: Store) -> None:
    """A week, not for ever; and any text will do as a key."""
    await store.claim([("ключ {x} \n" * 50, store.new_id(), "body")])

    prefix = next(iter(await store.redis.keys("*claim:*"))).decode()
    assert prefix.startswith(control_keys(prefix.split(":")[0])("claim"))
    assert 0 < await store.redis.pttl(prefix) <= 7 * 24 * 3600 * 1000
