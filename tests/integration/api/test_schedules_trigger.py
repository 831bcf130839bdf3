"""POST /api/v1/schedules/{ref}/trigger: one run now for each request, whoever dies and whoever races."""

import asyncio
from unittest.mock import patch

import httpx
import pytest

from taskflow_api import schedule_trigger
from taskflow_domain import JobStatus, iso_of_ms
from taskflow_streams import Firing, Unavailable
from tests.integration.api.door import SCHEDULES, Door, Json, conflict, invalid, refused
from tests.support.engine import Clock, Held, Worker, a_worker, record
from tests.support.schedules import before_write, births, crons_work, dying

KEY = {"Idempotency-Key": "deploy-42"}
RARELY: Json = {"cron": "0 0 1 6 *"}


async def trigger(door: Door, ref: str, headers: dict[str, str] | None = None, **fields: object) -> httpx.Response:
    """The answer to a trigger."""
    return await door.http.post(f"{SCHEDULES}/{ref}/trigger", json=fields, headers=headers or {})


async def busy(door: Door, ref: str) -> tuple[Worker, Held]:
    """A worker that has a run of the schedule in hand."""
    await door.order(ref, "trigger")
    worker = await a_worker(door.store)
    return worker, await worker.take()


async def told(door: Door, ref: str) -> list[tuple[str, str | None, str | None]]:
    """What its history tells, with origin and reason, the oldest first."""
    lines = (await door.look(ref, "/history", limit=100))["items"][::-1]
    return [(line["what"], line["origin"], line["why"]) for line in lines][1:]


# What it does ---------------------------------------------------------------------------------------------------------


async def test_a_trigger_starts_the_job_now(door: Door, clock: Clock) -> None:
    """Before it answers; the schedule's own times go on as they are."""
    made = await door.schedule(name="a", **RARELY, owner="ann")
    clock.forward(5)

    answer = (await trigger(door, "a")).json()

    job = await record(door.store, answer["job_id"])
    assert answer == {"outcome": "fired", "job_id": job.id, "fire_at": iso_of_ms(clock.now_ms)}
    assert (job.status, job.schedule_id, job.owner, job.due_ms) == (JobStatus.READY, made["id"], "ann", clock.now_ms)
    now = await door.look("a")
    assert (now["next_at"], now["runs"], now["last_job_id"]) == (made["next_at"], 0, job.id)
    assert await told(door, "a") == [("fired", "trigger", None)]


async def test_each_request_is_a_run(door: Door, clock: Clock) -> None:
    """Also two in one millisecond."""
    ref = (await door.schedule(**RARELY))["id"]
    answers = await asyncio.gather(*(trigger(door, ref) for _ in range(10)))

    assert [answer.status_code for answer in answers] == [200] * 10
    assert len({answer.json()["job_id"] for answer in answers}) == 10
    assert len(await births(door.store)) == 10


async def test_a_body_that_means_nothing_is_refused(door: Door) -> None:
    """With the field that is wrong."""
    ref = (await door.schedule())["id"]
    invalid(await trigger(door, ref, overlap="maybe", colour=1), "overlap", "colour")
    invalid(await trigger(door, ref, {"Idempotency-Key": "a b"}), "Idempotency-Key")
    assert not await births(door.store)


async def test_it_works_while_the_schedule_is_paused_and_after_it_has_ended(door: Door, clock: Clock) -> None:
    """Somebody has asked for it; the state stays."""
    paused = (await door.schedule(**RARELY, paused=True, reason="r", overlap="buffer_one"))["id"]
    now = iso_of_ms(clock.now_ms)
    ended = (await door.schedule(max_runs=1, interval_s=60, start_at=now))["id"]
    over = (await door.schedule(cron="@hourly", start_at=now, end_at=now))["id"]
    await crons_work(door.store)

    for ref, status in ((paused, "paused"), (ended, "ended"), (over, "ended")):
        assert (await door.order(ref, "trigger"))["outcome"] == "fired"
        assert (await door.look(ref))["status"] == status
    assert len(await births(door.store)) == 5


async def test_what_is_due_runs_too(door: Door, clock: Clock) -> None:
    """Whoever settles a schedule settles all of it."""
    ref = (await door.schedule(interval_s=60))["id"]  # the first at once

    await door.order(ref, "trigger")
    await crons_work(door.store)

    assert sorted(await told(door, ref)) == [("fired", "schedule", None), ("fired", "trigger", None)]


