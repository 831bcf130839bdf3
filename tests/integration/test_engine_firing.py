"""Settling schedules: each run is started once and told once, wherever somebody dies, and whoever else is at it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from taskflow_domain import Backfill, Fire, JobStatus, Note, Origin, Over, Overlap, Progress, What
from taskflow_domain.changing import canceled, paused, redefined, resumed
from taskflow_domain.firing import look_at
from taskflow_streams import Firing, NewJob, ScheduleRecord, Settled, Store, Write, Written, firing, up_to_date
from tests.support.engine import START_MS, Clock, Worker, a_worker, record, settle, statuses
from tests.support.picture import take
from tests.support.schedules import (
    Died,
    a_schedule,
    apply,
    before_write,
    births,
    definition,
    dying,
    fired,
    notes,
    reread,
)

MADE_MS = START_MS + 30_000
FIRST_MS = START_MS + 60_000  # when a schedule of each minute fires that was made then
MINUTE_MS = 60_000
HOLD_MS = 3_000
LIMIT = 5  # missed fires that are made up for


@pytest.fixture
def clock(store: Store) -> Clock:
    """The store's time, half a minute before the first fire."""
    return Clock(store, MADE_MS)


async def step(store: Store) -> list[Settled]:
    """One pass of somebody who settles what is given to him."""
    taken = await store.schedules.take(1000, HOLD_MS)
    return await Firing(store, LIMIT).settle([one for _, one in taken.records], taken.now_ms)


async def steps(store: Store) -> int:
    """The same until there is nothing to do now; how many there were.  The schedulers work, too."""
    for number in range(1000):
        await settle(store)
        if not await step(store):
            return number
    raise AssertionError("there is no end to it")


