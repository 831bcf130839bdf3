"""Services as processes of their own: started with settings, read by their log, and gone when the test is over."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from taskflow_domain import RetryPolicy
from taskflow_streams import NewJob, Store
from tests.support.working import until

ROOT = Path(__file__).parents[2]
VISIBILITY_S = 2.0
IMPATIENT = {
    "TASKFLOW_VISIBILITY_TIMEOUT_S": str(VISIBILITY_S),
    "TASKFLOW_HEARTBEAT_S": "0.5",
    "TASKFLOW_LEASE_RENEWAL_S": "0.5",
    "TASKFLOW_REAP_INTERVAL_S": "0.2",
}
DEADLINE_S = 60.0  # a busy machine takes seconds to load Python


class Process:
    """A service that was started; with `patient` it has the times that a user gets."""

    def __init__(
        self, name: str, url: str, folder: Path, *modules: str, patient: bool = False, **settings: Any
    ) -> None:
        self.out = folder / f"{name}-{time.monotonic_ns()}.log"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("TASKFLOW_")}
        environment = {
            **inherited,
            **({} if patient else IMPATIENT),
            "PYTHONPATH": str(ROOT),  # for tests.support
            "TASKFLOW_REDIS_URL": url,
            "TASKFLOW_LOG_FORMAT": "json",
            "TASKFLOW_WORKER_MODULES": ",".join(modules),
            **settings,
        }
        with self.out.open("wb") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-P", "-m", f"taskflow_{name}.main"],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    async def logged(self, event: str) -> dict[str, Any]:
        """The line of this event, once it is there."""
        found: list[dict[str, Any]] = []

        async def there() -> bool:
            assert self.popen.poll() is None, f"it ended:\n{self.out.read_text()}"
            lines = (json.loads(line) for line in self.out.read_text().splitlines() if line.startswith("{"))
            found.extend(line for line in lines if line["event"] == event)
            return bool(found)

        await until(there, f"{event} in {self.out.name}", DEADLINE_S)
        return found[0]

    async def ready(self) -> str:
        """Where it answers, once it is ready."""
        url = (await self.logged("service.starting"))["url"]

        async def is_ready() -> bool:
            try:
                with await asyncio.to_thread(urllib.request.urlopen, f"{url}/readyz") as answer:
                    return bool(answer.status == 200)
            except (urllib.error.URLError, OSError):
                return False

        await until(is_ready, f"readiness of {self.out.name}", DEADLINE_S)
        return str(url)

    async def ends(self) -> int:
        """Its exit status."""
        return await asyncio.to_thread(self.popen.wait, DEADLINE_S)


@contextmanager
def started(*processes: Process) -> Iterator[None]:
    """Processes that do not outlive the test."""
    try:
        yield
    finally:
        for process in processes:
            if process.popen.poll() is None:
                process.popen.kill()
                process.popen.wait()


def shell_job(store: Store, cmd: str, **fields: Any) -> NewJob:
    """A shell job to submit, with one attempt unless it is given more."""
    made: dict[str, Any] = {"queue": "default", "retry": RetryPolicy(max_attempts=1), **fields}
    return NewJob(
        store.new_id(), "shell", handler="@shell", type="shell", payload=json.dumps({"cmd": cmd}).encode(), **made
    )


async def printed(store: Store, job_id: str) -> str:
    """All that a job has printed, in all of its attempts."""
    home = store.partition(job_id)
    assert home is not None
    chunks = await home.logs.read(job_id, count=10_000)
    return b"".join(chunk.text for chunk in chunks if chunk.stream == "stdout").decode()
