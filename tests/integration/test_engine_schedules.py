"""Schedules in Redis: changed only from what was seen, given to one taker at a time, and gone without a trace."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from taskflow_domain import (
    Backfill,
    BackoffStrategy,
    Fire,
    Note,
    Origin,
    Overlap,
    Pause,
    Retries,
    What,
    partition_of,
)
from taskflow_streams import Firing, ScheduleRecord, Store, Write, Written, schedules
from tests.support.engine import START_MS, Clock, a_job, a_worker, record, settle
from tests.support.picture import take_control
from tests.support.schedules import a_schedule, before_write, birth, lines, notes, pause, reread
from tests.support.working import PATIENCE_S, until

MADE_MS = START_MS + 30_000
FIRST_MS = START_MS + 60_000  # when a schedule of each minute fires that was made then
HOLD_MS = 3_000


@pytest.fixture
def clock(store: Store) -> Clock:
    """The store's time, half a minute before the first fire."""
    return Clock(store, MADE_MS)


async def taken(store: Store, limit: int = 100, hold_ms: int = HOLD_MS, ahead_ms: int = 0) -> list[str]:
    """The ids of the schedules that somebody is given who asks now."""
    return [one.id for _, one in (await store.schedules.take(limit, hold_ms, ahead_ms)).records]


async def rewrite(store: Store, one: ScheduleRecord, **change: Any) -> Written:
    """Change a schedule from the revision in hand."""
    write = Write(one.id, one.rev, one.progress.due_ms, **change)
    [word] = await store.schedules.write([write])
    return word


# Records --------------------------------------------------------------------------------------------------------------


async def test_a_schedule_is_read_as_it_was_written(store: Store, clock: Clock) -> None:
    """Whatever its definition and its progress hold."""
    retry = Retries(
        max_attempts=50,
        backoff_strategy=BackoffStrategy.FIXED,
        base_delay_seconds=2,
        max_delay_seconds=3,
        jitter=0.25,
    )
    template = {
        "payload": b'{"a":"\xc3\xa4"}',
        "order": -7,
        "type": "shell",
        "retry": retry,
        "ttl_ms": 9,
        "owner": "me",
    }
    write = birth(
        store, clock.now_ms, "nightly", template=template, interval_ms=5_000, zone="Europe/Berlin",
        start_ms=START_MS + 1, end_ms=START_MS * 2, jitter_ms=7, overlap=Overlap.BUFFER_ALL, catchup_limit=3,
        catchup_window_ms=8, max_runs=9,
    )  # fmt: skip
    assert write.progress is not None
    assert write.definition is not None
    progress = replace(
        write.progress,
        runs=4,
        pause=Pause(START_MS, "ill"),
        active=("a", "b"),
        waiting=(Fire(1, Origin.TRIGGER, "k", Overlap.SKIP), Fire(2)),
        backfills=(Backfill(1, 2, Overlap.ALLOW, "x"),),
        last_ms=5,
        last_run="r",
    )
    made = replace(write.definition, body=b'{"cron":1}', owner="you")

    assert await store.schedules.write([replace(write, progress=progress, definition=made)]) == [Written.OK]

    expected = ScheduleRecord(write.id, 1, made, progress, "nightly", clock.now_ms, clock.now_ms)
    assert await reread(store, write) == expected
    assert await store.schedules.find(write.id) == await store.schedules.find("nightly") == expected
    assert await store.schedules.find("weekly") is None
    assert await store.schedules.get([write.id, "nobody"]) == [expected, None]


async def test_a_change_is_made_only_from_the_revision_that_was_seen(store: Store, clock: Clock) -> None:
    """Of two that saw the same, the first succeeds; the second is told so, and nothing of its change is there."""
    seen = await a_schedule(store)
    clock.forward(1)
    first = replace(seen.progress, runs=1)

    assert await rewrite(store, seen, progress=first) is Written.OK
    late = Write(seen.id, seen.rev, None, replace(first, runs=7), name="x", notes=[Note(What.UPDATED)])
    assert await store.schedules.write([late]) == [Written.CHANGED]

    now = await reread(store, seen)
    assert (now.rev, now.progress, now.name, now.updated_ms) == (seen.rev + 1, first, None, clock.now_ms)
    assert now.created_ms == MADE_MS
    assert await lines(store, seen) == []
    assert (await take_control(store)).zsets["schedules"][""] == {seen.id: seen.progress.due_ms}