async def minutes(store: Store, clock: Clock, count: int) -> None:
    """Let so many fires come, each in its time."""
    for _ in range(count):
        clock.at((clock.now_ms // MINUTE_MS + 1) * MINUTE_MS)
        await steps(store)


async def change(store: Store, one: ScheduleRecord, progress: Progress, *told: Note) -> None:
    """Somebody else's change."""
    assert await apply(store, one, progress, told, await store.now_ms())


async def asks(store: Store, one: ScheduleRecord, key: str = "x", overlap: Overlap | None = None) -> Fire:
    """Somebody asks for a run now."""
    now, now_ms = await reread(store, one), await store.now_ms()
    fire = Fire(now_ms, Origin.TRIGGER, key, overlap)
    await change(store, now, replace(now.progress, waiting=(*now.progress.waiting, fire)))
    return fire


async def backfill(store: Store, one: ScheduleRecord, from_ms: int, to_ms: int, **more: Any) -> None:
    """Somebody asks for what is past."""
    now = await reread(store, one)
    asked = Backfill(from_ms - 1, to_ms, **{"overlap": Overlap.ALLOW, **more})
    await change(store, now, replace(now.progress, backfills=(*now.progress.backfills, asked)))


async def told(store: Store, one: ScheduleRecord) -> list[tuple[Any, ...]]:
    """The lines of a schedule: what, when in minutes after the first, and why."""
    return [
        (note.what, note.fire_ms if note.fire_ms is None else (note.fire_ms - FIRST_MS) / MINUTE_MS, note.why)
        for note in await notes(store, one)
    ]


# Whoever dies ---------------------------------------------------------------------------------------------------------

Remove = Callable[[Store, Clock], Awaitable[None]]


async def leave(store: Store, clock: Clock) -> None:
    """The runs wait for a worker."""


async def retire(store: Store, clock: Clock) -> None:
    """The runs are quick, and retention removes them at once."""
    worker = await a_worker(store)
    for held in await worker.lease(100):
        await worker.complete(held)
    await store.partitions[0].upkeep.retire(clock.now_ms + 1)


async def delete(store: Store, clock: Clock) -> None:
    """Somebody deletes the runs."""
    for run in await births(store):
        await store.delete(run)


@pytest.mark.parametrize("remove", [leave, retire, delete])
@pytest.mark.parametrize(
    ("where", "after", "born"),
    [("starting", 0, 0), ("starting", 2, 2), ("writing", 0, 4), ("written", 0, 4)],
    ids=["before the first", "between two", "after the last", "after the write"],
)
async def test_a_fire_is_started_once_wherever_the_settler_dies(
    store: Store,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    remove: Remove,
    where: str,
    after: int,
    born: int,
) -> None:
    """The next one does the rest, also after the runs that were started are gone; the history has a line of each."""
    monkeypatch.setattr(firing, "START_BATCH", 1)
    made = [await a_schedule(store) for _ in range(4)]
    clock.at(FIRST_MS)

    with dying(store, where, after), pytest.raises(Died):
        await step(store)
    assert len(await births(store)) == born
    await remove(store, clock)
    assert await step(store) == []  # they are held by the dead
    clock.forward(HOLD_MS / 1000)
    await steps(store)

    runs = {one.schedule.run_id(Fire(FIRST_MS)) for one in made}
    assert await births(store) == dict.fromkeys(runs, 1)
    for one in made:
        assert await told(store, one) == [(What.FIRED, 0, None)]
        now = (await reread(store, one)).progress
        assert (now.after_ms, now.next_ms, now.runs, now.last_ms) == (FIRST_MS, FIRST_MS + MINUTE_MS, 1, FIRST_MS)


@pytest.mark.parametrize("remove", [leave, retire, delete])
async def test_a_fire_right_before_a_downtime_is_not_fired_again_after_it(
    store: Store, clock: Clock, remove: Remove
) -> None:
    """Although it looks as if it had been missed, and too many others came after it: it is told, not dropped."""
    one = await a_schedule(store, catchup_limit=1)
    clock.at(FIRST_MS)
    with dying(store, "writing"), pytest.raises(Died):
        await step(store)
    await remove(store, clock)

    clock.at(FIRST_MS + 10 * MINUTE_MS + 30_000)
    await steps(store)

    assert await told(store, one) == [
        (What.FIRED, 0, None),
        (What.SKIPPED, 1, "catchup_limit"),
        (What.FIRED, 10, None),
    ]
    assert set((await births(store)).values()) == {1}


async def test_settlers_at_once_start_a_run_once(store: Store, clock: Clock) -> None:
    """All have the same schedules in hand; the history has one line."""
    made = [await a_schedule(store, overlap=overlap) for overlap in Overlap]
    clock.at(FIRST_MS)

    shares = await asyncio.gather(*(Firing(store, LIMIT).settle(made, clock.now_ms) for _ in range(5)))

    assert set((await births(store)).values()) == {1}
    for i, one in enumerate(made):
        assert await fired(store, one) == [FIRST_MS]
        assert sorted(share[i].word for share in shares) == [Written.CHANGED] * 4 + [Written.OK]
        assert (await reread(store, one)).progress.runs == 1


async def test_a_settler_who_comes_late_changes_nothing(store: Store, clock: Clock) -> None:
    """Others went on when its hold had run out: what it starts is there, or was, and what it says is known."""
    slow = [await a_schedule(store, overlap=overlap) for overlap in (Overlap.ALLOW, Overlap.SKIP)]
    clock.at(FIRST_MS)
    then_ms = clock.now_ms
    await steps(store)
    await retire(store, clock)
    await minutes(store, clock, 2)
    before = [await reread(store, one) for one in slow]

    late = await Firing(store, LIMIT).settle(slow, then_ms)

    assert [one.word for one in late] == [Written.CHANGED] * 2
    assert [await reread(store, one) for one in slow] == before
    assert await fired(store, slow[0]) == [FIRST_MS, FIRST_MS + MINUTE_MS, FIRST_MS + 2 * MINUTE_MS]
    assert set((await births(store)).values()) == {1}


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.BUFFER_ONE, Overlap.BUFFER_ALL, Overlap.CANCEL_PREVIOUS])
async def test_a_run_is_told_although_another_was_asked_for_before_it_could_be(
    store: Store, clock: Clock, overlap: Overlap
) -> None:
    """Who started it died; then comes a trigger, whose turn is before its time.  The schedule runs one at a time."""
    one = await a_schedule(store, overlap=overlap)
    clock.at(FIRST_MS)
    with dying(store, "writing"), pytest.raises(Died):
        await step(store)
    clock.forward(HOLD_MS / 1000)
    asked = await asks(store, one)

    await step(store)

    now = await reread(store, one)
    lines = [(note.what, note.origin) for note in await notes(store, one)]
    if overlap is Overlap.SKIP:
        assert lines == [(What.FIRED, Origin.SCHEDULE), (What.SKIPPED, Origin.TRIGGER)]
    else:
        assert (lines, now.progress.waiting) == ([(What.FIRED, Origin.SCHEDULE)], (asked,))
    assert list(await births(store)) == list(now.progress.active) == [one.schedule.run_id(Fire(FIRST_MS))]


