"""…/logs, …/logs/stream and …/wait: what a job prints, while it prints it, and how it ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson
import pytest

from taskflow_api import sse
from taskflow_api.app import create_app
from taskflow_api.settings import ApiSettings
from taskflow_domain import JobStatus
from taskflow_runtime import Health
from taskflow_runtime.settings import Address
from taskflow_runtime.web import Web, listen
from taskflow_streams import Ending, How, Store
from tests.integration.api.door import NOBODY, Door, Json, invalid, refused
from tests.support.engine import Held, Worker, a_job, a_running_job, an_ended_job
from tests.support.working import until

DOORS = ["/api/v1/jobs", "/jobs"]
Event = dict[str, Any]


async def say(store: Store, held: Held, *chunks: tuple[str, bytes]) -> None:
    """Let a worker ship output."""
    assert await store.partitions[0].leases.log(held.worker, held.token, chunks, 1_000_000) == "ok"


async def page_of(door: Door, path: str, **query: Any) -> Json:
    """One page of logs."""
    response = await door.http.get(path, params=query)
    assert response.status_code == 200, response.text
    page: Json = response.json()
    return page


@asynccontextmanager
async def serving(
    store: Store, stopping: asyncio.Event | None = None, **settings: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a real server."""
    app = create_app(lambda: store, ApiSettings(**settings), Health("api"), stopping)
    web = Web(listen(Address("127.0.0.1", 0, "")), app)
    web.start()
    try:
        async with httpx.AsyncClient(base_url=web.url, timeout=20) as http:
            yield http
    finally:
        await web.stop()


async def events(response: httpx.Response) -> AsyncIterator[Event]:
    """The events of a stream; a comment is an event of its own."""
    event: Event = {}
    async for line in response.aiter_lines():
        if line.startswith(":"):
            yield {"comment": line[1:].strip()}
        elif line:
            name, _, value = line.partition(": ")
            event[name] = orjson.loads(value) if name == "data" else value
        else:
            if "event" in event:
                yield event
            event = {}


@pytest.mark.parametrize("door_path", DOORS)
async def test_output_is_read_page_by_page(door: Door, door_path: str) -> None:
    """In order, with its stream, time and attempt; `next` is null at the end and goes on when more has come."""
    held = await a_running_job(door.store)
    await say(door.store, held, ("stdout", b"one"), ("stderr", b"two"), ("stdout", b"three"))
    path = f"{door_path}/{held.job_id}/logs"
    whole = await page_of(door, path)
    first = await page_of(door, path, limit=2)
    second = await page_of(door, path, limit=2, after=first["next"])

    assert [(item["stream"], item["text"], item["attempt"]) for item in whole["items"]] == [
        ("stdout", "one", 1), ("stderr", "two", 1), ("stdout", "three", 1),
    ]  # fmt: skip
    assert set(whole["items"][0]) == {"id", "stream", "at", "attempt", "text"}
    assert (whole["next"], second["next"]) == (None, None)
    assert first["items"] + second["items"] == whole["items"]
    await say(door.store, held, ("stdout", b"four"))
    assert [item["text"] for item in (await page_of(door, path, after=whole["items"][-1]["id"]))["items"]] == ["four"]


async def test_a_stream_can_be_picked(door: Door) -> None:
    """Pages count its pieces only."""
    held = await a_running_job(door.store)
    for i in range(120):
        await say(door.store, held, ("stdout", b"."), ("stderr", b"%d" % i))
    path = f"/jobs/{held.job_id}/logs"
    first = await page_of(door, path, stream="stderr", limit=100)
    second = await page_of(door, path, stream="stderr", limit=100, after=first["next"])

    assert [item["text"] for item in first["items"] + second["items"]] == [str(i) for i in range(120)]
    assert (len(first["items"]), second["next"]) == (100, None)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
