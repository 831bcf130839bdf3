"""The client in the programs that people write: threads, forks, event loops, Ctrl-C, and the interpreter's end."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from taskflow import AsyncClient, Client, Submission
from taskflow_streams.embedded import EmbeddedServer

NAMESPACE = "programs"


def program(server: EmbeddedServer, folder: Path, code: str) -> subprocess.Popen[str]:
    """A program of a user, with every warning shown."""
    head = f"import os, sys, taskflow\nURL = {server.url!r}\nclient = taskflow.Client(URL, namespace={NAMESPACE!r})\n"
    path = folder / "program.py"
    path.write_text(head + code)
    command = [sys.executable, "-W", "always", str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output(process: subprocess.Popen[str]) -> str:
    """What it printed, when it ended well, without a word on stderr."""
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    return out


def test_a_program_that_forgets_to_close_ends_without_a_word(server: EmbeddedServer, tmp_path: Path) -> None:
    """No warning, no hanging, also while another thread waits for a job."""
    code = """
import threading, time
handle = client.enqueue_named("nobody")
waiting = threading.Thread(target=lambda: handle.wait(), daemon=True)
waiting.start()
time.sleep(0.2)
print(handle.status())
"""
    assert output(program(server, tmp_path, code)) == "READY\n"


@pytest.mark.parametrize("used", ["client.enqueue_named('nobody')", "None"])
def test_a_program_whose_last_words_come_too_late_ends(server: EmbeddedServer, tmp_path: Path, used: str) -> None:
    """A client that is used in `__del__` when the interpreter is on its way out says so instead of hanging."""
    code = f"""
{used}
class Late:
    def __del__(self, client=client):
        try:
            client.enqueue_named("nobody")
        except RuntimeError as error:
            print(str(error)[:23])
late = Late()
"""
    assert output(program(server, tmp_path, code)) in ("the program ends, and a\n", "this client was closed;\n")


def test_a_client_that_is_closed_under_a_waiting_thread_says_so(server: EmbeddedServer) -> None:
    """It does not leave it waiting."""
    client = Client(server.url, namespace=NAMESPACE)
    handle = client.enqueue_named("nobody")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(handle.wait)
        with pytest.raises(TimeoutError):
            waiting.result(0.3)
        client.close()
        with pytest.raises(RuntimeError, match="was closed"):
            waiting.result(20)


def test_a_forked_child_has_its_own_connections(server: EmbeddedServer, tmp_path: Path) -> None:
    """Parent and child go on undisturbed, and both end without a word."""
    code = """
import gc, multiprocessing
first = client.enqueue_named("nobody")
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        for _ in range(20):
            assert client.enqueue_named("nobody").status() == "READY"
        gc.collect()
        sys.exit(0)
    for _ in range(20):
        assert first.status() == "READY"
    assert os.waitpid(pid, 0)[1] == 0
def enqueue(n):
    return client.enqueue_named("nobody", {"n": n}).id
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert len(set(pool.map(enqueue, range(8)))) == 8
assert first.status() == "READY"
print("well")
"""
    assert output(program(server, tmp_path, code)) == "well\n"


def test_ctrl_c_ends_the_waiting(server: EmbeddedServer, tmp_path: Path) -> None:
    """At once; the client can be used afterwards."""
    code = """
handle = client.enqueue_named("nobody")
try:
    print("waiting", flush=True)
    handle.result()
except KeyboardInterrupt:
    print("interrupted", handle.status())
"""
    process = program(server, tmp_path, code)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"

    process.send_signal(signal.SIGINT)

    assert output(process) == "interrupted READY\n"


def test_a_generator_of_submissions_runs_in_the_thread_of_the_caller(server: EmbeddedServer) -> None:
    """So it may use the client itself."""
    with Client(server.url, namespace=NAMESPACE) as client:
        threads: set[threading.Thread] = set()

        def submissions() -> Iterator[Submission]:
            for number in range(3):
                threads.add(threading.current_thread())
                yield Submission("nobody", {"n": number}, after=[client.enqueue_named("nobody")])

        handles = client.enqueue_many(submissions())

        assert [handle.job().payload["n"] for handle in handles] == [0, 1, 2]
        assert threads == {threading.current_thread()}


def test_threads_share_a_client(server: EmbeddedServer) -> None:
    """Each gets its own answers."""
    with Client(server.url, namespace=NAMESPACE) as client, ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(lambda n: client.enqueue_named("nobody", {"n": n}), range(64)))
        assert [handle.job().payload["n"] for handle in handles] == list(range(64))
        assert len([t for t in threading.enumerate() if t.name == "taskflow-client"]) == 1


async def test_a_blocking_client_works_inside_an_event_loop(server: EmbeddedServer) -> None:
    """Though it blocks it."""
    assert asyncio.get_running_loop()
    with Client(server.url, namespace=NAMESPACE) as client:
        assert client.enqueue_named("nobody").status() == "READY"


def test_a_client_that_nobody_knows_any_more_ends_its_thread(server: EmbeddedServer) -> None:
    """Without being closed."""
    client = Client(server.url, namespace=NAMESPACE)
    client.enqueue_named("nobody")
    [thread] = [t for t in threading.enumerate() if t.name == "taskflow-client"]

    del client
    gc.collect()
    thread.join(20)

    assert not thread.is_alive()


def test_delay_uses_the_client_that_was_configured(server: EmbeddedServer, tmp_path: Path) -> None:
    """Or finds the server by the settings."""
    code = f"""