async def test_removed_runs_leave_few_marks_however_many_they_were(store: Store, clock: Clock) -> None:
    """A schedule of every second has 600,000 runs in a week; the latest are enough for the one that may be untold."""
    one, home = await a_schedule(store, interval_ms=1000), store.partitions[0]
    for _ in range(130):
        clock.forward(1)
        await step(store)
    clock.forward(1)
    with dying(store, "writing"), pytest.raises(Died):
        await step(store)
    runs = list(await births(store))

    await store.delete(runs.pop())  # the one that nobody told of, before all others
    for run in runs:
        await store.delete(run)

    marks = (await take(home)).zsets["ran"]
    assert (await take(home)).names.isdisjoint({"gone", "job"})
    assert [len(marked) for marked in marks.values()] == [100]
    clock.forward(HOLD_MS / 1000)
    await steps(store)
    assert set((await births(store)).values()) == {1}
    assert await fired(store, one) == [MADE_MS + i * 1000 for i in range(len(await births(store)))]


async def test_many_runs_that_are_started_in_one_step_all_leave_marks(store: Store, clock: Clock) -> None:
    """Fires that waited one for the other, and then may overlap."""
    one = await a_schedule(store, overlap=Overlap.BUFFER_ALL, interval_ms=1000)
    worker = await a_worker(store)
    for _ in range(151):
        clock.forward(1)
        await step(store)
    loose = definition(one.id, one.schedule.anchor_ms, interval_ms=1000)
    now = await reread(store, one)
    assert len(now.progress.waiting) == 150
    assert await store.schedules.write([Write(one.id, now.rev, clock.now_ms, definition=loose)]) == [Written.OK]
    with dying(store, "writing"), pytest.raises(Died):
        await step(store)
    await worker.complete(await worker.take())
    await delete(store, clock)

    clock.forward(HOLD_MS / 1000)
    await steps(store)

    assert set((await births(store)).values()) == {1}
    assert len(await fired(store, one)) == len(await births(store)) > 151


# Changed meanwhile ----------------------------------------------------------------------------------------------------


async def test_a_run_is_told_although_the_schedule_was_paused_meanwhile(store: Store, clock: Clock) -> None:
    """Between its start and the writing; it is not fired again when the pause is over."""
    one = await a_schedule(store)
    clock.at(FIRST_MS)

    async def pause() -> None:
        now = await reread(store, one)
        progress, told = paused(now.progress, clock.now_ms, "lunch")
        await change(store, now, progress, *told)

    with before_write(store, pause):
        await step(store)
    assert await told(store, one) == [(What.PAUSED, None, "lunch"), (What.FIRED, 0, None)]
    now = await reread(store, one)
    assert (now.progress.runs, now.progress.last_ms, now.progress.pause is None) == (1, FIRST_MS, False)

    clock.forward(150)
    await change(store, now, *_flat(resumed(now.schedule, now.progress, clock.now_ms)))
    await minutes(store, clock, 1)
    assert await fired(store, one) == [FIRST_MS, FIRST_MS + 3 * MINUTE_MS]
    assert set((await births(store)).values()) == {1}


async def test_a_run_is_told_although_the_schedule_was_canceled_meanwhile(store: Store, clock: Clock) -> None:
    """Its run is there, and goes on."""
    one = await a_schedule(store)
    clock.at(FIRST_MS)

    async def cancel() -> None:
        now = await reread(store, one)
        await change(store, now, *_flat(canceled(now.progress)))

    with before_write(store, cancel):
        await step(store)

    assert await told(store, one) == [(What.ENDED, None, "canceled"), (What.FIRED, 0, None)]
    assert (await reread(store, one)).progress.over is Over.CANCELED
    await minutes(store, clock, 3)
    assert len(await births(store)) == 1