async def test_a_character_cut_by_a_seam_is_whole(door: Door, limit: int) -> None:
    """Wherever the seams of pieces and pages are, and whatever comes between."""
    held = await a_running_job(door.store)
    pieces = [
        ("stdout", b"a\xf0\x9f"),
        ("stderr", b"\xc3"),
        ("stdout", b"\x98"),
        ("stdout", b"\x80b"),
        ("stderr", b"\xa9"),
    ]
    await say(door.store, held, *pieces)
    shown = {"stdout": "", "stderr": ""}
    after = "0-0"
    while after is not None:
        page = await page_of(door, f"/jobs/{held.job_id}/logs", after=after, limit=limit)
        for item in page["items"]:
            shown[item["stream"]] += item["text"]
        after = page["next"]

    assert shown == {"stdout": "a😀b", "stderr": "é"}


async def test_what_nothing_completes_is_marked_at_the_end(door: Door) -> None:
    """Half a character at the end of an ended job is not swallowed."""
    held = await a_running_job(door.store)
    await say(door.store, held, ("stdout", b"a\xe2\x82"))
    assert (await page_of(door, f"/jobs/{held.job_id}/logs"))["items"][0]["text"] == "a"
    await Worker(door.store.partitions[0]).complete(held)

    assert (await page_of(door, f"/jobs/{held.job_id}/logs"))["items"][0]["text"] == "a\ufffd"


@pytest.mark.parametrize("door_path", DOORS)
async def test_who_asks_wrongly_is_told(door: Door, door_path: str) -> None:
    """404 for no job, before any stream begins; 400 with the parameter."""
    job_id = await a_job(door.store)

    for tail in ("logs", "logs/stream"):
        refused(await door.http.get(f"{door_path}/{NOBODY}/{tail}"), 404, "NOT_FOUND")
        refused(await door.http.get(f"{door_path}/no-uuid/{tail}"), 404, "NOT_FOUND")
        invalid(await door.http.get(f"{door_path}/{job_id}/{tail}?after=x"), "after")
        invalid(await door.http.get(f"{door_path}/{job_id}/{tail}?tail=1"), "tail")
    invalid(await door.http.get(f"{door_path}/{job_id}/logs?limit=0"), "limit")
    invalid(await door.http.get(f"{door_path}/{job_id}/logs?stream=stdin"), "stream")
    invalid(await door.http.get(f"{door_path}/{job_id}/logs/stream", headers={"Last-Event-ID": "x"}), "Last-Event-ID")


@pytest.mark.parametrize(
    ("door_path", "word", "error"),
    [
        ("/api/v1/jobs", "FAILED", {"class": "Oops", "message": "no luck", "traceback": None}),
        ("/jobs", "failed", "Oops: no luck"),
    ],
)
async def test_an_ended_job_is_streamed_whole(door: Door, door_path: str, word: str, error: object) -> None:
    """And then its end, in the words of the door."""
    job_id = await an_ended_job(door.store, JobStatus.FAILED)
    response = await door.http.get(f"{door_path}/{job_id}/logs/stream")

    assert response.headers["content-type"].startswith("text/event-stream")
    [end] = [event async for event in events(response)]
    assert end == {"event": "end", "data": {"id": job_id, "status": word, "result": None, "error": error}}


@pytest.mark.parametrize("door_path", DOORS)
async def test_a_job_is_followed_from_before_its_start_to_its_end(store: Store, door_path: str) -> None:
    """Every piece comes as it is printed; characters are whole; then the end, and the stream is over."""
    job_id = await a_job(store)
    async with serving(store) as http, http.stream("GET", f"{door_path}/{job_id}/logs/stream") as response:
        seen = events(response)
        worker = await Worker(store.partitions[0]).join()
        held = await worker.take()
        for piece, text in ((b"one\n", "one\n"), (b"\xe2\x82", ""), (b"\xac", "€")):
            await say(store, held, ("stdout", piece))
            event = await asyncio.wait_for(anext(seen), 10)
            assert (event["event"], event["data"]["text"], event["id"]) == ("log", text, event["data"]["id"])
        await worker.complete(held, b'{"x":1}')
        [end] = [event async for event in seen]

    assert end["event"] == "end"
    assert end["data"]["result"] == {"x": 1}
    assert end["data"]["status"].lower() in ("completed", "succeeded")


