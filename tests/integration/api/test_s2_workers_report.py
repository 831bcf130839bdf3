"""POST /workers/{id}/jobs/{job}/logs|progress|complete|fail|release: words about a job, and the token they need."""

import os
import socket
from typing import Any
from uuid import uuid4

import pytest

from taskflow_api import remote
from taskflow_domain import JobStatus, ms_of_iso
from taskflow_worker.identity import new_worker_id
from tests.integration.api.door import NOBODY, Door, Json, conflict, invalid, refused
from tests.integration.api.remote import Remote, a_command, a_remote
from tests.support.engine import VISIBILITY_MS, Worker, a_job, reap, status

WORDS: dict[str, Json] = {
    "logs": {"stream": "stdout", "text": "hi\n"},
    "progress": {"fraction": 0.5},
    "complete": {"result": 1},
    "fail": {"error": "no luck"},
    "release": {},
}


async def a_lease(door: Door, **fields: Any) -> tuple[Remote, Json]:
    """A worker and the job it holds."""
    worker = await a_remote(door.http)
    await a_command(door.http, **fields)
    return worker, await worker.take()


async def shown(door: Door, leased: Json) -> Json:
    """The job as the second door shows it."""
    response = await door.http.get(f"/jobs/{leased['job']}")
    job: Json = response.json()
    return job


async def age(door: Door, leased: Json, idle_ms: int) -> None:
    """Let the lease have been renewed that long ago."""
    home, queue = door.store.partitions[0], leased["queue"]
    entry = await home.redis.hget(home.keys("job", leased["job"]), "entry")
    worker = leased["token"].partition(":")[0]
    await home.redis.xclaim(home.keys("work", queue), "workers", worker, 0, [entry], idle=idle_ms, justid=True)


async def lose(door: Door, leased: Json) -> None:
    """Let the lease be older than the visibility time-out, and the reaper find it."""
    await age(door, leased, VISIBILITY_MS)
    assert await reap(door.store, leased["queue"]) == (1, 0)


def expiry_ms(job: Json) -> int:
    """When the lease ends, taken out of the job: two clock readings of the server make it, so it is not exact."""
    return ms_of_iso(job["lease"].pop("lease_expires_at"))


async def test_a_job_is_logged_and_completed(door: Door) -> None:
    """Its output is there while it runs, its result afterwards; said again, it is already done."""
    worker, leased = await a_lease(door)
    assert await worker.said(leased, "logs", stream="stdout", text="one\n") == "accepted"
    assert await worker.said(leased, "logs", stream="stderr", text="é!") == "accepted"
    assert await worker.said(leased, "progress", fraction=0.5, message="half") == "accepted"
    job = await shown(door, leased)
    assert (job["stdout"], job["stderr"], job["status"]) == ("one\n", "é!", "running")
    assert job["progress"] == {"fraction": 0.5, "message": "half"}

    result = {"exit_code": 0, "output": [1, None, "ü"]}
    assert await worker.said(leased, "complete", result=result) == "accepted"
    assert await worker.said(leased, "complete", result="other") == "already_done"
    job = await shown(door, leased)
    assert (job["status"], job["result"], job["error"]) == ("succeeded", result, None)


async def test_output_with_an_offset_is_kept_once(door: Door) -> None:
    """In bytes of the stream; what overlaps is not doubled."""
    worker, leased = await a_lease(door)
    for text, offset in (("é\n", 0), ("é\n", 0), ("é\nfu", 0), ("full\n", 3), ("ll\n", 5)):
        assert await worker.said(leased, "logs", stream="stdout", text=text, offset=offset) == "accepted"
    assert await worker.said(leased, "logs", stream="stderr", text="x", offset=0) == "accepted"

    job = await shown(door, leased)
    assert (job["stdout"], job["stderr"]) == ("é\nfull\n", "x")


async def test_output_beyond_its_limit_is_cut(door: Door) -> None:
    """The worker is told, so that it can save itself the rest."""
    worker, leased = await a_lease(door)
    words = [await worker.said(leased, "logs", stream="stdout", text="x" * 600_000) for _ in range(2)]

    assert words == ["accepted", "full"]