async def test_a_run_is_told_although_the_schedule_got_other_times_meanwhile(store: Store, clock: Clock) -> None:
    """Those count from then, so that nobody would come upon it any more."""
    one = await a_schedule(store)
    clock.at(FIRST_MS)

    async def redefine() -> None:
        now = await reread(store, one)
        new = definition(one.id, one.schedule.anchor_ms, cron="*/5 * * * *")
        progress, told = redefined(one.schedule, new.schedule, now.progress, clock.now_ms)
        write = Write(one.id, now.rev, look_at(progress, clock.now_ms), progress, new, notes=told, ring=True)
        assert await store.schedules.write([write]) == [Written.OK]

    with before_write(store, redefine):
        await step(store)

    assert await fired(store, one) == [FIRST_MS]
    now = await reread(store, one)
    assert (now.progress.runs, now.progress.next_ms) == (1, FIRST_MS + 4 * MINUTE_MS)
    await minutes(store, clock, 4)
    assert await fired(store, one) == [FIRST_MS, FIRST_MS + 4 * MINUTE_MS]


async def test_a_run_of_a_schedule_that_was_deleted_meanwhile_goes_on(store: Store, clock: Clock) -> None:
    """Nothing of the schedule comes back."""
    one = await a_schedule(store)
    clock.at(FIRST_MS)

    with before_write(store, lambda: store.schedules.delete(one.id)):
        [settled] = await step(store)

    assert settled.word is Written.MISSING
    assert await store.schedules.count() == 0
    assert await statuses(store, list(await births(store))) == ["READY"]


async def test_a_trigger_that_comes_meanwhile_is_served_next(store: Store, clock: Clock) -> None:
    """Both runs are started once, and told once."""
    one = await a_schedule(store)
    clock.at(FIRST_MS)

    with before_write(store, lambda: asks(store, one)):
        await step(store)
    assert await notes(store, one) == []
    await steps(store)

    assert [note.origin for note in await notes(store, one)] == [Origin.TRIGGER, Origin.SCHEDULE]
    assert list((await births(store)).values()) == [1, 1]


async def test_who_changes_a_schedule_learns_first_of_a_run_that_nobody_told(store: Store, clock: Clock) -> None:
    """Who started it died; the change would leave it behind."""
    one, other = await a_schedule(store), await a_schedule(store, cron="1 * * * *")
    assert await up_to_date(store, one, clock.now_ms) == (one, ())
    clock.at(FIRST_MS)
    with dying(store, "writing"), pytest.raises(Died):
        await Firing(store, LIMIT).settle([one], clock.now_ms)

    now, told = await up_to_date(store, one, clock.now_ms)

    run = one.schedule.run_id(Fire(FIRST_MS))
    assert told == (Note(What.FIRED, FIRST_MS, Origin.SCHEDULE, run=run),)
    assert (now.progress.after_ms, now.progress.last_run, now.rev) == (FIRST_MS, run, one.rev)
    assert await apply(store, now, now.progress, told, clock.now_ms)
    assert await up_to_date(store, other, clock.now_ms) == (other, ())  # due, but nobody has started it
    await minutes(store, clock, 1)
    assert await fired(store, one) == [FIRST_MS, FIRST_MS + MINUTE_MS]


def _flat(changed: tuple[Progress, tuple[Note, ...]]) -> tuple[Any, ...]:
    progress, lines = changed
    return progress, *lines


# Overlap, with runs that end ------------------------------------------------------------------------------------------


async def ends(store: Store, worker: Worker) -> str:
    """The run whose turn it is ends; its schedule hears of it."""
    held = await worker.take()
    await worker.complete(held)
    await steps(store)
    return held.job_id


async def test_runs_that_may_overlap_run_side_by_side(store: Store, clock: Clock) -> None:
    """All are started in their time, whatever is active."""
    one, worker = await a_schedule(store), await a_worker(store)

    await minutes(store, clock, 3)

    assert len(await worker.lease(10)) == 3
    assert await fired(store, one) == [FIRST_MS, FIRST_MS + MINUTE_MS, FIRST_MS + 2 * MINUTE_MS]


