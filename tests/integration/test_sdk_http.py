"""The way over HTTP when it is bad: answers that get lost, an api that is away, a token that is wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import orjson
import pytest

from taskflow import AsyncClient, Refused, Submission, Unauthorized, Unavailable
from taskflow.transport import connections, patience
from taskflow.transport.http import HttpTransport
from taskflow_streams import Store
from tests.integration.api.door import open_door

Handler = Callable[[httpx.Request], Any]


class Cut(httpx.AsyncBaseTransport):
    """Lets each request through, but loses the answers that `lose` says, by their number."""

    def __init__(self, inner: httpx.AsyncBaseTransport, *lose: int) -> None:
        self._inner, self._lose = inner, lose
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        response = await self._inner.handle_async_request(request)
        if len(self.requests) in self._lose:
            await response.aread()
            raise httpx.ReadError("the connection was cut")
        return response


def over(transport: httpx.AsyncBaseTransport) -> AsyncClient:
    """A client over this."""
    return AsyncClient(
        transport=HttpTransport("http://api", http=httpx.AsyncClient(transport=transport, base_url="http://api"))
    )


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(patience, "ASKING_S", 0.2)


@pytest.fixture
async def inner(store: Store) -> AsyncIterator[httpx.AsyncBaseTransport]:
    """The api of a store, without a server between."""
    door = open_door(store)
    yield door.http._transport
    await door.http.aclose()


async def test_an_answer_that_was_lost_does_not_double_the_job(inner: httpx.AsyncBaseTransport, store: Store) -> None:
    """Neither one job nor many, with or without a key of the user's."""
    cut = Cut(inner, 1, 3, 5)
    async with over(cut) as client:
        first = await client.enqueue_named("work", {"n": 1})
        many = await client.enqueue_many(Submission("work", {"n": n}) for n in range(3))
        keyed = await client.enqueue_named("work", idempotency_key="k")

    assert len(cut.requests) == 6
    events = await store.partitions[0].history.after("0-0", 100)
    made = [event.job_id for event in events if event.type == "job.submitted"]
    assert sorted(made) == sorted([first.id, *(handle.id for handle in many), keyed.id])


async def test_an_api_that_is_away_is_told_in_a_sentence() -> None:
    """After some tries, and soon: it may never have been there, however long the caller would wait."""
    calls: list[int] = []

    def nobody(_: httpx.Request) -> httpx.Response:
        calls.append(1)
        raise httpx.ConnectError("refused")

    async with over(httpx.MockTransport(nobody)) as client:
        with pytest.raises(Unavailable, match=r"the api at http://api does not answer \(refused\)"):
            await client.get("x")
        with pytest.raises(Unavailable, match="check the address"):
            await client.wait("x", 3600)
        with pytest.raises(Unavailable, match="check the address"):
            await client.wait("x")
    assert len(calls) > 3


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (httpx.Response(401, json={"error": {"code": "UNAUTHORIZED", "message": "No.", "details": []}}),
         Unauthorized, "Give the client a token, or set TASKFLOW_API_TOKEN"),
        (httpx.Response(503, json={"error": {"code": "UNAVAILABLE", "message": "Full.", "details": []}}),
         Unavailable, "Full."),
        (httpx.Response(500, text="<html>"), Refused, "answered 500, which TaskFlow would not; check the address"),
        (httpx.Response(200, text="<html>"), Refused, "answered 200, which TaskFlow would not; check the address"),
    ],
)  # fmt: skip
async def test_what_else_may_answer(answer: httpx.Response, error: type[Exception], words: str) -> None:
    """Another server, one without room, one that asks for a token."""
    async with over(httpx.MockTransport(lambda _: answer)) as client:
        with pytest.raises(error, match=words):
            await client.get("x")