@pytest.mark.parametrize("tail", ["/api/v1/jobs/{}/logs/stream", "/jobs/{}/logs/stream", "/api/v1/jobs/{}/wait"])
async def test_head_is_answered_at_once(store: Store, tail: str) -> None:
    """With the headers of a GET, and nothing after them; the connection serves what comes next."""
    job_id = await a_job(store)
    path = tail.format(job_id)
    async with serving(store, stream_limit=1) as http:
        for _ in range(2):
            response = await asyncio.wait_for(http.head(path), 10)
            assert (response.status_code, response.content) == (200, b"")
        missing = await http.head(tail.format(NOBODY))
        health = await asyncio.wait_for(http.get("/healthz"), 10)
        async with http.stream("GET", path, params={} if "stream" in tail else {"timeout_s": 0}) as got:
            expected = dict(got.headers)

    assert (missing.status_code, health.status_code) == (404, 200)
    names = {"content-type", "cache-control", "content-length"}
    assert {name: value for name, value in response.headers.items() if name in names} == {
        name: value for name, value in expected.items() if name in names
    }


async def test_a_reader_resumes_where_it_was(store: Store) -> None:
    """By the header that browsers send, which counts more than the query; also in the middle of a character."""
    held = await a_running_job(store)
    await say(store, held, ("stdout", b"one"), ("stdout", b"\xe2\x82"), ("stdout", b"\xactwo"))
    first, second, _ = await store.partitions[0].logs.read(held.job_id)
    await Worker(store.partitions[0]).complete(held)
    async with serving(store) as http:
        path = f"/jobs/{held.job_id}/logs/stream?after={first.id}"
        resumed = await http.get(path, headers={"Last-Event-ID": second.id})
        by_query = await http.get(path)

    assert [event["data"].get("text") async for event in events(resumed)] == ["€two", None]
    assert [event["data"].get("text") async for event in events(by_query)] == ["", "€two", None]


