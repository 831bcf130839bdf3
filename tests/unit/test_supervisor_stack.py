"""The stack, with stand-ins for the services: it keeps them running and leaves nothing behind."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from structlog.testing import capture_logs

from taskflow.supervisor import stack as stack_module
from taskflow.supervisor.child import Child, Lifeline
from taskflow.supervisor.plan import START_ORDER, Program
from taskflow.supervisor.ports import find_free
from taskflow.supervisor.stack import Stack
from taskflow_runtime.logs import get_log
from taskflow_streams.embedded import EmbeddedServer

FAKE = Path(__file__).with_name("fake_service.py")
DEADLINE_S = 30.0


class Scene:
    """A stack of stand-ins, and what they wrote down."""

    def __init__(self, tmp_path: Path, server: EmbeddedServer | None = None, **modes: str) -> None:
        self.journal = tmp_path / "journal"
        self.lines: list[bytes] = []
        services = [(name, port, modes.get(name, "")) for name, port in zip(START_ORDER, find_free(6), strict=True)]
        self.children = [Child(self._program(*each), self.lines.append, get_log(), Lifeline()) for each in services]
        self.stack = Stack(self.children, server, get_log(), grace_s=2.0)
        self.ready = asyncio.Event()

    def _program(self, name: str, port: int, mode: str) -> Program:
        command = (sys.executable, str(FAKE), name, str(port), str(self.journal), mode)
        return Program(name, name, command, {}, "127.0.0.1", port)

    def noted(self, event: str) -> list[tuple[str, int]]:
        """(name, pid) of each entry of the journal about this event, in order."""
        entries = [line.split() for line in self.journal.read_text().splitlines()] if self.journal.exists() else []
        return [(name, int(pid)) for kind, name, pid in entries if kind == event]

    @asynccontextmanager
    async def running(self) -> AsyncIterator["asyncio.Task[bool]"]:
        """The stack from the moment when all are ready; stopped at the end if the test has not done so."""
        run = asyncio.create_task(self.stack.run(self.ready.set))
        try:
            await eventually(lambda: self.ready.is_set() or run.done(), "ready")
            yield run
        finally:
            self.stack.request_stop()
            await asyncio.wait_for(run, DEADLINE_S)


async def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE_S} s"
        await asyncio.sleep(0.01)


def is_gone(pid: int) -> bool:
    """Whether no process with this id runs."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_all_are_ready_before_it_says_so_and_their_output_is_shown(tmp_path: Path) -> None:
    """Ready means that every single one has said so."""
    scene = Scene(tmp_path)

    async with scene.running():
        assert all(child.ready.is_set() for child in scene.children)
        assert sorted(name for name, _ in scene.noted("started")) == sorted(START_ORDER)
        await eventually(lambda: len(scene.lines) == 6, "a line of each")

    assert b"hello from reaper" in scene.lines


async def test_they_stop_in_order_and_none_stays(tmp_path: Path) -> None:
    """First those who let work in, then those who do it, then those who tidy up."""
    scene = Scene(tmp_path)
    async with scene.running() as run:
        scene.stack.request_stop()

        assert await run is True

    asked = [name for name, _ in scene.noted("asked")]
    assert set(asked[:2]) == {"api", "cron"}
    assert asked[2:] == ["worker", "scheduler", "reaper", "projector"]
    assert all(is_gone(pid) for _, pid in scene.noted("started"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_is_a_request_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, a polite kill and a closed terminal mean the same."""
    scene = Scene(tmp_path)
    async with scene.running() as run:
        os.kill(os.getpid(), number)

        assert await asyncio.wait_for(run, DEADLINE_S) is True


async def test_one_that_was_killed_comes_back(tmp_path: Path) -> None:
    """Another process takes its place, and the others do not notice."""
    scene = Scene(tmp_path)
    async with scene.running():
        before = dict(scene.noted("started"))

        os.kill(before["reaper"], signal.SIGKILL)
        await eventually(lambda: len(scene.noted("started")) == 7, "started again")

        after = dict(scene.noted("started"))
        assert after.pop("reaper") != before.pop("reaper")
        assert after == before


async def test_one_that_recycles_itself_is_started_anew_at_once(tmp_path: Path) -> None:
    """Ended well without being asked: no crash, so the pauses between its lives do not grow."""
    scene = Scene(tmp_path, worker="recycling")
    with capture_logs() as logs:
        async with scene.running():
            await eventually(lambda: len(scene.noted("started")) >= 6 + 3, "three lives more")

    assert {name for name, _ in scene.noted("started")[6:]} == {"worker"}
    told = [line["event"] for line in logs if line.get("service") == "worker"]
    assert "service.recycled" in told
    assert "service.ended" not in told  # which comes with a pause


async def test_what_a_killed_service_started_does_not_stay(tmp_path: Path) -> None:
    """The children of a dead process are nobody's, unless its supervisor takes care of them."""
    scene = Scene(tmp_path, worker="leaving")
    async with scene.running():
        worker, child = dict(scene.noted("started"))["worker"], dict(scene.noted("child"))["worker"]

        os.kill(worker, signal.SIGKILL)

        await eventually(lambda: is_gone(child), "the child's end")


async def test_one_that_does_not_stop_is_killed_in_the_end(tmp_path: Path) -> None:
    """Those after it have their turn all the same."""
    scene = Scene(tmp_path, worker="stubborn")
    async with scene.running() as run:
        scene.stack.request_stop()
        assert await asyncio.wait_for(run, DEADLINE_S) is True

    assert [name for name, _ in scene.noted("asked")][-1] == "projector"
    assert all(is_gone(pid) for _, pid in scene.noted("started"))


async def test_a_second_request_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever presses Ctrl-C twice wants it over; those who had no turn are not asked any more."""
    monkeypatch.setattr(stack_module, "ONE_PRESS_S", 0)
    scene = Scene(tmp_path, worker="stubborn")
    async with scene.running() as run:
        scene.stack.request_stop()
        await eventually(lambda: "worker" in dict(scene.noted("asked")), "the worker's turn")

        scene.stack.request_stop()
        await asyncio.wait_for(run, DEADLINE_S)

    assert "projector" not in dict(scene.noted("asked"))
    assert all(is_gone(pid) for _, pid in scene.noted("started"))


async def test_one_that_refuses_at_the_start_ends_it_all(tmp_path: Path) -> None:
    """A bad setting is as bad after a restart; the others stop, and the result says so."""
    scene = Scene(tmp_path, api="refusing")

    async with scene.running() as run:
        assert await asyncio.wait_for(run, DEADLINE_S) is False

    assert not scene.ready.is_set()
    assert all(is_gone(pid) for _, pid in scene.noted("started"))


async def test_the_server_comes_back_with_its_data_and_ends_last(tmp_path: Path) -> None:
    """A killed server is started again on the same data at the same address."""
    server = EmbeddedServer(tmp_path / "valkey")
    scene = Scene(tmp_path, server)
    async with scene.running() as run:
        first = server.pid

        os.kill(first, signal.SIGKILL)
        await eventually(lambda: server.pid != first and server.ping() == b"+PONG", "the server's return")

        scene.stack.request_stop()
        await asyncio.wait_for(run, DEADLINE_S)

    assert server.exit_code() == 0
