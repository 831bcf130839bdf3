"""`taskflow up` as a user sees it: real processes, real signals, a real Valkey."""

import fcntl
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import termios
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from taskflow.supervisor.claim import Running, find_running
from taskflow_streams.embedded import EmbeddedServer

T = TypeVar("T")

COMMAND = (sys.executable, "-m", "taskflow", "up")
WITHOUT_THE_KERNEL = """
import taskflow_streams.lifeline
taskflow_streams.lifeline.kernel_watches = lambda: False  # as on systems other than Linux
from taskflow.cli import main
main()
"""
SERVICES = ("api", "scheduler", "cron", "reaper", "worker", "projector")
DEADLINE_S = 60.0  # two busy cores start seven interpreters in a few seconds; a deadline is for what hangs

pytestmark = [pytest.mark.xdist_group("up"), pytest.mark.timeout(300)]


class Up:
    """A running `taskflow up`."""

    def __init__(self, data_dir: Path, *options: str, command: Sequence[str]) -> None:
        self.data_dir = data_dir
        self.out = data_dir.with_suffix(".log")
        with self.out.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--data-dir", str(data_dir), "--port", "0", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean_environment(),
            )

    def ready(self) -> Running:
        """Wait until all services are ready; where they are."""

        def said() -> Running | None:
            assert self.process.poll() is None, f"it ended:\n{self.out.read_text()}"
            running = find_running(self.data_dir)
            return running if running and running.ready else None

        return eventually(said, "ready")

    def family(self) -> list[psutil.Process]:
        """The supervisor and all that descends from it."""
        supervisor = psutil.Process(self.process.pid)
        return [supervisor, *supervisor.children(recursive=True)]

    def service(self, name: str) -> psutil.Process:
        """The process of a service, by its title."""

        def found() -> psutil.Process | None:
            return next((each for each in self.family() if title(each) == f"taskflow {name}"), None)

        return eventually(found, f"a process called taskflow {name}")

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal and wait for the end; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)


@contextmanager
def running(data_dir: Path, *options: str, command: Sequence[str] = COMMAND) -> Iterator[Up]:
    """`taskflow up`, ready; killed at the end if the test has not stopped it."""
    up = Up(data_dir, *options, command=command)
    try:
        up.ready()
        yield up
    finally:
        up.process.kill()
        up.process.wait()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One stack for all tests that leave it running."""
    with running(tmp_path_factory.mktemp("up") / "data") as stack:
        yield stack


def test_every_process_is_named_and_ready(up: Up) -> None:
    """`ps` tells who is who, and each answers for its own health."""
    others = {"taskflow up", "taskflow valkey", "taskflow guardian", "taskflow nursery", "taskflow deputy"}
    titles = {*others, *(f"taskflow {name}" for name in SERVICES)}
    eventually(lambda: {title(process) for process in up.family()} == titles, "names for all processes, and no others")
    urls = up.ready().health_urls
    assert set(urls) == set(SERVICES)
    assert all(get(f"{url}/readyz") == 200 for url in urls.values())


def test_the_output_is_json_where_no_terminal_is(up: Up) -> None:
    """Every line of every process; the last of the start says where the api is."""
    up.ready()

    events = [json.loads(line) for line in up.out.read_text().splitlines()]

    ready = next(event for event in events if event["event"] == "up.ready")
    assert ready["url"] == up.ready().api_url
    assert {event["component"] for event in events} == {"up", *SERVICES}


def test_a_second_one_on_the_same_data_is_refused(up: Up) -> None:
    """It names the first, ends with a status, and does no harm."""
    first = up.ready()

    second = subprocess.run(
        [*COMMAND, "--data-dir", up.data_dir, "--port", "0"],
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment(),
    )

    assert second.returncode == 1
    assert f"pid {first.pid}, {first.api_url}" in second.stderr
    assert len(second.stderr.splitlines()) == 1
    assert find_running(up.data_dir) == first


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_that_was_killed_comes_back(up: Up, name: str) -> None:
    """Another process, the same address."""
    before = up.service(name)

    before.kill()

    eventually(lambda: up.service(name) != before, f"another {name}")
    eventually(lambda: get(f"{up.ready().health_urls[name]}/readyz") == 200, f"{name} ready again")


def test_a_valkey_that_was_killed_comes_back(up: Up) -> None:
    """The services find it again by themselves; none was restarted for it."""
    services = {name: up.service(name) for name in SERVICES}

    up.service("valkey").kill()

    urls = up.ready().health_urls.values()
    eventually(lambda: all(get(f"{url}/readyz") == 200 for url in urls) and up.service("valkey"), "all ready again")
    assert {name: up.service(name) for name in SERVICES} == services


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    """No process, no socket, no word of a stack that runs; and status 0."""
    with running(tmp_path / "data") as up:
        family = up.family()

        assert up.stop(number) == 0

    assert not any(process.is_running() for process in family)
    assert not (tmp_path / "data" / "up.json").exists()
    assert not (tmp_path / "data" / "valkey.sock").exists()


def test_state_survives_stop_kill_and_start(tmp_path: Path) -> None:
    """Whatever the api has accepted is there after the next start."""
    with running(tmp_path / "data", "--workers", "0") as up:
        first = submit(up)
        up.stop()
    with running(tmp_path / "data", "--workers", "0") as up:
        second = submit(up)
        up.stop(signal.SIGKILL)

    with running(tmp_path / "data") as up:
        eventually(lambda: status(up, first) == status(up, second) == "COMPLETED", "both jobs completed")


@pytest.mark.parametrize("command", [COMMAND, (sys.executable, "-c", WITHOUT_THE_KERNEL, "up")])
def test_nothing_outlives_a_supervisor_that_was_killed(tmp_path: Path, command: Sequence[str]) -> None:
    """SIGKILL leaves it no time to stop anybody, and they end all the same."""
    with running(tmp_path / "data", command=command) as up:
        family = up.family()

        up.process.kill()
        up.process.wait()

        eventually(lambda: all(is_gone(process) for process in family), "the end of all processes")


def test_several_workers_on_a_server_of_ones_own(tmp_path: Path) -> None:
    """With --redis-url there is no Valkey of ours."""
    with EmbeddedServer.temporary() as server:
        with running(tmp_path / "data", "--workers", "2", "--redis-url", server.url) as up:
            titles = sorted(title(process) for process in up.family())

            assert titles.count("taskflow worker") == 2
            assert "taskflow valkey" not in titles
            assert up.ready().redis_url == server.url
            up.stop()

        assert server.ping() == b"+PONG"


def test_a_port_that_is_taken_is_told_before_anything_starts(tmp_path: Path) -> None:
    """One sentence, a status, and not one file of data."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        told = run_to_end(tmp_path / "data", "--port", str(port))

    assert told.returncode == 1
    assert f"Port {port} of 127.0.0.1 is taken" in told.stderr
    assert not (tmp_path / "data" / "valkey.log").exists()


