"""What stands before and around the routes: the token, the paths, health, outages, and the net under it all."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from taskflow_api.context import Headroom
from taskflow_streams import Full, Store, Unavailable
from taskflow_streams.embedded import EmbeddedServer
from tests.integration.api.door import JOBS, NOBODY, SCHEDULES, Door, Json, open_door, refused
from tests.support.engine import an_ended_job

TOKEN = "s3cret"


@pytest.fixture
async def guarded(store: Store) -> AsyncIterator[Door]:
    """An api that asks for a token."""
    opened = open_door(store, api_token=TOKEN)
    async with opened.http:
        yield opened


# --- the token --------------------------------------------------------------------------------------------------------

PATHS = [JOBS, f"{JOBS}/{NOBODY}", "/api/v1/queues", "/metrics", "/docs", "/redoc", "/openapi.json", "/nowhere"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Bearer wrong",
     f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, f"Basic {TOKEN}", "Bearer \xff"],
)  # fmt: skip
async def test_everything_needs_the_token(guarded: Door, path: str, header: str | None) -> None:
    """Also the documentation, the metrics and what does not exist."""
    headers = [] if header is None else [(b"authorization", header.encode("latin-1"))]
    response = await guarded.http.get(path, headers=headers)

    refused(response, 401, "UNAUTHORIZED")
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"Bearer   {TOKEN} "])
async def test_the_token_opens(guarded: Door, header: str) -> None:
    """In the usual spellings."""
    assert (await guarded.http.get(JOBS, headers={"authorization": header})).status_code == 200


async def test_health_needs_no_token(guarded: Door) -> None:
    """Whoever watches over the process has none."""
    guarded.health.beat()
    for path in ("/healthz", "/readyz"):
        assert (await guarded.http.get(path)).status_code == 200


async def test_without_a_token_none_is_asked_for(door: Door) -> None:
    """An empty one is none."""
    assert (await door.http.get(JOBS, headers={"authorization": "Bearer whatever"})).status_code == 200
    assert (await open_door(door.store, api_token="").http.get(JOBS)).status_code == 200


# --- paths and methods ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/nowhere", f"{JOBS}/", f"{JOBS}/{NOBODY}/nothing", "/static-offline-docs/x"]
)
async def test_unknown_paths_are_not_found(door: Door, path: str) -> None:
    """In the one envelope."""
    refused(await door.http.get(path), 404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", JOBS, "GET, HEAD, POST"),
        ("PATCH", JOBS, "GET, HEAD, POST"),
        ("POST", f"{JOBS}/{NOBODY}", "GET, HEAD, PUT, DELETE"),
        ("GET", f"{JOBS}/{NOBODY}/cancel", "POST"),
        ("POST", "/api/v1/queues", "GET, HEAD"),
        ("GET", "/api/v1/queues/q", "PATCH"),
        ("POST", "/healthz", "GET, HEAD"),
        ("OPTIONS", JOBS, "GET, HEAD, POST"),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(door: Door, method: str, path: str, allow: str) -> None:
    """405 with Allow."""
    response = await door.http.request(method, path)

    refused(response, 405, "METHOD_NOT_ALLOWED")
    assert response.headers["allow"] == allow


async def test_head_answers_like_get_without_a_body(door: Door) -> None:
    """For everything that can be read."""
    job = await door.create()
    for path in (JOBS, f"{JOBS}/{job['id']}", "/healthz"):
        assert (await door.http.head(path)).status_code == 200


# --- health -----------------------------------------------------------------------------------------------------------


async def test_health_is_served_on_the_same_port(door: Door) -> None:
    """Alive at once, ready when the broker was read, and metrics for Prometheus."""
    assert (await door.http.get("/healthz")).json() == {"status": "alive", "component": "api"}
    assert (await door.http.get("/readyz")).status_code == 503
    door.health.beat()
    assert (await door.http.get("/readyz")).status_code == 200
    metrics = await door.http.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert "python_info" in metrics.text


# --- when the broker is away or full ----------------------------------------------------------------------------------


def body_for(method: str, path: str) -> Json:
    """A body that would be accepted."""
    if method == "PATCH" or path.endswith("/pause"):
        return {"reason": "why not"}
    if path.endswith(("/retry", "/trigger")):
        return {}
    if path.endswith("/backfill"):
        return {"from": "2026-01-01", "to": "2026-01-02"}
    if path.endswith("/schedules") or (method == "PUT" and "/schedules/" in path):
        return {"cron": "@daily", "job": {"name": "a", "queue": "q"}}
    job = {"name": "a", "queue": "q"}
    return {"jobs": [job]} if path.endswith("batch") else job


async def test_a_broker_that_is_away_is_503_until_it_is_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    """With Retry-After, for every operation; alive all the time; and then all is as before."""
    with EmbeddedServer(tmp_path_factory.mktemp("broker")) as broker:
        store = await Store.connect(broker.url)
        door = open_door(store)
        job = await door.create()
        broker.stop()
        one, schedule = f"{JOBS}/{job['id']}", f"{SCHEDULES}/{job['id']}"
        for method, path in (
            ("GET", one), ("PUT", one), ("DELETE", one), ("POST", JOBS), ("GET", JOBS), ("POST", f"{one}/cancel"),
            ("POST", f"{one}/retry"), ("GET", f"{one}/events"), ("GET", f"{one}/explain"), ("GET", "/api/v1/queues"),
            ("PATCH", "/api/v1/queues/q"), ("GET", "/api/v1/workers"), ("POST", f"{JOBS}/batch"),
            ("POST", SCHEDULES), ("GET", SCHEDULES), ("POST", "/schedules"), ("GET", schedule), ("PUT", schedule),
            ("DELETE", schedule), ("GET", f"{schedule}/history"), ("GET", f"{schedule}/preview"),
            ("GET", f"{SCHEDULES}/preview?cron=@daily"),
            *(("POST", f"{schedule}/{verb}") for verb in ("pause", "resume", "trigger", "backfill")),
        ):  # fmt: skip
            response = await door.http.request(method, path, json=body_for(method, path))
            refused(response, 503, "UNAVAILABLE")
            assert int(response.headers["retry-after"]) >= 1
        assert (await door.http.get("/healthz")).status_code == 200

        broker.start()
        assert await door.get(job["id"]) == job
        await store.close()


async def test_a_full_server_accepts_no_new_jobs(door: Door) -> None:
    """From 80 % of its memory on, what would grow is put off; what reads and shrinks still works."""
    ended, job = await an_ended_job(door.store), await door.create()
    body = body_for("PUT", f"{SCHEDULES}/nightly")
    assert (await door.http.put(f"{SCHEDULES}/nightly", json=body)).status_code == 201
    used, _ = await door.store.memory()
    try:
        await door.store.redis.config_set("maxmemory", int(used / 0.7))
        assert (await open_door(door.store).http.post(JOBS, json={"name": "a", "queue": "q"})).status_code == 201

        await door.store.redis.config_set("maxmemory", int(used / 0.81))
        full = open_door(door.store)
        nightly = f"{SCHEDULES}/nightly"
        for method, path in (
            ("POST", JOBS), ("POST", f"{JOBS}/batch"), ("POST", f"{JOBS}/{ended}/retry"), ("POST", SCHEDULES),
            ("POST", "/schedules"), ("PUT", f"{SCHEDULES}/new"), ("POST", f"{nightly}/trigger"),
            ("POST", f"{nightly}/backfill"),
        ):  # fmt: skip
            response = await full.http.request(method, path, json=body_for(method, path))
            refused(response, 503, "UNAVAILABLE")
            assert int(response.headers["retry-after"]) >= 1
        assert (await full.http.get(f"{JOBS}/{job['id']}")).status_code == 200
        assert (await full.http.put(f"{JOBS}/{job['id']}", json={"priority": 9})).status_code == 200
        assert (await full.http.post(f"{JOBS}/{job['id']}/cancel")).status_code == 200
        assert (await full.http.delete(f"{JOBS}/{job['id']}")).status_code == 204
        for method, path in (("GET", nightly), ("POST", f"{nightly}/pause"), ("POST", f"{nightly}/resume")):
            assert (await full.http.request(method, path)).status_code == 200
        assert (await full.http.delete(nightly)).status_code == 204
    finally:
        await door.store.redis.config_set("maxmemory", 0)


async def test_the_servers_memory_is_looked_at_once_a_second(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    """Not with every request; and a server without a limit is never full."""
    now, looks, limit = 0.0, 0, 0

    async def memory(_store: Store) -> tuple[int, int]:
        nonlocal looks
        looks += 1
        return 80, limit

    monkeypatch.setattr(Store, "memory", memory)
    headroom = Headroom(0.8, clock=lambda: now)
    for _ in range(5):
        await headroom.check(store)
    assert looks == 1

    now, limit = 0.99, 100
    await headroom.check(store)
    now = 1.0
    for _ in range(2):
        with pytest.raises(Exception, match="memory"):
            await headroom.check(store)
    assert looks == 2


@pytest.mark.parametrize("error", [Unavailable("gone"), Full("OOM")])
async def test_what_the_engine_cannot_do_now_is_503(
    door: Door, monkeypatch: pytest.MonkeyPatch, error: Unavailable
) -> None:
    """Whatever the operation; the message tells nothing of the inside."""

    async def fail(_store: Store, _jobs: object) -> None:
        raise error

    monkeypatch.setattr(Store, "create", fail)
    response = await door.http.post(JOBS, json={"name": "a", "queue": "q"})

    assert str(error) not in refused(response, 503, "UNAVAILABLE")["message"]
    assert int(response.headers["retry-after"]) >= 1


# --- the net ----------------------------------------------------------------------------------------------------------


async def test_a_bug_is_answered_politely_and_logged(
    door: Door, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client gets no traceback, and the log does."""

    async def break_down(_store: Store, _ids: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Store, "get", break_down)
    error = refused(await door.http.get(f"{JOBS}/{NOBODY}"), 500, "INTERNAL")

    assert "bug" not in str(error)
    printed = capsys.readouterr().out
    assert "request.failed" in printed
    assert "ZeroDivisionError" in printed


async def test_a_slow_request_is_logged(door: Door, capsys: pytest.CaptureFixture[str]) -> None:
    """And the others are not."""
    await door.http.get("/healthz")
    assert capsys.readouterr().out == ""
    await open_door(door.store, slow_request_s=1e-9).http.get("/healthz")
    assert "request.slow" in capsys.readouterr().out


async def test_hundreds_of_requests_at_once_are_all_served(door: Door) -> None:
    """More than there are connections: some wait, none is refused."""
    job = await door.create()
    responses = await asyncio.gather(*(door.http.get(f"{JOBS}/{job['id']}") for _ in range(200)))

    assert {response.status_code for response in responses} == {200}