# While a run is active ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "asked", "outcome"),
    [
        ("allow", None, "fired"),
        ("skip", "allow", "fired"),
        ("buffer_one", None, "buffered"),
        ("buffer_all", None, "buffered"),
        ("cancel_previous", None, "buffered"),
        ("buffer_all", "cancel_previous", "buffered"),
        ("skip", "buffer_one", "buffered"),
        ("skip", None, "skipped"),
        ("buffer_all", "skip", "skipped"),
    ],
)
async def test_the_overlap_policy_counts_unless_another_is_given(
    door: Door, clock: Clock, own: str, asked: str | None, outcome: str
) -> None:
    """It runs beside it, waits for its end, or is passed over: then 409 tells of the run that is in its way."""
    ref = (await door.schedule(**RARELY, overlap=own))["id"]
    worker, held = await busy(door, ref)

    response = await trigger(door, ref, overlap=asked)

    if outcome == "skipped":
        conflict(response, "did not run", "a run was still active", held.job_id)
        assert (await told(door, ref))[-1] == ("skipped", "trigger", "overlap")
        return
    answer = response.json()
    assert (response.status_code, answer["outcome"]) == (200, outcome)
    if outcome == "buffered":
        assert await door.store.exist([answer["job_id"]]) == [False]
        assert (await door.look(ref))["waiting"] == 1
        await worker.complete(held)
        clock.forward(0 if own in ("buffer_one", "buffer_all", "cancel_previous") else 5)  # nobody tells of other ends
        await crons_work(door.store)
    assert (await worker.take()).job_id == answer["job_id"]