async def test_what_does_not_exist_is_not_changed_and_what_exists_is_not_made(store: Store, clock: Clock) -> None:
    """Each of a batch by itself."""
    there = await a_schedule(store)
    new = birth(store, clock.now_ms)
    writes = [
        replace(new, rev=3),
        Write(there.id, 0, None, there.progress, there.definition),
        new,
        replace(new, name="again"),
    ]

    words = await store.schedules.write(writes)

    assert words == [Written.MISSING, Written.EXISTING, Written.OK, Written.EXISTING]
    assert await reread(store, there) == there
    assert await store.schedules.write([]) == []


async def test_no_more_are_made_than_there_may_be(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one too many is refused; the others can still be changed, and one that is deleted makes room."""
    monkeypatch.setattr(schedules, "MOST_SCHEDULES", 2)
    writes = [birth(store, clock.now_ms) for _ in range(3)]

    assert await store.schedules.write(writes) == [Written.OK, Written.OK, Written.FULL]
    assert await rewrite(store, await reread(store, writes[0])) is Written.OK
    await store.schedules.delete(writes[0].id)

    assert await store.schedules.write(writes[2:]) == [Written.OK]
    assert await store.schedules.count() == 2


async def test_a_name_belongs_to_one_schedule(store: Store, clock: Clock) -> None:
    """Another is refused it, as a new one and by a change, until the first has another name, none, or is gone."""
    a = await a_schedule(store, "a")
    b = await a_schedule(store)
    assert await store.schedules.write([birth(store, clock.now_ms, "a")]) == [Written.TAKEN]
    assert await rewrite(store, b, name="a") is Written.TAKEN
    assert (await reread(store, b)).rev == b.rev

    assert await rewrite(store, a, name="other") is Written.OK
    assert await rewrite(store, b, name="a") is Written.OK
    assert await store.schedules.find("a") == await reread(store, b)
    assert await rewrite(store, await reread(store, b), name="a") is Written.OK  # its own
    assert await rewrite(store, await reread(store, a), name="") is Written.OK
    assert (await reread(store, a)).name is None
    await store.schedules.delete(b.id)

    words = await store.schedules.write([birth(store, clock.now_ms, "a"), birth(store, clock.now_ms, "other")])
    assert words == [Written.OK, Written.OK]


async def test_a_name_stays_when_a_change_does_not_speak_of_it(store: Store, clock: Clock) -> None:
    """So does the definition."""
    one = await a_schedule(store, "a")

    assert await rewrite(store, one, progress=replace(one.progress, runs=1)) is Written.OK

    now = await reread(store, one)
    assert (now.name, now.definition) == ("a", one.definition)


async def test_a_deleted_schedule_leaves_no_trace(store: Store, clock: Clock) -> None:
    """Neither its name, nor its history, nor its place among those to be looked at; but a mark, which expires."""
    one = await a_schedule(store, "a")
    await rewrite(store, one, notes=[Note(What.UPDATED)])

    assert await store.schedules.delete(one.id)
    assert not await store.schedules.delete(one.id)

    assert (await take_control(store)).names <= {"meta", "alarm", "gone"}
    assert await store.schedules.find("a") is None
    assert await store.schedules.unchanged([one]) == []
    assert await rewrite(store, one) is Written.MISSING
    clock.forward(3600)
    assert await taken(store) == []


async def test_a_deleted_schedule_is_not_made_again_by_a_late_request(store: Store, clock: Clock) -> None:
    """The request that made it may come a second time, long after."""
    write = birth(store, clock.now_ms)
    assert await store.schedules.write([write]) == [Written.OK]
    assert await store.schedules.delete(write.id)

    assert await store.schedules.write([write]) == [Written.GONE]
    assert await store.schedules.count() == 0


# Lists ----------------------------------------------------------------------------------------------------------------


async def test_ids_come_page_by_page_the_newest_first(store: Store, clock: Clock) -> None:
    """Also when many were made in the same moment, and when some are deleted between two pages."""
    made = []
    for count in (1, 7, 1, 5):
        made += [birth(store, clock.now_ms) for _ in range(count)]
        clock.forward(1)
    await store.schedules.write(made)
    expected = sorted(((one.created_ms, one.id) for one in made), reverse=True)

    for size in (1, 2, 3, 7, 14, 100):
        pages = [await store.schedules.ids(count=size)]
        while pages[-1]:
            pages.append(await store.schedules.ids(pages[-1][-1], count=size))
        assert [place for page in pages for place in page] == expected
        assert all(len(page) == size for page in pages[:-2])

    first = await store.schedules.ids(count=4)
    await store.schedules.delete(first[-1][1])
    assert await store.schedules.ids(first[-1], count=100) == expected[4:]


async def test_history_tells_what_happened_the_newest_first(store: Store, clock: Clock) -> None:
    """In pages; and nothing of it is mistaken."""
    one = await a_schedule(store)
    told = [
        Note(What.SKIPPED, 1, Origin.SCHEDULE, "catchup_limit", None, 9, None),
        Note(What.FIRED, 2, Origin.TRIGGER, run="r"),
        Note(What.PAUSED, why="schön"),
        Note(What.ENDED, why="max_runs"),
    ]
    await rewrite(store, one, notes=told[:2])
    clock.forward(5)
    await rewrite(store, await reread(store, one), notes=told[2:])

    found = await store.schedules.history(one.id)

    assert [line.note for line in found] == told[::-1]
    assert [line.at_ms for line in found] == [MADE_MS + 5_000] * 2 + [MADE_MS] * 2
    assert await store.schedules.history(one.id, count=1) == found[:1]
    assert await store.schedules.history(one.id, before=found[0].id, count=2) == found[1:3]
    assert await store.schedules.history(one.id, before=found[-1].id) == []


async def test_history_keeps_the_last_lines(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there were: at least as many as are promised, and not many more."""
    monkeypatch.setattr(schedules, "HISTORY_LINES", 50)
    one = await a_schedule(store)

    for at in range(0, 400, 40):
        batch = [Note(What.FIRED, fire_ms) for fire_ms in range(at, at + 40)]
        await rewrite(store, await reread(store, one), notes=batch)

    left = [note.fire_ms for note in await notes(store, one)]
    assert left == list(range(400 - len(left), 400))
    assert 50 <= len(left) <= 150


# Who looks at them ----------------------------------------------------------------------------------------------------


async def test_a_schedule_is_given_when_its_time_has_come(store: Store, clock: Clock) -> None:
    """Not a millisecond before; and who asks is told how long that is."""
    nothing = await store.schedules.take(10, HOLD_MS)
    assert (nothing.now_ms, nothing.records, nothing.wait_ms) == (MADE_MS, [], None)
    one = await a_schedule(store)

    clock.at(FIRST_MS - 1)
    early = await store.schedules.take(10, HOLD_MS)
    assert (early.now_ms, early.records, early.wait_ms) == (FIRST_MS - 1, [], 1)

    clock.at(FIRST_MS)
    found = await store.schedules.take(10, HOLD_MS)
    assert (found.now_ms, found.records, found.wait_ms) == (FIRST_MS, [(FIRST_MS, one)], HOLD_MS)


async def test_a_schedule_is_given_to_one_taker_until_his_time_is_over(store: Store, clock: Clock) -> None:
    """Then to another: the first may be dead."""
    one = await a_schedule(store)
    clock.at(FIRST_MS + 500)

    assert await taken(store) == [one.id]
    assert await taken(store) == []
    clock.at(FIRST_MS + 500 + HOLD_MS - 1)
    assert await taken(store) == []
    clock.at(FIRST_MS + 500 + HOLD_MS)
    assert await taken(store) == [one.id]


async def test_those_of_the_next_moment_are_given_ahead_of_time(store: Store, clock: Clock) -> None:
    """With the time at which they are to be looked at; the hold counts from then."""
    one = await a_schedule(store)
    clock.at(FIRST_MS - 101)
    assert (await store.schedules.take(10, HOLD_MS, ahead_ms=100)).wait_ms == 1
    clock.at(FIRST_MS - 100)

    found = await store.schedules.take(10, HOLD_MS, ahead_ms=100)

    assert (found.now_ms, found.records) == (FIRST_MS - 100, [(FIRST_MS, one)])
    assert found.wait_ms == HOLD_MS
    clock.at(FIRST_MS + HOLD_MS - 101)
    assert await taken(store, ahead_ms=100) == []
    clock.at(FIRST_MS + HOLD_MS - 100)
    assert await taken(store, ahead_ms=100) == [one.id]


async def test_at_most_so_many_are_given_the_earliest_first(store: Store, clock: Clock) -> None:
    """And who asks is told that there are more."""
    late, early, later = [await a_schedule(store, cron=cron) for cron in ("2 * * * *", "1 * * * *", "3 * * * *")]
    clock.at(FIRST_MS + 600_000)

    found = await store.schedules.take(2, HOLD_MS)

    assert [one.id for _, one in found.records] == [early.id, late.id]
    assert found.wait_ms == 0
    assert await taken(store, limit=2) == [later.id]


async def test_many_takers_at_once_share_the_schedules(store: Store, clock: Clock) -> None:
    """Each is given to exactly one of them."""
    made = [birth(store, clock.now_ms) for _ in range(100)]
    await store.schedules.write(made)
    clock.at(FIRST_MS)

    shares = await asyncio.gather(*(taken(store, limit=7) for _ in range(20)))

    assert sorted(one for share in shares for one in share) == sorted(one.id for one in made)


async def test_a_change_ends_the_hold(store: Store, clock: Clock) -> None:
    """What is to be done about a changed schedule does not wait for the one who took the old."""
    one = await a_schedule(store)
    clock.at(FIRST_MS)
    await taken(store)

    await store.schedules.write([Write(one.id, one.rev, FIRST_MS)])

    assert await taken(store) == [one.id]


async def test_a_schedule_with_nothing_to_do_is_not_looked_at(store: Store, clock: Clock) -> None:
    """A paused one; it costs nothing."""
    one = await a_schedule(store)
    await pause(store, one)
    clock.forward(3600)

    found = await store.schedules.take(10, HOLD_MS)

    assert (found.records, found.wait_ms) == ([], None)


async def test_what_somebody_has_in_hand_can_be_asked_for_changes(store: Store, clock: Clock) -> None:
    """Only those that are what they were are named."""
    same, changed, poked, deleted = [await a_schedule(store) for _ in range(4)]
    await rewrite(store, changed)
    await store.schedules.poke([poked.id])
    await store.schedules.delete(deleted.id)

    assert await store.schedules.unchanged([deleted, same, changed, poked]) == [same]
    assert await store.schedules.unchanged([]) == []


# Pokes and alarms -----------------------------------------------------------------------------------------------------


async def test_a_poke_makes_somebody_look(store: Store, clock: Clock) -> None:
    """At once, and although another has taken it; what does not exist is passed over."""
    one = await a_schedule(store)
    clock.at(FIRST_MS)
    await taken(store)

    await store.schedules.poke({one.id, "nobody"})
    await store.schedules.poke(set())

    assert await taken(store) == [one.id]
    assert (await reread(store, one)).rev == one.rev + 1
    assert (await take_control(store)).hashes["schedule"].keys() == {one.id}


async def test_a_settler_in_the_middle_looks_again_after_a_poke(store: Store, clock: Clock) -> None:
    """The run ended before the settler could say that it has begun: the poke must not be lost."""
    one = await a_schedule(store, overlap=Overlap.BUFFER_ONE)
    clock.at(FIRST_MS)
    await taken(store)

    with before_write(store, lambda: store.schedules.poke([one.id])):
        [settled] = await Firing(store, 5).settle([one], clock.now_ms)

    assert settled.word is Written.CHANGED
    assert settled.notes == ()
    assert await taken(store) == [one.id]
    assert await notes(store, one) == []


async def test_the_end_of_a_run_that_is_waited_for_pokes_its_schedule(store: Store, clock: Clock) -> None:
    """However it ends: completed, cancelled, deleted or expired.  Other jobs of schedules poke nobody."""
    worker = await a_worker(store)
    one = await a_schedule(store)
    waited_for = {"schedule_id": one.id, "tells_schedule": True}

    async def pokes() -> int:
        await settle(store)
        return (await reread(store, one)).rev - one.rev

    await a_job(store, **waited_for)
    await worker.complete(await worker.take())
    assert await pokes() == 1
    await store.cancel(await a_job(store, **waited_for))
    assert await pokes() == 2
    await store.delete(await a_job(store, **waited_for))
    assert await pokes() == 3
    await a_job(store, ttl_ms=1, **waited_for)
    clock.forward(1)
    await store.partitions[0].upkeep.expire()
    assert await pokes() == 4
    ended = await a_job(store, schedule_id=one.id)
    await store.cancel(ended)
    assert await pokes() == 4
    assert (await record(store, ended)).schedule_id == one.id


async def test_an_end_is_told_once_when_the_ended_job_is_removed_later(store: Store, clock: Clock) -> None:
    """Retention and deletion of what has ended are no endings."""
    one = await a_schedule(store)
    jobs = [await a_job(store, schedule_id=one.id, tells_schedule=True) for _ in range(2)]
    for job in jobs:
        await store.cancel(job)
    await settle(store)
    told = (await reread(store, one)).rev

    await store.delete(jobs[0])
    clock.forward(1)
    await store.partitions[0].upkeep.retire(clock.now_ms)
    await settle(store)

    assert (await reread(store, one)).rev == told


async def test_an_alarm_wakes_who_listens(store: Store) -> None:
    """A schedule that is due sooner than all others, and a poke; not one that is due later."""
    here, soon = store.schedules, [await a_schedule(store, cron="0 0 1 1 *")]

    async def rings(act: Any) -> bool:
        """Whether something wakes a listener who began before it."""
        place = await here.last_alarm()
        listening = asyncio.create_task(here.alarm(place, 300))
        await act
        return await asyncio.wait_for(listening, PATIENCE_S) != place

    async def sooner() -> None:
        soon.append(await a_schedule(store))

    assert await rings(sooner())
    assert not await rings(a_schedule(store, cron="0 0 1 2 *"))
    assert await rings(here.poke([soon[0].id]))
    assert not await rings(here.poke(["nobody"]))
    quiet = Write(soon[0].id, 2, 0)
    assert not await rings(here.write([quiet]))
    assert await here.unchanged([await reread(store, soon[0])])


async def test_an_alarm_that_rang_before_is_not_lost(store: Store) -> None:
    """Who knows where he stopped hears it at once."""
    place = await store.schedules.last_alarm()
    await a_schedule(store)
    await a_schedule(store, cron="* * * * * *")

    heard = await asyncio.wait_for(store.schedules.alarm(place, 10_000), PATIENCE_S)

    assert heard == await store.schedules.last_alarm() != place


# Several partitions ---------------------------------------------------------------------------------------------------


async def test_runs_live_in_the_partition_of_their_schedule(wide_store: Store) -> None:
    """All of them, each time; and their ends are heard from there."""
    store, clock = wide_store, Clock(wide_store, MADE_MS)
    made = [await a_schedule(store, partition=i % 4, overlap=Overlap.BUFFER_ONE) for i in range(8)]
    clock.at(FIRST_MS)

    await Firing(store, 5).settle(made, clock.now_ms)

    for one in made:
        now = await reread(store, one)
        [run] = now.progress.active
        job = await record(store, run)
        assert partition_of(run) == one.schedule.partition
        assert (job.schedule_id, job.due_ms) == (one.id, FIRST_MS)
        await store.cancel(run)
        await settle(store)
        assert (await reread(store, one)).rev == now.rev + 1

    async def told() -> bool:
        return all([await notes(store, one) for one in made])

    await until(told, "a line of each")