async def test_silence_is_filled_with_comments(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nothing on the way takes the connection for dead."""
    monkeypatch.setattr(sse, "KEEP_ALIVE_S", 0.05)
    held = await a_running_job(store)
    async with serving(store) as http, http.stream("GET", f"/jobs/{held.job_id}/logs/stream") as response:
        seen = events(response)
        assert [await asyncio.wait_for(anext(seen), 10) for _ in range(2)] == [{"comment": "keep-alive"}] * 2


async def test_a_deleted_job_ends_its_stream(store: Store) -> None:
    """There is nothing to say of it any more."""
    held = await a_running_job(store)
    async with serving(store) as http, http.stream("GET", f"/jobs/{held.job_id}/logs/stream") as response:
        seen = events(response)
        await say(store, held, ("stdout", b"one"))
        await asyncio.wait_for(anext(seen), 10)
        await store.delete(held.job_id)
        [end] = [event async for event in seen]

    assert end["data"] == {"id": held.job_id, "status": None, "result": None, "error": None}


async def test_streams_are_limited_and_given_back(store: Store) -> None:
    """One more than allowed is put off, with 503; who leaves makes room, and frees the connection to the broker."""
    held = await a_running_job(store)
    path = f"/jobs/{held.job_id}/logs/stream"

    async def blocked() -> int:
        return sum("b" in client["flags"] for client in await store.redis.client_list())

    async with serving(store, stream_limit=1) as http:
        async with http.stream("GET", path) as response:
            assert response.status_code == 200
            await until(blocked, "the stream to wait")
            refusal = await http.get(path)
            refused(refusal, 503, "UNAVAILABLE")
            assert int(refusal.headers["retry-after"]) > 0
            refused(await http.get(f"/api/v1/jobs/{held.job_id}/wait"), 503, "UNAVAILABLE")

        async def nobody_waits() -> bool:
            return await blocked() == 0

        await until(nobody_waits, "the connection to be free")

        async def admitted() -> bool:
            async with http.stream("GET", path) as response:
                return response.status_code == 200

        await until(admitted, "room")


async def test_a_stop_ends_all_streams_at_once(store: Store) -> None:
    """A restart is not held up by those who watch; without `end` they know that they are to come back."""
    held = await a_running_job(store)
    stopping = asyncio.Event()
    async with serving(store, stopping) as http, http.stream("GET", f"/jobs/{held.job_id}/logs/stream") as response:
        stopping.set()
        assert [event async for event in events(response)] == []


async def test_a_waiter_gets_the_job_when_it_has_ended(store: Store) -> None:
    """Not before, and not much later."""
    held = await a_running_job(store)
    async with serving(store) as http:
        waiting = asyncio.create_task(http.get(f"/api/v1/jobs/{held.job_id}/wait?timeout_s=15"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await Worker(store.partitions[0]).complete(held, b"5")
        response = await asyncio.wait_for(waiting, 10)

    assert (response.status_code, response.json()["status"], response.json()["result"]) == (200, "COMPLETED", 5)


async def test_a_waiter_gets_the_job_as_it_is_when_the_time_is_over(door: Door) -> None:
    """Also with no time at all."""
    job_id = await a_job(door.store)

    for seconds in ("0", "0.05"):
        response = await door.http.get(f"/api/v1/jobs/{job_id}/wait?timeout_s={seconds}")
        assert (response.status_code, response.json()["status"]) == (200, "READY")


async def test_waiting_is_bounded_and_for_jobs(door: Door) -> None:
    """A minute at most; 404 for no job."""
    job_id = await a_job(door.store)

    for wrong in ("61", "-1", "x", "1e999", "nan", ""):
        invalid(await door.http.get(f"/api/v1/jobs/{job_id}/wait?timeout_s={wrong}"), "timeout_s")
    refused(await door.http.get(f"/api/v1/jobs/{NOBODY}/wait"), 404, "NOT_FOUND")
    refused(await door.http.get("/api/v1/jobs/nothing/wait"), 404, "NOT_FOUND")


@pytest.mark.parametrize("door_path", DOORS)
async def test_progress_is_told_while_the_job_runs(store: Store, door_path: str) -> None:
    """Between the pieces of output, without an id of its own: a reader who resumes goes on after the output."""
    held = await a_running_job(store)
    leases = store.partitions[0].leases
    async with (
        serving(store) as http,
        http.stream("GET", f"{door_path}/{held.job_id}/logs/stream") as response,
    ):
        told = events(response)
        await leases.progress(held.worker, held.token, 0.5, "half")
        first = await anext(told)
        await Worker(store.partitions[0]).complete(held)
        last = await anext(told)

    assert first == {"event": "progress", "data": {"fraction": 0.5, "message": "half"}}
    assert last["event"] == "end"


async def test_a_stream_ends_with_what_nothing_completes(door: Door) -> None:
    """As the pages show it."""
    held = await a_running_job(door.store)
    await say(door.store, held, ("stdout", b"a\xe2\x82"))
    await Worker(door.store.partitions[0]).complete(held)

    response = await door.http.get(f"/jobs/{held.job_id}/logs/stream")
    found = [event async for event in events(response)]

    assert [event["data"].get("text") for event in found] == ["a", "\ufffd", None]
    assert found[1]["id"] == found[0]["id"]


async def test_a_second_run_of_an_attempt_does_not_complete_the_first(door: Door) -> None:
    """A character that the first run has cut is marked where it ended."""
    held = await a_running_job(door.store)
    await say(door.store, held, ("stdout", b"one\xc3"))
    worker = Worker(door.store.partitions[0])
    await worker.partition.leases.report(held.worker, [Ending(*held.token, How.RELEASED)])
    await say(door.store, await worker.take(), ("stdout", b"\xa9two"))

    page = await page_of(door, f"/jobs/{held.job_id}/logs")

    assert [item["text"] for item in page["items"]] == ["one", "\ufffd[its worker gave it back]\n", "\ufffdtwo"]