from taskflow import configure, task
@task
def work(n): ...
os.environ.update(TASKFLOW_REDIS_URL=URL, TASKFLOW_NAMESPACE={NAMESPACE!r})
found = work.delay(1)
assert client.job(found).payload == {{"args": [1], "kwargs": {{}}}}
configure("redis://127.0.0.1:1/0")
try:
    work.delay(2)
except taskflow.Unavailable:
    print("unavailable")
configure(URL, namespace={NAMESPACE!r})
print(client.job(work.options(priority=9).delay(3)).priority)
"""
    assert output(program(server, tmp_path, code)) == "unavailable\n9\n"


@pytest.mark.parametrize(
    "url",
    ["amqp://localhost", "http://127.0.0.1:999999", "redis://127.0.0.1:999999", "http://", "http://a b", "http://x:y"],
)
def test_an_address_that_is_none_is_told(url: str) -> None:
    """With the ones that are."""
    with Client(url) as client, pytest.raises(ValueError, match="begins with redis://"):
        client.get("x")


@pytest.mark.parametrize("token", ["ü", "a\nb", "a\n"])
def test_a_token_that_cannot_be_sent_is_told(token: str) -> None:
    """Before it breaks a header."""
    with Client("http://127.0.0.1:1", token=token) as client, pytest.raises(ValueError, match="the token has char"):
        client.get("x")


async def test_clients_and_handles_are_not_pickled() -> None:
    """They say what to do instead; a copy of a handle is the handle."""
    client = Client("redis://127.0.0.1:1/0")
    handle = client.handle("x")

    for one in (client, AsyncClient("redis://127.0.0.1:1/0")):
        with pytest.raises(TypeError, match="Client cannot be pickled; make one in each process that needs one"):
            pickle.dumps(one)
        with pytest.raises(TypeError, match="Handle cannot be pickled; send its id, and use client"):
            pickle.dumps(one.handle("x"))
    assert copy.copy(handle) is copy.deepcopy(handle) is handle


def test_who_has_no_server_is_told_what_to_do(server: EmbeddedServer, tmp_path: Path) -> None:
    """By a client that was told of none, and with another hint by one that was."""
    code = f"""
from taskflow import broker
os.chdir({str(tmp_path)!r})
for name in [name for name in os.environ if name.startswith("TASKFLOW_") or name == "DATABASE_URL"]:
    del os.environ[name]
broker.Settings.model_fields["redis_url"].default = "redis://127.0.0.1:1/0"  # the real one may run on this machine
broker.Settings.model_rebuild(force=True)
for other in (taskflow.Client(), taskflow.Client("redis://127.0.0.1:1/0"), taskflow.Client("http://127.0.0.1:1")):
    try:
        other.handle("x").result(600)
    except taskflow.Unavailable as error:
        print(error)
"""
    guessed, told, http = output(program(server, tmp_path, code)).splitlines()
    for word in ("taskflow up", "TASKFLOW_REDIS_URL", "TASKFLOW_API_URL", "taskflow.configure(url=…)"):
        assert word in guessed
    assert "127.0.0.1:1" in told
    assert "check the address" in told
    assert "check the address" in http


def test_an_async_client_belongs_to_one_event_loop(server: EmbeddedServer) -> None:
    """Another one is told so, and not by a riddle of asyncio."""
    client = AsyncClient(server.url, namespace=NAMESPACE)
    with asyncio.Runner() as first:
        assert first.run(client.get("x")) is None
        with asyncio.Runner() as second, pytest.raises(RuntimeError, match="belongs to another event loop"):
            second.run(client.get("x"))
        first.run(client.close())
