"""Cron: schedules are taken a moment before their time, fired in it, and neither faults nor neighbours hold them up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any
from unittest.mock import patch

import pytest
from structlog.testing import capture_logs

from taskflow_cron import tick
from taskflow_cron.tick import Ticked, Ticker
from taskflow_domain import Fire, Overlap, What
from taskflow_domain.changing import redefined, resumed
from taskflow_streams import Full, NewJob, Store, Submitted, Unavailable, Write, Written
from taskflow_streams.embedded import EmbeddedServer
from tests.support.engine import START_MS, Clock, record
from tests.support.schedules import a_schedule, apply, birth, births, definition, fired, notes, pause, reread
from tests.support.working import PATIENCE_S, until

MADE_MS = START_MS + 30_000
FIRST_MS = START_MS + 60_000  # when a schedule of each minute fires that was made then
MINUTE_MS = 60_000
HOLD_S = 3.0
NEVER_MS = 25_000  # a sleep that no test lives to see


@pytest.fixture
def clock(store: Store) -> Clock:
    """The store's time, half a minute before the first fire."""
    return Clock(store, MADE_MS)


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[tuple[EmbeddedServer, Store]]:
    """A durable server that belongs to this test alone, and a store on it."""
    with EmbeddedServer(tmp_path) as server:
        store = await Store.connect(server.url)
        yield server, store
        await store.close()


def a_ticker(store: Store) -> Ticker:
    """A replica of cron."""
    return Ticker(store, 5, HOLD_S)


async def works(ticker: Ticker) -> Ticked:
    """It settles until there is nothing to do now; what it did."""
    done = fired = skipped = 0
    wait_ms = 0
    while not wait_ms:
        ticked, wait_ms = await ticker.settle()
        fired, skipped, done = fired + ticked.fired, skipped + ticked.skipped, done + 1
        assert done < 1000, "there is no end to it"
    return Ticked(fired, skipped)


# In its time ----------------------------------------------------------------------------------------------------------


async def test_a_schedule_is_fired_in_its_time_and_not_before(store: Store, clock: Clock) -> None:
    """It is read a moment earlier, and then only looked at whether it is what it was."""
    one, ticker = await a_schedule(store), a_ticker(store)
    assert await ticker.settle() == (Ticked(), FIRST_MS - MADE_MS - tick.AHEAD_MS)

    clock.at(FIRST_MS - tick.AHEAD_MS)
    assert await ticker.settle() == (Ticked(), tick.AHEAD_MS)
    clock.at(FIRST_MS - 1)
    assert await ticker.settle() == (Ticked(), 1)
    assert await births(store) == {}
    clock.at(FIRST_MS)
    assert await ticker.settle() == (Ticked(fired=1), 0)

    assert await ticker.settle() == (Ticked(), MINUTE_MS - tick.AHEAD_MS)
    [run] = await births(store)
    assert (run, await fired(store, one)) == (one.schedule.run_id(Fire(FIRST_MS)), [FIRST_MS])


async def test_a_schedule_that_was_changed_since_it_was_read_is_read_again(store: Store, clock: Clock) -> None:
    """Paused, deleted, with other times, or poked: what counts is how it is when its time has come."""
    paused, deleted, later, poked, same = [await a_schedule(store) for _ in range(5)]
    ticker = a_ticker(store)
    clock.at(FIRST_MS - 50)
    await ticker.settle()

    await pause(store, paused)
    await store.schedules.delete(deleted.id)
    hourly = definition(later.id, later.schedule.anchor_ms, cron="0 * * * *")
    progress, _ = redefined(later.schedule, hourly.schedule, later.progress, clock.now_ms)
    write = Write(later.id, later.rev, progress.due_ms, progress, hourly)
    assert await store.schedules.write([write]) == [Written.OK]
    await store.schedules.poke([poked.id])
    clock.at(FIRST_MS)

    assert await works(ticker) == Ticked(fired=2)
    assert set(await births(store)) == {one.schedule.run_id(Fire(FIRST_MS)) for one in (poked, same)}
    assert [note.what for note in await notes(store, paused)] == [What.PAUSED]