async def test_output_of_a_job_that_is_given_back_again_and_again_is_bounded(door: Door) -> None:
    """The newest run is shown whole; who has seen older output goes on after it."""
    worker, leased = await a_lease(door)
    path, seen = f"/jobs/{leased['job']}/logs", ""
    for run in range(12):
        await worker.said(leased, "logs", stream="stdout", text=f"{run:02}" + "x" * 899_998, offset=0)
        items = (await door.http.get(path)).json()["items"]
        assert sum(len(item["text"]) for item in items) < 10_000_000
        assert (await shown(door, leased))["stdout"] == f"{run:02}" + "x" * 899_998
        seen = seen or items[-1]["id"]
        await worker.said(leased, "release")
        leased = await worker.take()
    await worker.said(leased, "complete")

    stream = await door.http.get(f"{path}/stream", headers={"Last-Event-ID": seen})
    assert [line[-60:] for line in stream.text.splitlines() if "dropped" in line or line == "event: end"] == [
        'older output was dropped here: the log had more than 8388608 bytes]\\n"}'[-60:], "event: end",
    ]  # fmt: skip
    assert '"text":"11x' in stream.text
    assert '"text":"05x' not in stream.text


@pytest.mark.parametrize("result", [None, 0, "", [], {"a": {"b": 1.5}}, False])
async def test_any_json_is_a_result(door: Door, result: Any) -> None:
    """As it was sent."""
    worker, leased = await a_lease(door)
    assert await worker.said(leased, "complete", result=result) == "accepted"
    assert (await shown(door, leased))["result"] == result


async def test_a_failed_attempt_is_tried_again(door: Door) -> None:
    """After its delay; the error stands there meanwhile.  A second attempt that completes takes it away."""
    worker, leased = await a_lease(door)
    assert await worker.said(leased, "fail", error="no luck") == "accepted"
    job = await shown(door, leased)
    assert (job["status"], job["error"], job["retries_attempted"]) == ("queued", "Error: no luck", 0)
    assert await worker.said(leased, "fail", error="no luck") == "already_done"
    home = door.store.partitions[0]
    home.scripts.now_ms = await door.store.now_ms() + 2_000
    await home.upkeep.promote()
    again = await worker.take()
    home.scripts.now_ms = None
    assert (again["attempt"], again["fence"]) == (2, 2)
    assert await worker.said(again, "complete") == "accepted"
    job = await shown(door, leased)
    assert (job["status"], job["result"], job["error"], job["retries_attempted"]) == ("succeeded", None, None, 1)


async def test_a_failure_says_why(door: Door) -> None:
    """As an object with class, message and traceback; a fatal one is not tried again.  Long texts are cut."""
    worker, leased = await a_lease(door)
    error = {"class": "ExitCode", "message": "m" * 3000, "traceback": "t" * 20_000 + "end"}
    result = {"exit_code": 3}
    assert await worker.said(leased, "fail", error=error, fatal=True, result=result) == "accepted"
    assert await worker.said(leased, "fail", error=error, fatal=True) == "already_done"

    job = await door.get(leased["job"])
    assert (job["status"], job["attempt_count"], job["result"]) == ("FAILED", 1, result)
    assert (job["error"]["class"], job["error"]["message"]) == ("ExitCode", "m" * 2000)
    assert job["error"]["traceback"] == "t" * 15_997 + "end"


async def test_what_is_released_costs_no_attempt(door: Door) -> None:
    """It is there for the next one at once, with a new token; the old one is void."""
    worker, leased = await a_lease(door)
    assert await worker.said(leased, "release") == "accepted"
    assert await worker.said(leased, "release") == "already_done"
    again = await worker.take()

    assert (again["job"], again["attempt"], again["fence"]) == (leased["job"], 1, 2)
    for verb, body in WORDS.items():
        conflict(await worker.tell(leased, verb, **body), "wrong or old")
    assert await worker.said(again, "complete") == "accepted"


