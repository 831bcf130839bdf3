"""The embedded server: it keeps what it was told to keep, says why it cannot start, and never outlives us."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis

from taskflow_streams.embedded import EmbeddedServer, EmbeddedServerError
from tests.support.stack import eventually

PARENT = """
import sys, threading
from taskflow_streams.embedded import EmbeddedServer

server = EmbeddedServer(sys.argv[1], durable=False)
thread = threading.Thread(target=server.start) if sys.argv[2] == "thread" else None
thread.start() if thread else server.start()
thread.join() if thread else None
print(server.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path / "data") as server:
        yield server


def test_a_durable_server_finds_its_data_again(durable: EmbeddedServer) -> None:
    """What was written before a stop is there after the next start, at the same URL."""
    url = durable.url
    redis.Redis.from_url(url).set("kept", "yes")

    durable.stop()
    durable.start()

    assert durable.url == url
    assert redis.Redis.from_url(url).get("kept") == b"yes"


def test_a_file_cut_short_by_a_crash_is_loaded_up_to_the_cut(durable: EmbeddedServer) -> None:
    """Half a command at the end of the append-only file costs that command and nothing else."""
    client = redis.Redis.from_url(durable.url)
    client.set("whole", "yes")
    client.set("torn", "yes")
    appended = next((durable.data_dir / "appendonlydir").glob("*.incr.aof"))
    eventually(lambda: b"torn" in appended.read_bytes(), "the last write in the file")  # an fsync may hold it up
    durable.kill()
    os.truncate(appended, appended.stat().st_size - 3)

    durable.start()

    assert client.get("whole") == b"yes"
    assert client.get("torn") is None


def test_a_temporary_server_leaves_nothing_behind() -> None:
    """Neither its process nor its directory."""
    with EmbeddedServer.temporary() as server:
        pid = server.pid
        assert server.ping() == b"+PONG"

    assert not psutil.pid_exists(pid)
    assert not server.data_dir.exists()


def test_a_failed_start_shows_the_end_of_the_log(tmp_path: Path) -> None:
    """The reason the server gave is part of the error."""
    server = EmbeddedServer(tmp_path, options={"no-such-setting": "1"})

    with pytest.raises(EmbeddedServerError, match="no-such-setting"):
        server.start()


def test_one_directory_has_one_server(durable: EmbeddedServer) -> None:
    """A second server on the same data is refused, and the first goes on."""
    with pytest.raises(EmbeddedServerError, match="already runs"):
        EmbeddedServer(durable.data_dir).start()

    assert durable.ping() == b"+PONG"


def test_a_path_too_long_for_a_socket_gets_a_loopback_port(tmp_path: Path) -> None:
    """Deep directories work, too."""
    with EmbeddedServer(tmp_path / ("deep" * 30)) as server:
        assert server.url.startswith("redis://127.0.0.1:")
        assert redis.Redis.from_url(server.url).ping()


@pytest.mark.parametrize("started_from", ["main", "thread"])
def test_it_dies_with_a_parent_that_was_killed(tmp_path: Path, started_from: str) -> None:
    """SIGKILL gives the parent no chance to clean up; its server ends all the same."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "data"), started_from],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    server = psutil.Process(int(parent.stdout.readline()))

    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()

    wait_until_gone(server)


def wait_until_gone(process: psutil.Process, seconds: float = 10.0) -> None:
    """Wait for a process that is not our child; where nobody reaps it, a zombie counts as gone."""
    deadline = time.monotonic() + seconds
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"process {process.pid} is still there after {seconds} s"
        time.sleep(0.01)
