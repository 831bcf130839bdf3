"""A service as a process: how it starts, waits for its broker, stops, and dies, with real signals.

Run as a program, this file is a service that behaves as its argument says.
"""

import asyncio
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from taskflow_runtime import Service, Settings, run, stop
from taskflow_runtime.health import Receive, Scope, Send
from taskflow_streams.embedded import EmbeddedServer

DEADLINE_S = 30.0  # for anything; a busy machine takes seconds to load Python
NOWHERE = "redis://127.0.0.1:1/0"


# --- the service that is tested ---------------------------------------------------------------------------------------


async def ticking(service: Service[Settings]) -> None:
    await service.every(0.05, service.store.ping)


async def finishing(service: Service[Settings]) -> None:
    """Has something in hand that takes until SIGUSR1."""
    done = released()
    service.log.info("work.taken")
    await service.stopping.wait()
    service.log.info("nothing.new")
    await done.wait()
    service.log.info("work.finished")


async def stubborn(service: Service[Settings]) -> None:
    """Does not stop by itself, and gives back what it has when it is made to."""
    service.log.info("work.taken")
    try:
        await asyncio.Event().wait()
    finally:
        await service.store.ping()
        service.log.info("work.given_back")


async def wedged(service: Service[Settings]) -> None:
    """Will not be cancelled."""
    service.log.info("work.taken")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            service.log.info("not.me")


async def blocking(service: Service[Settings]) -> None:
    """Holds up the event loop, for ever."""
    service.log.info("work.taken")
    spin()


def spin() -> None:
    while True:
        time.sleep(0.01)


async def crashing(service: Service[Settings]) -> None:
    service.log.info("work.taken")
    raise ZeroDivisionError("as expected")


async def beside(service: Service[Settings]) -> None:
    """Leaves everything to loops in the background."""
    service.background(lambda: service.every(0.05, service.store.ping), "pings")
    service.log.info("work.taken")


async def serving(service: Service[Settings]) -> None:
    """Has an application of its own, which answers after SIGUSR1."""
    done = released()

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        service.log.info("request.taken")
        await done.wait()
        await service.store.ping()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'{"answer": 42}'})

    await service.serve(answer)


def released() -> asyncio.Event:
    """Set by SIGUSR1."""
    done = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, done.set)
    return done


MAINS = [ticking, finishing, stubborn, wedged, blocking, crashing, beside, serving]


# --- watching it ------------------------------------------------------------------------------------------------------