async def test_a_fire_is_skipped_while_a_run_is_active(store: Store, clock: Clock) -> None:
    """The history names the run that stood in its way; after its end, the next fire is started."""
    one, worker = await a_schedule(store, overlap=Overlap.SKIP), await a_worker(store)
    await minutes(store, clock, 3)
    first = await ends(store, worker)
    await minutes(store, clock, 1)

    assert await told(store, one) == [
        (What.FIRED, 0, None),
        (What.SKIPPED, 1, "overlap"),
        (What.SKIPPED, 2, "overlap"),
        (What.FIRED, 3, None),
    ]
    assert [note.run for note in await notes(store, one)][:3] == [first] * 3


async def test_one_fire_waits_for_the_end_of_a_run(store: Store, clock: Clock) -> None:
    """The first; those after it are passed over.  It starts as soon as the run has ended."""
    one, worker = await a_schedule(store, overlap=Overlap.BUFFER_ONE), await a_worker(store)
    await minutes(store, clock, 3)
    assert await ends(store, worker) == one.schedule.run_id(Fire(FIRST_MS))

    assert await told(store, one) == [
        (What.FIRED, 0, None),
        (What.BUFFERED, 1, None),
        (What.SKIPPED, 2, "buffer_full"),
        (What.FIRED, 1, None),
    ]
    assert await ends(store, worker) == one.schedule.run_id(Fire(FIRST_MS + MINUTE_MS))
    await minutes(store, clock, 1)
    assert await fired(store, one) == [FIRST_MS, FIRST_MS + MINUTE_MS, FIRST_MS + 3 * MINUTE_MS]


async def test_all_fires_wait_for_their_turn(store: Store, clock: Clock) -> None:
    """One after the other, in the order of their times, and none twice, wherever somebody dies."""
    one, worker = await a_schedule(store, overlap=Overlap.BUFFER_ALL), await a_worker(store)
    await minutes(store, clock, 4)
    assert [line[0] for line in await told(store, one)] == [What.FIRED] + [What.BUFFERED] * 3
    ended = []
    for where in ("starting", "writing", "written"):
        held = await worker.take()
        await worker.complete(held)
        ended.append(held.job_id)
        await settle(store)
        with dying(store, where), pytest.raises(Died):
            await step(store)
        clock.forward(HOLD_MS / 1000)
        await steps(store)
    ended.append(await ends(store, worker))

    assert ended == [one.schedule.run_id(Fire(FIRST_MS + i * MINUTE_MS)) for i in range(4)]
    assert await fired(store, one) == [FIRST_MS + i * MINUTE_MS for i in range(4)]
    assert await births(store) == dict.fromkeys(ended, 1)
    assert (await reread(store, one)).progress.active == ()


async def test_a_fire_cancels_the_run_before_it(store: Store, clock: Clock) -> None:
    """And starts when that has ended; of several that come meanwhile, the last."""
    one, worker = await a_schedule(store, overlap=Overlap.CANCEL_PREVIOUS), await a_worker(store)
    await minutes(store, clock, 1)
    held = await worker.take()
    await minutes(store, clock, 2)
    assert (await record(store, held.job_id)).status is JobStatus.RUNNING  # until its worker hears of it
    await worker.complete(held)
    await steps(store)

    assert await told(store, one) == [
        (What.FIRED, 0, None),
        (What.BUFFERED, 1, "cancel_previous"),
        (What.BUFFERED, 2, "cancel_previous"),
        (What.SKIPPED, 1, "superseded"),
        (What.FIRED, 2, None),
    ]
    await minutes(store, clock, 1)  # this one has not begun: it is cancelled at once
    assert await fired(store, one) == [FIRST_MS, FIRST_MS + 2 * MINUTE_MS, FIRST_MS + 3 * MINUTE_MS]
    waiting = await statuses(store, [one.schedule.run_id(Fire(FIRST_MS + i * MINUTE_MS)) for i in (2, 3)])
    assert waiting == ["CANCELED", "READY"]


async def test_an_end_that_nobody_told_of_is_noticed(store: Store, clock: Clock) -> None:
    """The message may be lost with a server that loses its last second; the run may be gone, too."""
    one, worker = await a_schedule(store, overlap=Overlap.BUFFER_ONE), await a_worker(store)
    await minutes(store, clock, 2)
    held = await worker.take()
    await worker.complete(held)
    home = store.partitions[0]
    await home.graph.done(await home.graph.read("scheduler", 1))
    await home.upkeep.retire(clock.now_ms + 1)

    assert await step(store) == []
    clock.forward(5)
    await steps(store)

    assert await fired(store, one) == [FIRST_MS, FIRST_MS + MINUTE_MS]


