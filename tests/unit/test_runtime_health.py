"""Health: alive while the loop answers, ready while the broker is read."""

import socket
from collections.abc import AsyncIterator

import httpx
import orjson
import pytest

from taskflow_runtime.errors import AddressTaken
from taskflow_runtime.health import Health, Receive, Scope, Send
from taskflow_runtime.settings import Address
from taskflow_runtime.web import Web, listen


class Clock:
    """Time that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health("worker", ready_within_s=10, clock=clock)


@pytest.fixture
async def web(health: Health) -> AsyncIterator[Web]:
    """The health answers on a port of their own."""
    web = Web(listen(Address("127.0.0.1", 0, "TASKFLOW_HEALTH_PORT")), health.app)
    web.start()
    yield web
    await web.stop()


@pytest.fixture
async def client(web: Web) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=web.url) as client:
        yield client


def test_a_service_is_not_ready_before_it_has_read(health: Health) -> None:
    """Nothing was read yet: alive, but not ready."""
    assert health.alive().status == 200
    answer = health.ready()

    assert answer.status == 503
    assert orjson.loads(answer.body) == {
        "status": "unready",
        "component": "worker",
        "last_broker_read_s": None,
        "reason": "the broker has not been reached yet",
    }


def test_readiness_ends_when_the_beats_stop(health: Health, clock: Clock) -> None:
    """Ready up to ten seconds after a beat, unready after, ready again with the next."""
    health.beat()
    clock.now += 10
    assert health.ready().status == 200

    clock.now += 2.34
    answer = health.ready()
    assert answer.status == 503
    assert orjson.loads(answer.body) == {
        "status": "unready",
        "component": "worker",
        "last_broker_read_s": 12.3,
        "reason": "the broker was last read more than 10 s ago",
    }
    assert health.alive().status == 200

    health.beat()
    assert health.ready().status == 200


def test_a_stopping_service_is_not_ready(health: Health) -> None:
    """Who sends it work should turn to another."""
    health.beat()
    health.stopping = True

    assert health.ready().status == 503
    assert orjson.loads(health.ready().body)["reason"] == "stopping"


async def test_the_three_paths_are_served(client: httpx.AsyncClient, health: Health) -> None:
    """Over HTTP, with the content types that probes and scrapers expect."""
    assert (await client.get("/healthz")).json() == {"status": "alive", "component": "worker"}
    assert (await client.get("/readyz")).status_code == 503

    health.beat()
    ready = await client.get("/readyz")
    assert ready.status_code == 200
    assert ready.headers["content-type"] == "application/json"

    metrics = await client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=")
    assert "python_info" in metrics.text


async def test_other_requests_are_refused_politely(client: httpx.AsyncClient, health: Health) -> None:
    """503 while the service comes up, for the path may be its own; then 404.  Only GET and HEAD."""
    assert (await client.get("/api/v1/jobs")).status_code == 503

    health.beat()
    assert (await client.get("/api/v1/jobs")).status_code == 404
    assert (await client.post("/readyz")).status_code == 405

    head = await client.head("/readyz")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) > 0


async def test_another_application_can_take_over(client: httpx.AsyncClient, web: Web) -> None:
    """The port stays the same, and no request is refused meanwhile."""

    async def hello(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello from " + scope["path"].encode()})

    assert (await client.get("/jobs")).status_code == 503

    web.mount(hello)

    assert (await client.get("/jobs")).text == "hello from /jobs"


async def test_stopping_the_server_twice_is_stopping_it_once(web: Web) -> None:
    """The api stops it before the store is closed, and the service's end does so again."""
    await web.stop()
    await web.stop()

    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{web.url}/healthz")


def test_a_port_that_is_taken_is_told_in_a_sentence() -> None:
    """With the setting that helps."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(AddressTaken) as refusal:
            listen(Address("127.0.0.1", port, "TASKFLOW_HEALTH_PORT"))

    assert str(refusal.value) == (
        f"Cannot listen on 127.0.0.1:{port}: another program has it. Change TASKFLOW_HEALTH_PORT (0 finds a free port)."
    )


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_an_address_that_is_not_ours_is_told_in_a_sentence(host: str) -> None:
    """A name that means nothing, an address of another machine."""
    with pytest.raises(AddressTaken, match=f"Cannot listen on {host}"):
        listen(Address(host, 0, "TASKFLOW_HEALTH_PORT"))