class Process:
    """A running service, its log lines, and its answers."""

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str], pass_fds: tuple[int, ...] = ()) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TASKFLOW_")}
        self._popen = subprocess.Popen(
            [sys.executable, *command],
            cwd=cwd,
            env=inherited | env,
            pass_fds=pass_fds,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._popen.pid
        self.seen: list[dict[str, Any]] = []
        self._lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def line(self, event: str) -> dict[str, Any]:
        """The next log line with this event."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                line = self._lines.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"no {event} within {DEADLINE_S:g} s, only {self.seen}")
            if line is None:
                pytest.fail(f"ended without {event}, after {self.seen}: {self.stderr()}")
            self.seen.append(line)
            if line["event"] == event:
                return line

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        """Status and body of an answer."""
        url = next(line["url"] for line in self.seen if line["event"] == "service.starting")
        try:
            with urllib.request.urlopen(url + path, timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def signal(self, number: int) -> None:
        self._popen.send_signal(number)

    def wait(self) -> int:
        """Its exit status."""
        return self._popen.wait(DEADLINE_S)

    def running(self) -> bool:
        return self._popen.poll() is None

    def stderr(self) -> str:
        assert self._popen.stderr is not None
        return self._popen.stderr.read()

    def events(self) -> list[str]:
        """All events of a process that has ended."""
        while (line := self._lines.get(timeout=DEADLINE_S)) is not None:
            self.seen.append(line)
        return [line["event"] for line in self.seen]

    def end(self) -> None:
        if self.running():
            self._popen.kill()
        self._popen.wait()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for text in self._popen.stdout:
            self._lines.put(json.loads(text))
        self._lines.put(None)


Start = Callable[..., Process]


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, with a deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S:g} s: {what}"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedServer]:
    with EmbeddedServer.temporary() as server:
        yield server


@pytest.fixture
def start(broker: EmbeddedServer, tmp_path: Path) -> Iterator[Start]:
    """Start a service of this file; it is gone after the test."""
    started: list[Process] = []

    def begin(
        kind: Callable[..., object],
        /,
        redis_url: str | None = broker.url,
        pass_fds: tuple[int, ...] = (),
        **more: object,
    ) -> Process:
        settings = more if redis_url is None else more | {"redis_url": redis_url}
        env = {f"TASKFLOW_{name.upper()}": str(value) for name, value in settings.items()}
        started.append(Process([__file__, kind.__name__], tmp_path, env=env, pass_fds=pass_fds))
        return started[-1]

    yield begin
    for process in started:
        process.end()


# --- how it stops -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("kind", [ticking, beside])
def test_a_loop_ends_cleanly_at_the_first_signal(start: Start, kind: Callable[..., object], number: int) -> None:
    """Exit status 0, and the lines that tell a stop from a crash."""
    service = start(kind)
    service.line("service.started")

    service.signal(number)

    assert service.wait() == 0
    assert service.events()[-2:] == ["service.stopping", "service.stopped"]
    assert service.seen[-2]["reason"] == signal.Signals(number).name
    assert service.stderr() == ""


def test_the_first_signal_lets_work_in_hand_be_finished(start: Start) -> None:
    """Nothing new is taken, readiness ends, and what was begun comes to its end."""
    service = start(finishing)
    service.line("work.taken")
    assert service.get("/readyz")[0] == 200

    service.signal(signal.SIGTERM)
    service.line("nothing.new")
    assert service.get("/readyz")[1]["reason"] == "stopping"
    assert service.get("/healthz")[0] == 200
    service.signal(signal.SIGUSR1)

    assert service.wait() == 0
    assert "work.finished" in service.events()


def test_a_second_signal_ends_the_process_at_once(start: Start) -> None:
    """Whoever insists is obeyed; the status is the signal's."""
    service = start(finishing, stop_grace_s=3600)
    service.line("work.taken")
    service.signal(signal.SIGTERM)
    service.line("nothing.new")

    def insist() -> bool:
        service.signal(signal.SIGINT)
        return not service.running()

    until(insist, "the end after a second signal")

    assert service.wait() == 128 + signal.SIGINT
    assert "work.finished" not in service.events()


def test_a_second_signal_ends_even_a_process_that_is_stuck(start: Start) -> None:
    """A handler that never yields cannot keep the process from obeying."""
    service = start(blocking, stop_grace_s=3600)
    service.line("work.taken")

    def insist() -> bool:
        service.signal(signal.SIGTERM)
        return not service.running()

    until(insist, "the end of a stuck process")

    assert service.wait() == 128 + signal.SIGTERM


def test_signals_that_come_together_are_one(start: Start) -> None:
    """Ctrl-C reaches the process from the terminal and, at the same moment, from whoever started it."""
    service = start(ticking)
    service.line("service.started")

    service.signal(signal.SIGINT)
    service.signal(signal.SIGTERM)

    assert service.wait() == 0


def test_when_the_grace_is_over_the_work_goes_back(start: Start) -> None:
    """main is cancelled, and may still talk to the broker to give back what it holds."""
    service = start(stubborn, stop_grace_s=0.1)
    service.line("work.taken")

    service.signal(signal.SIGTERM)

    assert service.wait() == 0
    assert service.events()[-4:] == ["service.stopping", "work.given_back", "service.cut_short", "service.stopped"]


@pytest.mark.parametrize("kind", [wedged, blocking])
def test_nothing_holds_the_process_for_ever(start: Start, kind: Callable[..., object]) -> None:
    """Neither a main that will not be cancelled nor a loop that is stuck; the status says that it was not clean."""
    service = start(kind, stop_grace_s=0.1)
    service.line("work.taken")

    service.signal(signal.SIGTERM)

    assert service.wait() == 1
    assert "Timeout (0:00:00." in service.stderr()  # and the stack of every thread


def test_a_request_in_hand_is_answered_before_the_end(start: Start) -> None:
    """The application answers at the service's one address, and its broker is there until the last answer."""
    service = start(serving)
    service.line("api.listening")

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(service.get, "/question")
        service.line("request.taken")
        service.signal(signal.SIGTERM)
        service.line("service.stopping")
        service.signal(signal.SIGUSR1)

        assert answer.result(DEADLINE_S) == (200, {"answer": 42})
    assert service.wait() == 0
    assert "service.cut_short" not in service.events()


def test_a_crash_is_told_and_has_a_status(start: Start) -> None:
    """One line with the traceback inside, and status 1, so that a supervisor starts it again."""
    service = start(crashing)

    assert service.wait() == 1
    assert service.events()[-3:] == ["service.crashed", "service.stopping", "service.stopped"]
    crash = next(line for line in service.seen if line["event"] == "service.crashed")
    assert crash["exception"]["type"] == "ZeroDivisionError"
    assert service.stderr() == ""


def test_a_service_does_not_outlive_its_supervisor(start: Start) -> None:
    """When the other end of the pipe is closed, however that came about, the process is gone."""
    reading, writing = os.pipe()
    service = start(finishing, stop_grace_s=3600, parent_fd=reading, pass_fds=(reading,))
    os.close(reading)
    service.line("work.taken")

    os.close(writing)

    assert service.wait() == 1
    assert "service.stopping" not in service.events()


# --- how it starts ----------------------------------------------------------------------------------------------------


def test_the_process_has_a_name(start: Start) -> None:
    """`ps` shows which service it is."""
    service = start(ticking)
    service.line("service.started")

    assert psutil.Process(service.pid).cmdline()[0] == "taskflow ticking"


@pytest.mark.parametrize(
    ("settings", "status", "told"),
    [
        ({"partitions": "0"}, 2, "TASKFLOW_PARTITIONS is '0', but must be a whole number from 1 to 1024."),
        ({"parent_fd": "x"}, 2, "TASKFLOW_PARENT_FD is 'x', but must be the number of an open pipe."),
        ({"health_host": "192.0.2.1"}, 2, "Cannot listen on 192.0.2.1:0: this machine has no such address."),
    ],
)
def test_a_bad_setting_ends_the_start_with_a_sentence(
    start: Start, settings: dict[str, Any], status: int, told: str
) -> None:
    """One line on stderr, no traceback, and a status of its own."""
    service = start(ticking, **settings)

    assert service.wait() == status
    assert service.stderr().splitlines()[0].startswith(f"taskflow ticking: {told}")
    assert "service.started" not in service.events()


def test_a_port_that_is_taken_ends_the_start_with_a_sentence(start: Start) -> None:
    """With the setting that helps."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        service = start(ticking, health_port=other.getsockname()[1])

        assert service.wait() == 2
    assert "another program has it. Change TASKFLOW_HEALTH_PORT" in service.stderr()


def test_an_unfit_server_is_refused_with_a_sentence(start: Start) -> None:
    """A server that may throw jobs away is not used; status 3."""
    with EmbeddedServer.temporary(options={"maxmemory-policy": "allkeys-lru"}) as evicting:
        service = start(ticking, redis_url=evicting.url)

        assert service.wait() == 3
    (sentence,) = service.stderr().splitlines()
    assert sentence.startswith("taskflow ticking: ")
    assert "maxmemory-policy is allkeys-lru" in sentence


def test_a_database_of_another_kind_is_mentioned(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who meant it as the broker learns why it is not used; its password is not told."""
    monkeypatch.setenv("DATABASE_URL", "postgres://app:hunter2@db/app")
    service = start(ticking, redis_url=None)

    assert "a postgres URL is no broker" in service.line("setting.ignored")["reason"]
    assert "hunter2" not in str(service.seen)


# --- the broker -------------------------------------------------------------------------------------------------------


def test_a_service_waits_for_its_broker(start: Start, tmp_path: Path) -> None:
    """Alive but not ready while there is none, and at work as soon as there is one."""
    late = EmbeddedServer(tmp_path / "data", durable=False)
    service = start(ticking, redis_url=late.url)
    service.line("broker.unavailable")

    assert service.get("/healthz") == (200, {"status": "alive", "component": "ticking"})
    status, body = service.get("/readyz")
    assert (status, body["reason"]) == (503, "the broker has not been reached yet")

    with late:
        service.line("service.started")
        assert service.get("/readyz")[0] == 200


def test_a_service_that_waits_for_its_broker_can_be_stopped(start: Start) -> None:
    """At once, and cleanly: there is nothing in hand."""
    service = start(ticking, redis_url=NOWHERE, stop_grace_s=3600)
    service.line("broker.unavailable")

    service.signal(signal.SIGTERM)

    assert service.wait() == 0
    assert "service.started" not in service.events()


def test_a_service_survives_an_outage(start: Start, tmp_path: Path) -> None:
    """It is told once, readiness ends and comes back, and the process is the same."""
    with EmbeddedServer(tmp_path / "data", durable=False) as server:
        service = start(ticking, redis_url=server.url, ready_within_s=0.5)
        service.line("service.started")

        server.kill()
        service.line("broker.unavailable")
        until(lambda: service.get("/readyz")[0] == 503, "unready")
        assert service.get("/readyz")[1]["last_broker_read_s"] >= 0.5
        assert service.get("/healthz")[0] == 200

        server.start()
        service.line("broker.recovered")
        until(lambda: service.get("/readyz")[0] == 200, "ready again")
        service.signal(signal.SIGTERM)
        assert service.wait() == 0
    assert service.events().count("broker.unavailable") == 1


if __name__ == "__main__":
    chosen = next(main for main in MAINS if main.__name__ == sys.argv[1])
    if chosen in (wedged, blocking):
        stop.HAND_BACK_S = 0.2  # a test waits for it to pass
    run(chosen.__name__, Settings, chosen)
