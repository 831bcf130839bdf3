"""A whole TaskFlow of the test's own: `taskflow up` on a directory and ports that nobody else has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
import psutil

from taskflow.supervisor.claim import find_running

T = TypeVar("T")
DEADLINE_S = 60.0  # for what hangs: two busy cores need a few seconds


def eventually(look: Callable[[], T | None], what: str, seconds: float = DEADLINE_S) -> T:
    """What `look` finds, as soon as it finds something; fails when the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError(f"within {seconds:g} s there was no {what}")


class Stack:
    """All services as processes.  Give settings as keywords: `visibility_timeout_s=3`."""

    def __init__(self, data_dir: Path, *options: str, **settings: object) -> None:
        self.data_dir = data_dir
        self._options = options
        self._settings = {f"TASKFLOW_{name.upper()}": str(value) for name, value in settings.items()}

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "taskflow", "up", "--data-dir", str(self.data_dir), "--port", "0"]
        env = {name: value for name, value in os.environ.items() if not name.startswith("TASKFLOW_")}
        with self.data_dir.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *self._options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**env, **self._settings},
            )
        running = eventually(self._ready, f"stack that is ready; see {log.name}")
        self.redis_url = running.redis_url
        self.api_url = running.api_url
        token = self._settings.get("TASKFLOW_API_TOKEN")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.http = httpx.Client(base_url=f"{running.api_url}/api/v1", headers=headers, timeout=30)
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(DEADLINE_S)

    def _ready(self) -> Any:
        assert self.process.poll() is None, f"it ended:\n{self.data_dir.with_suffix('.log').read_text()}"
        running = find_running(self.data_dir)
        return running if running and running.ready else None

    def service(self, name: str) -> psutil.Process:
        """The process of a service."""

        def found() -> psutil.Process | None:
            for process in psutil.Process(self.process.pid).children(recursive=True):
                try:
                    if " ".join(process.cmdline()).strip() == f"taskflow {name}":
                        return process
                except psutil.Error:
                    continue
            return None

        return eventually(found, f"process called taskflow {name}")

    def create(self, task: str = "taskflow.noop", **fields: object) -> dict[str, Any]:
        """Create a job over HTTP; the answer."""
        response = self.http.post("/jobs", json={"name": task, "queue": "default", "task": task, **fields})
        assert response.status_code == 201, response.text
        job: dict[str, Any] = response.json()
        return job

    def job(self, job_id: str) -> dict[str, Any]:
        """The job as it is now."""
        response = self.http.get(f"/jobs/{job_id}")
        assert response.status_code == 200, response.text
        job: dict[str, Any] = response.json()
        return job

    def ended(self, job_id: str, seconds: float = DEADLINE_S) -> dict[str, Any]:
        """The job once it has ended."""

        def look() -> dict[str, Any] | None:
            job = self.job(job_id)
            return job if job["finished_at"] else None

        return eventually(look, f"end of job {job_id}", seconds)