# Limits ---------------------------------------------------------------------------------------------------------------


async def test_after_a_downtime_the_latest_are_made_up_for(store: Store, clock: Clock) -> None:
    """The oldest first; what is dropped is told with its reason, in one line."""
    one = await a_schedule(store, catchup_limit=3)
    await minutes(store, clock, 1)

    clock.at(FIRST_MS + 10 * MINUTE_MS + 45_000)
    await steps(store)
    await minutes(store, clock, 1)

    assert await told(store, one) == [
        (What.FIRED, 0, None),
        (What.SKIPPED, 1, "catchup_limit"),
        *((What.FIRED, i, None) for i in (8, 9, 10, 11)),
    ]
    skipped = (await notes(store, one))[1]
    assert (skipped.last_ms, skipped.count) == (FIRST_MS + 7 * MINUTE_MS, 7)


async def test_what_was_missed_too_long_ago_is_dropped(store: Store, clock: Clock) -> None:
    """Beyond the window, whatever the limit allows; and the deployment's limit holds for who says none."""
    windowed = await a_schedule(store, catchup_limit=100, catchup_window_ms=2 * MINUTE_MS)
    plain = await a_schedule(store)

    clock.at(FIRST_MS + 9 * MINUTE_MS + 30_000)
    await steps(store)

    assert await told(store, windowed) == [
        (What.SKIPPED, 0, "catchup_window"),
        (What.FIRED, 8, None),
        (What.FIRED, 9, None),
    ]
    assert await told(store, plain) == [
        (What.SKIPPED, 0, "catchup_limit"),
        *((What.FIRED, i, None) for i in range(5, 10)),
    ]


@pytest.mark.parametrize("where", ["starting", "writing", "written"])
async def test_catching_up_starts_nothing_twice_wherever_somebody_dies(store: Store, clock: Clock, where: str) -> None:
    """Again and again, while the runs are removed at once."""
    one = await a_schedule(store, catchup_limit=4)
    clock.at(FIRST_MS + 10 * MINUTE_MS + 15_000)

    for _ in range(5):
        with dying(store, where), suppress(Died):
            await step(store)
        await retire(store, clock)
        clock.forward(HOLD_MS / 1000)
        await step(store)
        clock.forward(HOLD_MS / 1000)
    await steps(store)

    assert await told(store, one) == [
        (What.SKIPPED, 0, "catchup_limit"),
        *((What.FIRED, i, None) for i in (7, 8, 9, 10)),
    ]
    assert list((await births(store)).values()) == [1] * 4


async def test_a_schedule_ends_with_its_last_run(store: Store, clock: Clock) -> None:
    """Also if somebody dies at the last one: it is no run more, and none less."""
    one = await a_schedule(store, max_runs=3)
    await minutes(store, clock, 2)
    clock.at(FIRST_MS + 2 * MINUTE_MS)
    with dying(store, "writing"), pytest.raises(Died):
        await step(store)
    clock.forward(HOLD_MS / 1000)
    await steps(store)
    await minutes(store, clock, 3)

    assert await told(store, one) == [*((What.FIRED, i, None) for i in range(3)), (What.ENDED, None, "max_runs")]
    assert list((await births(store)).values()) == [1] * 3
    assert (await reread(store, one)).progress.runs == 3


# Backfills ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("remove", [leave, delete])
@pytest.mark.parametrize("where", ["starting", "writing", "written"])
async def test_a_backfill_goes_in_chunks_and_starts_each_time_once(
    store: Store, clock: Clock, where: str, remove: Remove
) -> None:
    """Wherever somebody dies; a time that ran before is told as such, all others as fired."""
    one = await a_schedule(store)
    await minutes(store, clock, 2)
    await backfill(store, one, FIRST_MS - 250 * MINUTE_MS, FIRST_MS + MINUTE_MS)
    with dying(store, where), pytest.raises(Died):
        await step(store)
    await remove(store, clock)
    clock.forward(HOLD_MS / 1000)

    assert await steps(store) in (2, 3)

    lines = (await told(store, one))[2:]
    assert lines == [
        *((What.FIRED, i, None) for i in range(-250, 0)),
        *((What.SKIPPED, i, "ran_before") for i in range(2)),
    ]
    assert set((await births(store)).values()) == {1}
    assert len(await births(store)) == 252
    now = (await reread(store, one)).progress
    assert (now.runs, now.backfills) == (2, ())