async def test_output_is_followed_across_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """From where it was, without a gap or a repetition; characters that look like the end of a line are none."""
    texts = ["one\u2028\u0085", "two"]
    asked: list[str] = []

    def event(number: int) -> str:
        about = f'"id":"{number}-0","stream":"stdout","attempt":1,"at":"2026-01-02T03:04:05.678Z"'
        item = f'{{{about},"text":"{texts[number - 1]}"}}'
        return f"id: {number}-0\nevent: log\ndata: {item}\n\n"

    def serve(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/stream"):
            return httpx.Response(200, json=JOB)
        asked.append(request.headers["Last-Event-ID"])
        body = event(1) if len(asked) == 1 else event(2) + "event: end\ndata: {}\n\n"
        return httpx.Response(200, text=body, headers={"Content-Type": "text/event-stream"})

    async with over(httpx.MockTransport(serve)) as client:
        seen = [entry.text async for entry in client.logs("x", follow=True)]

    assert seen == texts
    assert asked == ["0-0", "1-0"]


async def test_waiting_goes_on_while_the_api_or_its_broker_is_away() -> None:
    """Longer than other questions are repeated, once the api has answered; with or without a deadline."""
    ended = {**JOB, "status": "COMPLETED", "result": 7}
    began: dict[str, float] = {}

    def serve(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/wait"):
            return httpx.Response(200, json=JOB)
        away_s = time.monotonic() - began.setdefault("at", time.monotonic())
        if away_s < 4 * patience.ASKING_S:
            if int(away_s * 100) % 2:
                raise httpx.ConnectError("refused")
            return httpx.Response(503, json=BROKER_AWAY)
        return httpx.Response(200, json=ended)

    async with over(httpx.MockTransport(serve)) as client:
        assert (await client.job("x")).status == "RUNNING"
        assert await client.result("x", 60) == 7
        began.clear()
        assert await client.result("x") == 7


async def test_waiting_ends_at_its_deadline_with_the_last_word_of_the_api() -> None:
    """Which is not that the api does not answer."""

    def serve(request: httpx.Request) -> httpx.Response:
        return httpx.Response(503, json=BROKER_AWAY) if "/wait" in request.url.path else httpx.Response(200, json=JOB)

    async with over(httpx.MockTransport(serve)) as client:
        await client.job("x")
        with pytest.raises(Unavailable, match=r"^The broker is away; try again soon\.$"):
            await client.result("x", 1)


async def test_a_quiet_stream_may_be_cut_any_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the api says that it lives, nothing is lost; when only its broker is away, it is its word that counts."""
    monkeypatch.setattr(patience, "WAITING_S", 0.5)
    answers = [httpx.Response(200, text="retry: 1000\n\n: keep-alive\n\n") for _ in range(20)]
    answers.append(httpx.Response(200, text="retry: 1000\n\nevent: end\ndata: {}\n\n"))

    def serve(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/stream"):
            return httpx.Response(200, json=JOB)
        return answers.pop(0) if answers else httpx.Response(503, json=BROKER_AWAY)

    async with over(httpx.MockTransport(serve)) as client:
        assert [entry async for entry in client.logs("x", follow=True)] == []
        assert answers == []
        with pytest.raises(Unavailable, match=r"^The broker is away; try again soon\.$"):
            [entry async for entry in client.logs("x", follow=True)]


@pytest.fixture
async def slow_api() -> AsyncIterator[str]:
    """A server at which waiting takes as long as it may, and any other question no time."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            while (await reader.readline()).strip():
                pass
            path = urlsplit(line.split()[1].decode())
            if path.path.endswith("/wait"):
                await asyncio.sleep(float(parse_qs(path.query)["timeout_s"][0]))
            body = orjson.dumps(JOB)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


async def test_those_who_wait_keep_nobody_waiting(slow_api: str) -> None:
    """Neither the other questions of their client nor, beyond any number of connections, one another."""
    async with AsyncClient(slow_api) as client:
        waiting = [asyncio.create_task(client.result("x")) for _ in range(150)]
        await asyncio.sleep(0.5)
        began = time.monotonic()
        await client.job("x")
        assert time.monotonic() - began < 5
        for task in waiting:
            task.cancel()


async def test_more_may_wait_than_there_are_connections(slow_api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take turns, and keep their deadlines."""
    monkeypatch.setattr(connections, "WAITS", 2)
    monkeypatch.setattr(connections, "CROWDED_S", 0.05)

    async with AsyncClient(slow_api) as client:
        began = time.monotonic()
        ends = await asyncio.gather(*(client.wait("x", 1.0) for _ in range(20)), return_exceptions=True)

    assert {type(end) for end in ends} == {TimeoutError}
    assert 0.9 < time.monotonic() - began < 5


BROKER_AWAY = {"error": {"code": "UNAVAILABLE", "message": "The broker is away; try again soon.", "details": []}}
JOB: dict[str, Any] = {
    "id": "x", "name": "n", "queue": "q", "priority": 5, "payload": {}, "status": "RUNNING", "dependencies": [],
    "type": "task", "task": None, "worker": None, "owner": None, "timeout_s": None, "result": None, "error": None,
    "progress": None, "attempt_count": 1, "created_at": "2026-01-02T03:04:05.678Z", "scheduled_at": None,
    "started_at": None, "finished_at": None, "expires_at": None,
}  # fmt: skip