async def test_only_so_many_wait(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy's one, or the schedule's thousand: beyond it the answer is 409."""
    one = (await door.schedule(**RARELY, overlap="buffer_one"))["id"]
    await door.order(one, "trigger")
    assert (await door.order(one, "trigger"))["outcome"] == "buffered"
    conflict(await trigger(door, one), "enough others waited")
    assert (await door.look(one))["waiting"] == 1

    monkeypatch.setattr(schedule_trigger, "MAX_WAITING", 1)
    conflict(await trigger(door, one, overlap="allow"), "1 fires wait")


# The same request again -----------------------------------------------------------------------------------------------


async def test_a_request_that_is_sent_again_answers_the_first_run(door: Door, clock: Clock) -> None:
    """However long after, also when the job has ended and was removed; another body or schedule is 409."""
    ref = (await door.schedule(name="a", **RARELY))["id"]
    first = (await trigger(door, "a", KEY)).json()
    worker = await a_worker(door.store)
    await worker.complete(await worker.take())
    clock.forward(3600)
    again = (await trigger(door, ref, KEY)).json()
    assert (await door.http.delete(f"/api/v1/jobs/{first['job_id']}")).status_code == 204
    after = (await trigger(door, ref, KEY)).json()

    assert first == again == after
    assert len(await births(door.store)) == 1
    other = (await door.schedule())["id"]
    conflict(await trigger(door, other, KEY), "another body")
    conflict(await trigger(door, ref, KEY, overlap="allow"), "another body")
    assert (await trigger(door, ref, {"Idempotency-Key": "deploy-43"})).json()["job_id"] != first["job_id"]


@pytest.mark.parametrize("overlap", ["allow", "buffer_all", "skip"])
async def test_of_many_requests_with_one_key_one_makes_the_run(door: Door, overlap: str) -> None:
    """All get the same answer."""
    ref = (await door.schedule(**RARELY, overlap=overlap))["id"]
    answers = await asyncio.gather(*(trigger(door, ref, KEY) for _ in range(10)))

    assert [answer.status_code for answer in answers] == [200] * 10
    assert len({answer.json()["job_id"] for answer in answers}) == 1
    await crons_work(door.store)
    assert list((await births(door.store)).values()) == [1]


async def test_many_at_once_are_all_served(door: Door) -> None:
    """Each gets a job of its own, and none is refused only because others came too."""
    ref = (await door.schedule(**RARELY))["id"]
    answers = await asyncio.gather(*(trigger(door, ref) for _ in range(40)))
    await crons_work(door.store)

    assert [answer.status_code for answer in answers] == [200] * 40
    assert {answer.json()["job_id"] for answer in answers} == set(await births(door.store))


async def test_one_that_waits_is_asked_for_once(door: Door) -> None:
    """The request again finds it waiting, and then run."""
    ref = (await door.schedule(**RARELY, overlap="buffer_all"))["id"]
    worker, held = await busy(door, ref)
    first = (await trigger(door, ref, KEY)).json()
    again = (await trigger(door, ref, KEY)).json()
    waiting = (await door.look(ref))["waiting"]
    await worker.complete(held)
    await crons_work(door.store)
    after = (await trigger(door, ref, KEY)).json()

    assert (first, waiting) == (again, 1)
    assert after == first | {"outcome": "fired"}
    assert len(await births(door.store)) == 2


async def test_one_that_was_passed_over_may_try_again(door: Door) -> None:
    """With its key, until it has run."""
    ref = (await door.schedule(**RARELY, overlap="skip"))["id"]
    worker, held = await busy(door, ref)
    for _ in range(2):
        conflict(await trigger(door, ref, KEY), held.job_id)
    await worker.complete(held)

    answers = [(await trigger(door, ref, KEY)).json() for _ in range(2)]
    assert answers[0] == answers[1]
    assert len(await births(door.store)) == 2


# Who dies, and who races ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["settling", "starting", "writing", "written"])
async def test_what_was_asked_for_is_not_lost_with_who_was_asked(door: Door, clock: Clock, where: str) -> None:
    """Cron starts it, once; the request again gives the same run."""
    ref = (await door.schedule(**RARELY))["id"]
    settle = Firing.settle

    async def die(self: Firing, *args: object) -> object:
        if where == "settling":
            raise Unavailable("gone")
        with dying(door.store, where):
            return await settle(self, *args)  # type: ignore[arg-type]

    with patch.object(Firing, "settle", die):
        assert (await trigger(door, ref, KEY)).status_code in (500, 503)
    assert (await door.store.schedules.take(10, 3000)).records or where == "written"

    again = await asyncio.gather(crons_work(door.store), *(trigger(door, ref, KEY) for _ in range(3)))
    await crons_work(door.store)

    answers = [answer.json() for answer in again if answer is not None]
    assert {answer["outcome"] for answer in answers} == {"fired"}
    assert [(run, 1) for run in {answer["job_id"] for answer in answers}] == list((await births(door.store)).items())
    assert (await told(door, ref)).count(("fired", "trigger", None)) == 1


async def test_one_that_was_never_written_down_is_asked_for_by_the_next_request(door: Door, clock: Clock) -> None:
    """The key was tied, and nothing else was done; the run keeps the moment of the first request."""
    ref = (await door.schedule(**RARELY))["id"]
    with dying(door.store, "writing"):
        assert (await trigger(door, ref, KEY)).status_code == 500
    first_ms = clock.now_ms
    clock.forward(60)

    answer = (await trigger(door, ref, KEY)).json()

    assert (answer["outcome"], answer["fire_at"]) == ("fired", iso_of_ms(first_ms))
    assert list(await births(door.store)) == [answer["job_id"]]


@pytest.mark.parametrize("overlap", ["allow", "skip", "buffer_all"])
async def test_cron_may_come_first(door: Door, clock: Clock, overlap: str) -> None:
    """The answer is the same as if it had not."""
    ref = (await door.schedule(**RARELY, overlap=overlap))["id"]
    settle, calls = Firing.settle, []

    async def outrun(self: Firing, records: object, now_ms: int) -> object:
        calls.append(1)
        if len(calls) == 1:
            await crons_work(door.store)
        return await settle(self, records, now_ms)  # type: ignore[arg-type]

    for outcome in ("fired", {"allow": "fired", "skip": 409, "buffer_all": "buffered"}[overlap]):
        calls.clear()
        with patch.object(Firing, "settle", outrun):
            response = await trigger(door, ref)
        if outcome == 409:
            conflict(response, "a run was still active")
        else:
            assert response.json()["outcome"] == outcome
    assert set((await births(door.store)).values()) == {1}


async def test_a_change_meanwhile_loses_nothing(door: Door, clock: Clock) -> None:
    """Pause, update and trigger at once are all done."""
    ref = (await door.schedule(**RARELY))["id"]

    async def change() -> None:
        await door.order(ref, "pause", reason="r")
        await door.http.put(f"{SCHEDULES}/{ref}", json={"owner": "ann"})

    with before_write(door.store, change):
        assert (await door.order(ref, "trigger"))["outcome"] == "fired"
    now = await door.look(ref)
    assert (now["status"], now["owner"]) == ("paused", "ann")
    assert list((await births(door.store)).values()) == [1]


async def test_a_schedule_that_is_deleted_meanwhile_is_not_found(door: Door, clock: Clock) -> None:
    """It runs nothing."""
    ref = (await door.schedule(**RARELY))["id"]

    async def delete() -> None:
        await door.http.delete(f"{SCHEDULES}/{ref}")

    with before_write(door.store, delete):
        refused(await trigger(door, ref), 404, "NOT_FOUND")
    assert not await births(door.store)
