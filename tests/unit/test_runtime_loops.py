"""Loops: a step may fail in any way, and the loop goes on; a stop ends it at once."""

import asyncio
import io
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, cast

import orjson
import pytest

from taskflow_runtime import Service, Settings, logs, loops
from taskflow_runtime.loops import Backoff, Outage, summary
from taskflow_runtime.slim_structlog import structlog
from taskflow_streams import Store, Unavailable


@dataclass(frozen=True)
class SweptUp:
    """What a step did."""

    reclaimed: int = 0
    expired: int = 0


class FakeStore:
    """A broker that answers as long as it is told to."""

    def __init__(self) -> None:
        self.pinged = asyncio.Semaphore(0)

    async def ping(self) -> None:
        self.pinged.release()


class Script:
    """A step that does these things in turn, then asks for the stop."""

    def __init__(self, service: Service[Settings], *acts: object) -> None:
        self._service, self._acts = service, list(acts)
        self.taken = 0
        self.begun = asyncio.Event()

    async def run_once(self) -> object:
        self.taken += 1
        self.begun.set()
        if not self._acts:
            self._service.stopping.set()
            return None
        act = self._acts.pop(0)
        if isinstance(act, BaseException):
            raise act
        return act


Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses as before, a hundred times shorter."""
    monkeypatch.setattr(loops, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(loops, "LONGEST_PAUSE_S", 0.05)


@pytest.fixture
async def lines() -> AsyncIterator[Lines]:
    """What is logged."""
    out, root = io.BytesIO(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    logs.configure("reaper", level="debug", out=out)
    yield lambda: [orjson.loads(line) for line in out.getvalue().splitlines()]
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def service(lines: Lines, store: FakeStore) -> Service[Settings]:
    return Service("reaper", Settings(), cast(Store, store))


async def loop(service: Service[Settings], kind: str, script: Script) -> None:
    """Run the script in one of the two loops, to its end."""
    async with asyncio.timeout(10):
        if kind == "every":
            await service.every(0.001, script.run_once)
        else:
            await service.consume(script.run_once)


both = pytest.mark.parametrize("kind", ["every", "consume"])


@both
async def test_a_loop_survives_errors(service: Service[Settings], lines: Lines, kind: str) -> None:
    """Each error is told with its traceback, and the next step is taken."""
    script = Script(service, ValueError("first"), KeyError("second"), None)

    await loop(service, kind, script)

    assert script.taken == 4
    failed = [line for line in lines() if line["event"] == "step.failed"]
    assert [line["exception"]["type"] for line in failed] == ["ValueError", "KeyError"]
    assert failed[0]["step"] == "Script.run_once"


@both
async def test_an_outage_is_told_once_and_so_is_its_end(service: Service[Settings], lines: Lines, kind: str) -> None:
    """However many steps fail meanwhile; a second outage is told again."""
    gone = Unavailable("connection refused")
    script = Script(service, gone, gone, gone, None, gone, None)

    await loop(service, kind, script)

    assert [line["event"] for line in lines()] == ["broker.unavailable", "broker.recovered"] * 2
    assert lines()[0]["error"] == "connection refused"


@both
async def test_only_a_step_that_succeeded_is_a_beat(service: Service[Settings], kind: str) -> None:
    """Readiness is about what was read, not about what was tried."""
    ready_after: list[int] = []

    async def step() -> None:
        ready_after.append(service.health.ready().status)
        if len(ready_after) == 1:
            raise Unavailable("not yet")
        if len(ready_after) == 3:
            service.stopping.set()

    async with asyncio.timeout(10):
        await (service.every(0.001, step) if kind == "every" else service.consume(step))

    assert ready_after == [503, 503, 200]


async def test_what_a_step_did_is_told_with_its_fields(service: Service[Settings], lines: Lines) -> None:
    """At info for a tick, at debug for a step that may run a thousand times a second; nothing when nothing was done."""
    await loop(service, "every", Script(service, SweptUp(reclaimed=3), SweptUp(), None, True, 0))
    assert [line["event"] for line in lines()] == ["reaper.swept_up"]
    assert (lines()[0]["level"], lines()[0]["reclaimed"]) == ("info", 3)
    assert "expired" not in lines()[0]

    service.stopping.clear()
    await loop(service, "consume", Script(service, SweptUp(expired=1)))
    assert (lines()[1]["level"], lines()[1]["expired"]) == ("debug", 1)


async def test_a_stop_does_not_wait_for_the_next_tick(service: Service[Settings]) -> None:
    """A tick of an hour ends when the stop comes."""
    script = Script(service, None)
    ticking = asyncio.create_task(service.every(3600, script.run_once))
    await script.begun.wait()

    service.stopping.set()

    await asyncio.wait_for(ticking, 5)
    assert script.taken == 1


async def test_a_loop_can_outlast_the_stop(service: Service[Settings]) -> None:
    """Heartbeats go on while the last jobs are finished; an event of their own ends them."""
    drained, beats = asyncio.Event(), 0

    async def heartbeat() -> None:
        nonlocal beats
        beats += 1
        if beats == 3:
            drained.set()

    service.stopping.set()
    async with asyncio.timeout(10):
        await service.every(0.001, heartbeat, until=drained)

    assert beats == 3


async def test_a_long_pause_keeps_the_service_ready(store: FakeStore, lines: Lines) -> None:
    """The broker is asked between two ticks that are further apart than readiness lasts."""
    service = Service("reaper", Settings(ready_within_s=0.02), cast(Store, store))
    script = Script(service, None)
    ticking = asyncio.create_task(service.every(3600, script.run_once))

    async with asyncio.timeout(10):
        for _ in range(3):
            await store.pinged.acquire()

    assert script.taken == 1
    service.stopping.set()
    await asyncio.wait_for(ticking, 5)


async def test_a_background_loop_that_crashes_is_started_again(service: Service[Settings], lines: Lines) -> None:
    """It is told by its name; the service ends when the loop has come to its own end."""
    starts = 0

    async def shaky() -> None:
        nonlocal starts
        starts += 1
        if starts == 1:
            raise RuntimeError("no luck")
        if starts == 2:
            raise Unavailable("gone")

    service.background(shaky, "shaky")
    await asyncio.wait_for(service.join(), 10)

    assert starts == 3
    crashed, gone = lines()
    assert (crashed["event"], crashed["background"]) == ("background.crashed", "shaky")
    assert gone["event"] == "broker.unavailable"


async def test_background_loops_can_be_abandoned(service: Service[Settings]) -> None:
    """What does not end by itself is cancelled, and gets to clean up."""
    cleaned = asyncio.Event()
    started = asyncio.Event()

    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    service.background(endless, "endless")
    await started.wait()
    await service.abandon()

    assert cleaned.is_set()


def test_pauses_grow_to_a_limit_and_vary(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 0.1 s, doubling, up to 5 s, each at least half of that; small again after a success."""
    monkeypatch.setattr(loops, "FIRST_PAUSE_S", 0.1)
    monkeypatch.setattr(loops, "LONGEST_PAUSE_S", 5.0)
    backoff = Backoff()

    pauses = [backoff.pause() for _ in range(10)]

    for pause, ceiling in zip(pauses, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5, 5], strict=True):
        assert ceiling / 2 <= pause <= ceiling
    assert len(set(pauses)) == 10
    backoff.reset()
    assert backoff.pause() <= 0.1


async def test_a_long_outage_can_be_told_again(lines: Lines) -> None:
    """While a service waits for its first connection, somebody may be looking for the reason."""
    now = 0.0
    outage = Outage(logs.get_log(), remind_s=30, clock=lambda: now)

    for second in range(0, 61, 10):
        now = float(second)
        outage.failed(Unavailable("refused"))
    outage.passed()
    outage.passed()

    assert [(line["event"], line.get("for_s", line.get("after_s"))) for line in lines()] == [
        ("broker.unavailable", 0.0),
        ("broker.unavailable", 30.0),
        ("broker.unavailable", 60.0),
        ("broker.recovered", 60.0),
    ]


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (SweptUp(reclaimed=1, expired=2), ("swept_up", {"reclaimed": 1, "expired": 2})),
        (7, ("FakeStore.ping", {"result": 7})),
        ([], ("", {})),
        (None, ("", {})),
        (True, ("", {})),
    ],
)
def test_results_become_fields(result: object, told: tuple[str, dict[str, Any]]) -> None:
    """A dataclass by its fields, anything else as `result`, nothing as nothing."""
    assert summary(FakeStore().ping, result) == told
