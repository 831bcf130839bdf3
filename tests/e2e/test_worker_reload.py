"""`taskflow worker --reload`: a change of the code is a new worker; an error waits for the next change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from taskflow import Client, JobStatus, RetryPolicy
from taskflow_streams.embedded import EmbeddedServer
from tests.support.stack import eventually

CODE = """
from time import sleep
from shop.words import WORD
from taskflow import task

@task
def say():
    return WORD

@task
def linger():
    sleep(3600)
"""
ONCE = RetryPolicy(max_attempts=1)


class Shop:
    """A user's package, and the worker that runs it."""

    def __init__(self, folder: Path, server: EmbeddedServer) -> None:
        self.folder = folder
        self.log = folder / "worker.log"
        (folder / "shop").mkdir()
        (folder / "shop" / "tasks.py").write_text(CODE)
        self.write("one")
        env = {name: value for name, value in os.environ.items() if not name.startswith("TASKFLOW_")}
        command = [
            sys.executable,
            "-P",
            "-m",
            "taskflow",
            "worker",
            "shop.tasks",
            "--reload",
            "--redis-url",
            server.url,
        ]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**env, "TASKFLOW_NAMESPACE": "reload", "TASKFLOW_STOP_GRACE_S": "0.5"},
            )  # fmt: skip
        self.client = Client(server.url, namespace="reload")

    def write(self, word: str) -> None:
        """Change the package."""
        (self.folder / "shop" / "words.py").write_text(f"WORD = {word!r}\n")

    def says(self) -> str:
        """What a worker says now."""
        return str(self.client.enqueue_named("say").result(timeout=60))

    def will_say(self, word: str) -> None:
        """It does so, once the change has been seen."""
        eventually(lambda: self.says() == word, f"worker that says {word}; see {self.log.read_text()}")

    def told(self, words: str) -> None:
        """It told us so."""
        eventually(lambda: words in self.log.read_text(), f"{words!r} in {self.log.read_text()}")

    def family(self) -> list[psutil.Process]:
        """The process and all that it has started."""
        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]


@pytest.fixture
def shop(tmp_path: Path, server: EmbeddedServer) -> Iterator[Shop]:
    """Gone at the end, whatever happened."""
    one = Shop(tmp_path, server)
    try:
        yield one
    finally:
        family = one.family() if one.process.poll() is None else []
        for process in family:
            process.kill()
        one.process.wait()
        one.client.close()


def all_gone(family: list[psutil.Process]) -> None:
    """None of them is left."""
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []


def test_a_change_is_a_new_worker_and_a_mistake_waits_for_the_next(shop: Shop) -> None:
    """Also in a module that the tasks import; Ctrl-C leaves nothing behind."""
    assert shop.says() == "one"

    shop.write("two")
    shop.will_say("two")
    shop.told("shop/words.py changed; the worker starts anew")

    (shop.folder / "shop" / "words.py").write_text("WORD = (\n")
    shop.told("waiting for a change")
    shop.told("SyntaxError")
    assert shop.process.poll() is None

    shop.write("six")
    shop.will_say("six")

    family = shop.family()
    assert len(family) >= 2
    shop.process.send_signal(signal.SIGINT)
    assert shop.process.wait(30) == 0
    all_gone(family)


def test_jobs_at_work_go_back_at_no_cost(shop: Shop) -> None:
    """When the worker starts anew, and at the end."""
    handle = shop.client.options(retry_policy=ONCE).enqueue_named("linger")
    eventually(lambda: handle.status() is JobStatus.RUNNING, "running job")
    first = handle.job().worker

    shop.write("two")

    def again() -> bool:
        job = handle.job()
        return job.status is JobStatus.RUNNING and job.worker != first

    eventually(again, "attempt of the new worker")
    assert handle.job().attempt == 1
    shop.process.send_signal(signal.SIGTERM)
    assert shop.process.wait(30) == 0
    assert (handle.status(), handle.job().attempt) == (JobStatus.READY, 0)
    handle.cancel()


def test_the_worker_does_not_outlive_a_reloader_that_is_killed(shop: Shop) -> None:
    """Not even by kill -9."""
    assert shop.says() == "one"
    family = shop.family()

    shop.process.kill()

    all_gone(family)