@pytest.mark.parametrize("verb", WORDS)
async def test_a_wrong_token_changes_nothing(door: Door, verb: str) -> None:
    """Another job's, another worker's, another fence, the right fence in another's name, or nonsense: 409 each."""
    worker, leased = await a_lease(door)
    other = await a_remote(door.http)
    await a_command(door.http)
    second = await worker.take()
    job, half = leased["job"], f"{worker.id}:{leased['job']}"
    assert leased["token"] == f"{half}:1"
    await age(door, leased, 10_000)
    before = await shown(door, leased)

    for token in (second["token"], f"{half}:2", f"{half}:0", f"{half}:01", f"{half}:+1", f"{half}:1 ", f"{half}:¹",
                  f"{half}:", half, f"{half}:{'9' * 40}", f"{worker.id}:1", worker.id, f"{job}:1", "1", "x" * 255,
                  f"{other.id}:{job}:1", f"{worker.id}:{job.upper()}:1", f"{half}:1:1"):  # fmt: skip
        conflict(await worker.tell(leased, verb, **(WORDS[verb] | {"token": token})), leased["job"])
    conflict(await other.tell(leased, verb, **WORDS[verb]), leased["job"])
    conflict(await other.tell(leased | {"token": f"{other.id}:{job}:1"}, verb, **WORDS[verb]), leased["job"])
    after = await shown(door, leased)
    assert abs(expiry_ms(after) - expiry_ms(before)) < 5_000, "the lease was renewed"
    assert after == before
    assert await worker.said(leased, "complete") == "accepted"
    assert await worker.said(second, "complete") == "accepted"
    conflict(await other.tell(leased | {"token": f"{other.id}:{job}:1"}, verb, **WORDS[verb]), leased["job"])


@pytest.mark.parametrize("verb", WORDS)
async def test_nobody_speaks_for_the_workers_of_the_stack(door: Door, verb: str) -> None:
    """Their ids are on the list and their fences can be guessed; over HTTP none of them is registered."""
    near = await Worker(door.store.partitions[0], new_worker_id()).join()
    job_id = await a_job(door.store)
    held = await near.take()
    path = f"/workers/{near.name}/jobs/{job_id}/{verb}"

    for token in (f"{near.name}:1", f"{near.name}:{job_id}:1"):
        error = refused(await door.http.post(path, json=WORDS[verb] | {"token": token}), 404, "NOT_FOUND")
        assert f"No worker {near.name} is registered" in error["message"]
    assert await door.store.partitions[0].logs.read(job_id) == []
    await near.complete(held, b'"its own"')
    job = await door.get(job_id)
    assert (job["status"], job["result"], job["progress"]) == ("COMPLETED", "its own", None)