async def test_a_backfill_leaves_out_what_the_history_tells(store: Store, clock: Clock) -> None:
    """Also when the runs were removed, and were too many for all of them to have left a mark."""
    one = await a_schedule(store, interval_ms=1000)
    for _ in range(130):
        await step(store)
        clock.forward(1)
    await delete(store, clock)
    before = await births(store)
    await backfill(store, one, MADE_MS, MADE_MS + 129_000)

    await steps(store)

    again = [note for note in await notes(store, one) if note.origin is Origin.BACKFILL]
    assert [(note.what, note.why) for note in again] == [(What.SKIPPED, "ran_before")] * 130
    assert set((await births(store)).values()) == {1}
    assert before.keys() <= (await births(store)).keys()


async def test_a_backfill_of_one_after_the_other_waits_for_each_end(store: Store, clock: Clock) -> None:
    """It stands in nobody's way: the schedule's own fires go on, if they may overlap."""
    one, worker = await a_schedule(store), await a_worker(store)
    await backfill(store, one, FIRST_MS - 3 * MINUTE_MS, FIRST_MS - 1, overlap=Overlap.BUFFER_ALL)
    await steps(store)

    ended = [await ends(store, worker) for _ in range(3)]

    assert ended == [one.schedule.run_id(Fire(FIRST_MS - i * MINUTE_MS)) for i in (3, 2, 1)]
    assert await worker.lease(1) == []
    await minutes(store, clock, 1)
    assert await fired(store, one) == [FIRST_MS + i * MINUTE_MS for i in (-3, -2, -1, 0)]


async def test_a_backfill_can_run_again_what_has_run(store: Store, clock: Clock) -> None:
    """With a key of its own, so that its runs have ids of their own; again, each once."""
    one = await a_schedule(store)
    await minutes(store, clock, 3)
    await backfill(store, one, FIRST_MS, FIRST_MS + 2 * MINUTE_MS, key="again")
    with dying(store, "writing"), pytest.raises(Died):
        await step(store)
    clock.forward(HOLD_MS / 1000)
    await steps(store)

    assert (await told(store, one))[3:] == [(What.FIRED, i, None) for i in range(3)]
    assert list((await births(store)).values()) == [1] * 6


# Poison ---------------------------------------------------------------------------------------------------------------


async def test_a_schedule_whose_times_cannot_be_told_rests(store: Store, clock: Clock) -> None:
    """A zone may be abolished.  It says so once, keeps nobody else from firing, and is not looked at again."""
    fine = await a_schedule(store)
    one = await a_schedule(store)
    gone = definition(one.id, one.schedule.anchor_ms, zone="Nowhere/Atlantis")
    await store.schedules.write([Write(one.id, one.rev, FIRST_MS, definition=gone)])
    clock.at(FIRST_MS)

    await steps(store)

    assert await fired(store, fine) == [FIRST_MS]
    known, rests = await notes(store, one)  # the first time was told while the zone was there
    assert (known.what, known.fire_ms) == (What.FIRED, FIRST_MS)
    assert (rests.what, "its times cannot be told" in str(rests.why)) == (What.PAUSED, True)
    assert len(await births(store)) == 2
    await minutes(store, clock, 2)
    assert len(await notes(store, one)) == 2


async def test_when_a_call_fails_nothing_of_its_schedules_is_written(store: Store, clock: Clock) -> None:
    """Not even of those whose runs were started; they are found started afterwards."""
    made = [await a_schedule(store) for _ in range(3)]
    clock.at(FIRST_MS)
    submit = store.submit

    async def refuse(jobs: list[NewJob]) -> Any:
        await submit([job for job in jobs if job.schedule_id != made[1].id])
        raise Died

    with patch.object(store, "submit", refuse), pytest.raises(Died):
        await step(store)
    assert [await notes(store, one) for one in made] == [[], [], []]
    clock.forward(HOLD_MS / 1000)
    await steps(store)

    assert [await fired(store, one) for one in made] == [[FIRST_MS]] * 3
    assert list((await births(store)).values()) == [1] * 3