async def test_all_that_are_due_are_fired_however_many(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than are given at once; they come in several passes, without a pause between them."""
    monkeypatch.setattr(tick, "TAKE", 30)
    made = [birth(store, clock.now_ms) for _ in range(100)]
    await store.schedules.write(made)
    ticker = a_ticker(store)
    clock.at(FIRST_MS + 20)

    assert await works(ticker) == Ticked(fired=100)

    assert set((await births(store)).values()) == {1}
    assert len(await births(store)) == 100


async def test_what_was_missed_does_not_hold_up_what_comes_in_its_time(store: Store, clock: Clock) -> None:
    """After a downtime there may be much to count; schedules are settled a few at a time, and all others at once."""
    missed = [birth(store, clock.now_ms) for _ in range(50)]
    await store.schedules.write(missed)
    clock.forward(86_400)
    fresh = [await a_schedule(store, start_ms=clock.now_ms, interval_ms=MINUTE_MS) for _ in range(3)]
    ticker = a_ticker(store)

    ticked, wait_ms = await ticker.settle()
    assert (ticked.fired, wait_ms) == (3, 0)
    assert [len(await notes(store, one)) for one in fresh] == [1, 1, 1]
    assert sum([bool(await notes(store, one)) for one in missed]) == tick.MISSED

    await works(ticker)
    assert [len(await fired(store, one)) for one in missed] == [5] * 50


async def test_schedules_fire_in_all_partitions(wide_store: Store) -> None:
    """Those of a partition live there."""
    store, clock = wide_store, Clock(wide_store, MADE_MS)
    made = [await a_schedule(store, partition=i % 4) for i in range(20)]
    clock.at(FIRST_MS)

    assert await works(a_ticker(store)) == Ticked(fired=20)

    for one in made:
        run = one.schedule.run_id(Fire(FIRST_MS))
        assert (await record(store, run)).schedule_id == one.id
        assert await fired(store, one) == [FIRST_MS]


async def test_the_clock_may_leap(store: Store, clock: Clock) -> None:
    """Back: no time is fired again.  Ahead: what lies between counts as missed."""
    one, ticker = await a_schedule(store, catchup_limit=1), a_ticker(store)
    clock.at(FIRST_MS)
    await works(ticker)

    clock.at(FIRST_MS - 50)
    assert await works(ticker) == Ticked()
    clock.at(FIRST_MS)
    assert await works(ticker) == Ticked()
    clock.at(FIRST_MS + 10 * MINUTE_MS + 30_000)
    assert await works(ticker) == Ticked(fired=1, skipped=9)

    assert await fired(store, one) == [FIRST_MS, FIRST_MS + 10 * MINUTE_MS]


# Asleep and awake -----------------------------------------------------------------------------------------------------


async def test_it_sleeps_until_the_next_is_due(store: Store) -> None:
    """It does not look again and again meanwhile."""
    now_ms = await store.now_ms()
    await store.schedules.write([birth(store, now_ms, interval_ms=MINUTE_MS, start_ms=now_ms + 1500)])
    ticker, passes = a_ticker(store), 0

    while not (await ticker.run_once()).fired:
        passes += 1

    assert passes <= 8  # until it is read, until it is due; a second in between, and timers that are a little early
    await ticker.close()


async def test_it_is_woken_by_a_change(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule that is due sooner than all it knew, one that goes on, and a run whose end is waited for."""
    monkeypatch.setattr(tick, "LONGEST_SLEEP_MS", NEVER_MS)
    monkeypatch.setattr(tick, "LONGEST_BLOCK_MS", NEVER_MS)
    far = await a_schedule(store, cron="0 0 1 1 *")
    resting = await a_schedule(store, interval_ms=1000)
    await pause(store, resting)
    ticker = a_ticker(store)

    async def wakes(change: Callable[[], Awaitable[object]]) -> None:
        """A change ends a sleep that is under way."""
        asleep = asyncio.create_task(ticker.run_once())
        await until(lambda: _listens(ticker), "a ticker that sleeps")
        await change()
        await asyncio.wait_for(asleep, PATIENCE_S)

    async def resume() -> None:
        now, now_ms = await reread(store, resting), await store.now_ms()
        assert await apply(store, now, *resumed(now.schedule, now.progress, now_ms), now_ms)

    await wakes(lambda: a_schedule(store, cron="0 0 1 1 *", zone="Asia/Tokyo"))
    await wakes(lambda: store.schedules.poke([far.id]))
    await ticker.settle()  # what it was poked for
    await wakes(resume)
    while not (await ticker.run_once()).fired:
        pass
    assert await fired(store, resting)
    await ticker.close()


async def _listens(ticker: Ticker) -> bool:
    return ticker._listening._task is not None


async def test_an_idle_pass_is_one_call(store: Store, clock: Clock) -> None:
    """However many schedules there are; and there is one pass in a second."""
    made = [birth(store, clock.now_ms, cron="0 0 1 1 *") for _ in range(2000)]
    await store.schedules.write(made)
    ticker = a_ticker(store)
    await ticker.settle()
    await store.redis.config_resetstat()

    for _ in range(10):
        ticked, wait_ms = await ticker.settle()
        assert ticked == Ticked()
        assert wait_ms >= 1000

    stats = await store.redis.info("commandstats")
    calls = {name.removeprefix("cmdstat_").partition("|")[0]: row["calls"] for name, row in stats.items()}
    assert calls == {"evalsha": 10, "zrangebyscore": 10, "zrange": 10} | {"config": calls.get("config", 1)}
    begun = monotonic()
    await ticker.run_once()
    assert monotonic() - begun > 0.9
    await ticker.close()


# Several of them ------------------------------------------------------------------------------------------------------


async def test_replicas_share_the_schedules(store: Store, clock: Clock) -> None:
    """Each is fired by one of them; the others have less to do."""
    await store.schedules.write([birth(store, clock.now_ms) for _ in range(90)])
    replicas = [a_ticker(store) for _ in range(3)]
    with patch.object(tick, "TAKE", 30):
        clock.at(FIRST_MS - 50)
        await asyncio.gather(*(replica.settle() for replica in replicas))
        clock.at(FIRST_MS)
        did = await asyncio.gather(*map(works, replicas))

    assert sum(one.fired for one in did) == 90
    assert max(one.fired for one in did) < 90
    assert set((await births(store)).values()) == {1}


async def test_what_a_dead_replica_had_in_hand_is_fired_by_another(store: Store, clock: Clock) -> None:
    """When it has held it for so long."""
    one, dead, other = await a_schedule(store), a_ticker(store), a_ticker(store)
    clock.at(FIRST_MS - 100)
    await dead.settle()

    clock.at(FIRST_MS)
    assert await works(other) == Ticked()
    clock.at(FIRST_MS + int(HOLD_S * 1000))
    assert await works(other) == Ticked(fired=1)

    assert await works(dead) == Ticked()  # it was only asleep
    assert await fired(store, one) == [FIRST_MS]


async def test_what_a_replica_has_in_hand_when_it_stops_is_left_to_others_at_once(store: Store, clock: Clock) -> None:
    """Nobody waits for its hold to run out, and somebody who sleeps is woken."""
    one, stopped, other = await a_schedule(store), a_ticker(store), a_ticker(store)
    clock.at(FIRST_MS - 100)
    await stopped.settle()
    heard = await store.schedules.last_alarm()
    clock.forward(0.05)

    await stopped.close()

    assert await store.schedules.last_alarm() != heard
    assert (await reread(store, one)).updated_ms == one.updated_ms
    clock.at(FIRST_MS)
    assert await works(other) == Ticked(fired=1)


# Faults ---------------------------------------------------------------------------------------------------------------


def failing(logs: list[Any]) -> list[str]:
    """Which schedules were logged as failing."""
    return [line["schedule"] for line in logs if line["event"] == "schedule.failed"]


async def test_a_record_that_cannot_be_read_holds_up_no_others(store: Store, clock: Clock) -> None:
    """Such as one of a later version.  It is told once, looked at now and then, and fired when it can be read."""
    made = [await a_schedule(store) for _ in range(10)]
    key = store._control("schedule", made[3].id)
    progress = await store.redis.hget(key, "progress")
    await store.redis.hset(key, "progress", b"\xc1")
    with capture_logs() as logs:
        ticker = a_ticker(store)
        clock.at(FIRST_MS)

        assert await works(ticker) == Ticked(fired=9)
        for _ in range(3):
            clock.forward(HOLD_S)
            assert await works(ticker) == Ticked()
        assert failing(logs) == [made[3].id]

        await store.redis.hset(key, "progress", progress)
        clock.forward(HOLD_S)
        assert await works(ticker) == Ticked(fired=1)
    assert await fired(store, made[3]) == [FIRST_MS]


async def test_a_schedule_whose_run_cannot_be_started_holds_up_no_others(store: Store, clock: Clock) -> None:
    """Whatever the engine has against it.  It is told once, tried again now and then, and nothing of it is lost."""
    made = [await a_schedule(store) for _ in range(50)]
    bad, submit = {made[7].id, made[8].id, made[33].id}, store.submit

    async def refuse(jobs: list[NewJob]) -> list[Submitted]:
        if any(job.schedule_id in bad for job in jobs):
            raise TypeError("no such thing")
        return await submit(jobs)

    with capture_logs() as logs, patch.object(store, "submit", refuse):
        ticker = a_ticker(store)
        clock.at(FIRST_MS)
        assert await works(ticker) == Ticked(fired=47)
        clock.forward(HOLD_S)
        assert await works(ticker) == Ticked()
        clock.at(FIRST_MS + MINUTE_MS)
        assert await works(ticker) == Ticked(fired=47)
        assert sorted(failing(logs)) == sorted(bad)

        bad.clear()
        clock.forward(HOLD_S)
        assert (await works(ticker)).fired == 6

    for one in made:
        assert await fired(store, one) == [FIRST_MS, FIRST_MS + MINUTE_MS]
    assert set((await births(store)).values()) == {1}


async def test_a_schedule_of_a_partition_that_is_not_known_yet_holds_up_no_others(store: Store, clock: Clock) -> None:
    """It was made when this replica had started already; a new one knows the partition."""
    fine, far = await a_schedule(store), await a_schedule(store, partition=3)
    ticker = a_ticker(store)
    clock.at(FIRST_MS)

    assert await works(ticker) == Ticked(fired=1)

    assert (await fired(store, fine), await fired(store, far)) == ([FIRST_MS], [])
    assert (await reread(store, far)) == far


async def test_an_answer_that_is_lost_costs_nothing(store: Store, clock: Clock) -> None:
    """Of what starts the runs, or of what writes them down: no time is lost, none is fired twice."""
    made, ticker = [await a_schedule(store) for _ in range(5)], a_ticker(store)
    clock.at(FIRST_MS)
    for place, name in ((store, "submit"), (store.schedules, "write")):
        call = getattr(place, name)

        async def cut(rows: Any, call: Any = call) -> Any:
            await call(rows)
            raise Unavailable("the connection was cut")

        with patch.object(place, name, cut), pytest.raises(Unavailable):
            await ticker.settle()

    assert await works(ticker) == Ticked()

    for one in made:
        assert await fired(store, one) == [FIRST_MS]
    assert list((await births(store)).values()) == [1] * 5


async def test_after_an_outage_it_goes_on_where_it_was(own: tuple[EmbeddedServer, Store]) -> None:
    """What it had in hand is fired at once, although it is still held; its sleep is cut short by the outage."""
    server, store = own
    clock, ticker = Clock(store, MADE_MS), a_ticker(store)
    one = await a_schedule(store)
    clock.at(FIRST_MS - tick.AHEAD_MS + 50)
    await ticker.settle()
    server.kill()
    for _ in range(2):
        with pytest.raises(Unavailable):
            await ticker.run_once()

    clock.at(FIRST_MS + 200)
    server.start()

    assert await works(ticker) == Ticked(fired=1)
    assert await fired(store, one) == [FIRST_MS]
    asleep = asyncio.create_task(ticker.run_once())
    await until(lambda: _listens(ticker), "a ticker that sleeps")
    server.kill()
    with pytest.raises(Unavailable):
        await asyncio.wait_for(asleep, PATIENCE_S)
    server.start()
    clock.at(FIRST_MS + MINUTE_MS)
    assert await works(ticker) == Ticked(fired=1)
    await ticker.close()


async def test_a_full_server_is_waited_for(own: tuple[EmbeddedServer, Store]) -> None:
    """No schedule goes on without its run; when there is room again, all are fired, once."""
    _, store = own
    clock, ticker = Clock(store, MADE_MS), a_ticker(store)
    made = [await a_schedule(store, overlap=overlap) for overlap in Overlap]
    used, _ = await store.memory()
    await store.redis.config_set("maxmemory", used - 1)
    clock.at(FIRST_MS)

    for _ in range(3):
        with pytest.raises(Full):
            await ticker.settle()
        clock.forward(1)
    assert [await reread(store, one) for one in made] == made
    await store.redis.config_set("maxmemory", 0)

    assert await works(ticker) == Ticked(fired=len(made))
    for one in made:
        assert await fired(store, one) == [FIRST_MS]
    assert set((await births(store)).values()) == {1}


async def test_a_server_that_lost_everything_is_served_all_the_same(own: tuple[EmbeddedServer, Store]) -> None:
    """What was in hand is gone; what is made afterwards is fired."""
    _, store = own
    clock, ticker = Clock(store, MADE_MS), a_ticker(store)
    await a_schedule(store)
    clock.at(FIRST_MS - 50)
    await ticker.settle()

    await store.redis.flushall()
    one = await a_schedule(store)
    clock.at(FIRST_MS)

    assert await works(ticker) == Ticked(fired=1)
    assert await fired(store, one) == [FIRST_MS]
    assert len(await births(store)) == 1