@pytest.mark.parametrize("host", ["host", "2f1c8a52-77e0-4c5b-9a43-0d6f5b7a1e10", "2f1c8a52-77e0-4c5b", "x" * 80])
def test_no_worker_of_the_stack_has_the_id_of_one_over_http(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """Whatever its host is called: those of workers over HTTP are UUIDs."""
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    monkeypatch.setattr(os, "getpid", lambda: 9843)

    assert not remote.is_id(new_worker_id())
    assert remote.is_id(str(uuid4()))
    assert not remote.is_id(str(uuid4()).upper())


async def test_an_end_cannot_be_changed(door: Door) -> None:
    """Who completed has not failed, who failed has not completed, who gave it back has done neither."""
    worker, done = await a_lease(door)
    await worker.said(done, "complete", result=1)
    conflict(await worker.tell(done, "fail", error="x"))
    conflict(await worker.tell(done, "release"))
    await a_command(door.http)
    failed = await worker.take()
    await worker.said(failed, "fail", error="x", fatal=True)
    conflict(await worker.tell(failed, "complete"))
    await a_command(door.http)
    released = await worker.take()
    await worker.said(released, "release")
    conflict(await worker.tell(released, "complete"))

    assert [await status(door.store, each["job"]) for each in (done, failed, released)] == [
        JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.READY,
    ]  # fmt: skip


@pytest.mark.parametrize("verb", WORDS)
async def test_a_lease_that_was_lost_is_refused(door: Door, verb: str) -> None:
    """Silent for too long: the job runs elsewhere, and the late words change nothing."""
    worker, leased = await a_lease(door)
    await lose(door, leased)
    conflict(await worker.tell(leased, verb, **WORDS[verb]), "wrong or old")
    other = await a_remote(door.http)
    again = await other.take()
    assert (again["job"], again["attempt"]) == (leased["job"], 2)
    before = await shown(door, leased)

    conflict(await worker.tell(leased, verb, **WORDS[verb]), "wrong or old")
    assert (await worker.beat(leased["job"]))["lost"] == [leased["job"]]
    assert {**await shown(door, leased), "lease": None} == {**before, "lease": None}
    assert await other.said(again, "complete", result="hers") == "accepted"
    conflict(await worker.tell(leased, "complete", result="his"))
    assert (await shown(door, leased))["result"] == "hers"


async def test_a_canceled_job_whose_lease_is_lost_is_canceled(door: Door) -> None:
    """Its worker need not answer."""
    _, leased = await a_lease(door)
    await door.http.post(f"/jobs/{leased['job']}/cancel")
    await lose(door, leased)

    assert (await shown(door, leased))["status"] == "canceled"


@pytest.mark.parametrize(
    ("verb", "changes", "field"),
    [
        *((verb, {"token": value}, "token") for verb in WORDS for value in (None, 5, "", "x" * 256)),
        *((verb, {"more": 1}, "more") for verb in WORDS),
        ("logs", {"stream": "system"}, "stream"),
        ("logs", {"stream": None}, "stream"),
        ("logs", {"text": None}, "text"),
        ("logs", {"text": 5}, "text"),
        ("logs", {"text": "a\0b"}, "text"),
        ("logs", {"offset": -1}, "offset"),
        ("logs", {"offset": 1.5}, "offset"),
        ("progress", {"fraction": 1.1}, "fraction"),
        ("progress", {"fraction": None}, "fraction"),
        ("progress", {"fraction": "1"}, "fraction"),
        ("progress", {"message": "x" * 201}, "message"),
        ("complete", {"result": {"a": "\0"}}, "result.a"),
        ("fail", {"error": None}, "error"),
        ("fail", {"error": 5}, "error"),
        ("fail", {"error": {"message": 5}}, "error.message"),
        ("fail", {"error": {"class": ""}}, "error.class"),
        ("fail", {"error": {"kind": "x"}}, "error.kind"),
        ("fail", {"fatal": "yes"}, "fatal"),
    ],
    ids=lambda value: repr(value)[:30],
)
async def test_bad_words_are_refused(door: Door, verb: str, changes: Json, field: str) -> None:
    """With the field that is wrong; the job is as it was."""
    worker, leased = await a_lease(door)
    invalid(await worker.tell(leased, verb, **(WORDS[verb] | changes)), field)
    assert await status(door.store, leased["job"]) is JobStatus.RUNNING


async def test_words_have_their_limits(door: Door) -> None:
    """A result that is nested too deeply, a body that is too large, one that is no JSON."""
    worker, leased = await a_lease(door)
    deep: list[Any] = []
    for _ in range(101):
        deep = [deep]
    error = invalid(await worker.tell(leased, "complete", result=deep), "result")
    assert "a result may be nested" in error["message"]
    refused(await worker.tell(leased, "complete", result="x" * (1 << 20)), 413, "PAYLOAD_TOO_LARGE")
    refused(await worker.tell(leased, "logs", stream="stdout", text="x" * (1 << 20)), 413, "PAYLOAD_TOO_LARGE")
    path = f"/workers/{worker.id}/jobs/{leased['job']}/complete"
    refused(await door.http.post(path, content=b"{", headers={"content-type": "application/json"}), 400,
            "VALIDATION_ERROR")  # fmt: skip
    refused(await door.http.post(path, content=b"{}"), 400, "VALIDATION_ERROR")


@pytest.mark.parametrize("job", [NOBODY, "x", "019b7c3f-5d2e-7000-8fff-3f2a9c1b4d5e"])
async def test_words_about_no_job_are_not_found(door: Door, job: str) -> None:
    """Also where the id cannot be one."""
    worker = await a_remote(door.http)
    for verb, body in WORDS.items():
        response = await worker.tell({"job": job, "token": f"{worker.id}:{job}:1"}, verb, **body)
        assert "There is no job" in refused(response, 404, "NOT_FOUND")["message"]