@pytest.mark.parametrize(
    ("options", "word"),
    [(["--partitions", "0"], "TASKFLOW_PARTITIONS"), (["--redis-url", "http://x"], "TASKFLOW_REDIS_URL")],
)
def test_a_bad_option_is_one_sentence(tmp_path: Path, options: list[str], word: str) -> None:
    """It names what is wrong, and nobody has to read a traceback."""
    told = run_to_end(tmp_path / "data", *options)

    assert told.returncode == 1
    assert word in told.stderr
    assert len(told.stderr.splitlines()) == 1


def test_a_service_that_refuses_ends_it_all(tmp_path: Path) -> None:
    """A server that evicts is the services' to refuse; their reason is shown."""
    with EmbeddedServer.temporary(options={"maxmemory-policy": "allkeys-lru"}) as evicting:
        told = run_to_end(tmp_path / "data", "--redis-url", evicting.url, "--port", "0")

    assert told.returncode == 1
    assert "noeviction" in told.stdout
    assert "refused" in told.stderr


def test_an_open_door_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """An api for everybody without a token: one sentence, and no process was started for it."""
    told = run_to_end(tmp_path / "data", "--host", "0.0.0.0", "--port", "0")

    assert told.returncode == 1
    assert "--insecure" in told.stderr
    assert told.stdout == ""


def test_on_a_terminal_it_speaks_to_people_and_obeys_ctrl_c(tmp_path: Path) -> None:
    """Names before the lines, the addresses at the end, and one Ctrl-C to stop it all."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "--data-dir", tmp_path / "data", "--port", "0"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=clean_environment(),
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one system call
    )
    os.close(slave)
    try:
        shown = read_until(master, b"Ctrl-C stops everything")
        os.write(master, b"\x03")
        shown += read_until(master, b"up.stopped")

        assert process.wait(DEADLINE_S) == 0
        assert "worker    │ " in shown
        assert "http://127.0.0.1:" in shown
        assert "service.killed" not in shown
    finally:
        process.kill()
        process.wait()
        os.close(master)


def eventually(look: Callable[[], T | None], what: str) -> T:
    """What `look` sees once it is true."""
    deadline = time.monotonic() + DEADLINE_S
    while not (seen := look()):
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE_S:g} s"
        time.sleep(0.05)
    return seen


def run_to_end(data_dir: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`taskflow up` that is not expected to stay."""
    command = [*COMMAND, "--data-dir", str(data_dir), *options]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=DEADLINE_S, env=clean_environment()
    )


def clean_environment() -> dict[str, str]:
    """The environment without settings that a developer may have."""
    foreign = ("TASKFLOW_", "DATABASE_URL", "WORKER_CONCURRENCY", "NO_COLOR", "FORCE_COLOR")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


def title(process: psutil.Process) -> str:
    """What `ps` shows, without what Valkey puts at the end of its old command line."""
    try:
        return " ".join(word for word in process.cmdline() if word not in ("", "."))
    except psutil.Error:
        return ""


def is_gone(process: psutil.Process) -> bool:
    """Whether it has ended; where nobody reaps orphans, a zombie is all that stays."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def get(url: str) -> int:
    """The status of a GET; 0 if nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def call(up: Up, path: str, body: object = None) -> Any:
    """A JSON request to the api of a stack."""
    request = urllib.request.Request(
        up.ready().api_url + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def submit(up: Up) -> str:
    """Create a job that does nothing; its id."""
    return str(call(up, "/api/v1/jobs", {"name": "taskflow.noop", "queue": "general"})["id"])


def status(up: Up, job_id: str) -> str:
    """The state of a job."""
    return str(call(up, f"/api/v1/jobs/{job_id}")["status"])


def read_until(master: int, wanted: bytes) -> str:
    """What a terminal shows, up to and including `wanted`."""
    shown, deadline = b"", time.monotonic() + DEADLINE_S
    while wanted not in shown:
        assert time.monotonic() < deadline, f"no {wanted!r} in {shown.decode(errors='replace')}"
        if select.select([master], [], [], 1.0)[0]:
            shown += os.read(master, 1 << 16)
    return shown.decode(errors="replace")
