"""The retries of a job that is waited for, told as they come: work that fails and begins again shall be no riddle."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from taskflow.commands.errors import CommandFailed
from taskflow.commands.follow import Say
from taskflow.commands.http import Api, job_path
from taskflow.commands.render import harmless, span

LOOK_S: Final = 0.25  # a retry waits for twice that at least


@contextmanager
def retries_told(api: Api, job_id: str, say: Say) -> Iterator[None]:
    """Say of each attempt that failed and is followed by another."""
    over = threading.Event()
    teller = _Teller(api, job_id, say)

    def look_again() -> None:
        while not over.wait(LOOK_S):
            teller.look()

    thread = threading.Thread(target=look_again, daemon=True)
    thread.start()
    try:
        yield
        over.set()
        thread.join()
        teller.look(over=True)
    finally:
        over.set()


class _Teller:
    def __init__(self, api: Api, job_id: str, say: Say) -> None:
        self._api = api
        self._path = job_path(job_id)
        self._say = say
        self._told = 0  # the last attempt that was spoken of

    def look(self, *, over: bool = False) -> None:
        """Say what is new.  An api that does not answer is spoken of elsewhere."""
        try:
            events = self._api.items(self._api.get(f"{self._path}/events"))
            new = [event for event in events if _is_retry(event) and event["attempt"] > self._told]
            job = self._api.get(self._path) if new else {}
        except CommandFailed:
            return
        for event in new:
            self._told = event["attempt"]
            self._say(_sentence(event, job, over=over))


def _is_retry(event: dict[str, Any]) -> bool:
    return event.get("type") == "job.retrying" and isinstance(event.get("attempt"), int)


def _sentence(event: dict[str, Any], job: dict[str, Any], *, over: bool) -> str:
    attempt, error = event["attempt"], job.get("error")
    why = str(event.get("error") or "it was lost")
    if job.get("attempt_count") == attempt and isinstance(error, dict) and error.get("message"):
        why = str(error["message"])
    most = (job.get("retry_policy") or {}).get("max_attempts", "?")
    first_line = (why.strip().splitlines() or ["?"])[0]
    return f"Attempt {attempt} failed: {harmless(first_line)}; attempt {attempt + 1} of {most}{_when(event, over)}"


def _when(event: dict[str, Any], over: bool) -> str:
    if over or not event.get("due_at"):
        return ""
    pause = datetime.fromisoformat(event["due_at"]) - datetime.fromisoformat(event["at"])
    return f" in {span(max(pause.total_seconds(), 0))}"
