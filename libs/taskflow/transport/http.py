"""Over HTTP, through the api.  Each request that creates has a key, so that it is sent again and never doubled."""

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from time import monotonic
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

import httpx
import orjson

from taskflow.body import body_of, firsts
from taskflow.errors import IdempotencyConflict, Refused, Unauthorized
from taskflow.job import Job, LogEntry, of_json
from taskflow.submission import Submission, batches, new_job
from taskflow.tasks import Registry
from taskflow.transport.connections import CONNECT_S, TIMEOUT_S, Connections
from taskflow.transport.patience import FIRST_S, Patience
from taskflow_domain import datetime_of_ms, ms_of_iso
from taskflow_streams import Unavailable, UnknownDependency

BATCH: Final = 250  # of the largest payloads, half of what the api takes in one body
LONGEST_PAUSE_S: Final = 10.0  # that the api may ask for
LATE_S: Final = 5.0  # that its answer may be
SILENCE_S: Final = 45.0  # a stream says something every 15 s, if only that it lives
PAGE: Final = 1000
DEPENDENCY: Final = re.compile(r"(jobs\[(?P<job>\d+)\]\.)?dependencies\[(?P<which>\d+)\]")
AGAIN: Final = frozenset({429, 502, 503, 504})


class HttpTransport:
    """A client's way to the api."""

    def __init__(self, url: str, token: str | None = None, *, http: httpx.AsyncClient | None = None) -> None:
        self.url = url.rstrip("/")
        self._answered = False  # ever
        self._connections = Connections(self.url, token, http)

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    async def submit(self, submissions: Iterable[Submission], tasks: Registry) -> list[str]:
        """Enqueue jobs, each batch all or nothing.  Raises UnknownDependency, IdempotencyConflict, Refused."""
        ids: list[str] = []
        for batch in batches(submissions, BATCH):
            jobs = [new_job(one, "", tasks) for one in batch]
            keys = [one.idempotency_key for one in batch]
            places = firsts(jobs, keys)  # the api takes a key only once in a batch
            bodies = {i: body_of(jobs[i], orjson.Fragment(jobs[i].payload)) for i in dict.fromkeys(places)}
            for i, body in bodies.items():
                if keys[i] is not None:
                    body["idempotency_key"] = keys[i]
            made = dict(zip(bodies, await self._create(list(bodies.values())), strict=True))
            ids += [made[i]["id"] for i in places]
        return ids

    async def get(self, job_id: str) -> Job | None:
        """The job as it is now."""
        return self._job(await self._ask("GET", _path(job_id)))

    async def wait(self, job_id: str, timeout_s: float | None) -> Job | None:
        """The job once it has ended, or as it is when the time is over."""
        deadline = inf if timeout_s is None else monotonic() + timeout_s
        patience = Patience.until(deadline)

        while True:
            job = self._job(await self._ask("GET", f"{_path(job_id)}/wait", patience, waits_until=deadline))
            if job is None or job.ended or monotonic() >= deadline:
                return job

    async def cancel(self, job_id: str) -> bool | None:
        """Cancel a job."""
        response = await self._ask("POST", f"{_path(job_id)}/cancel")
        if response.status_code in (404, 409):
            return None if response.status_code == 404 else False
        self._expect(response)
        return True

    async def logs(self, job_id: str, after: str, follow: bool) -> AsyncIterator[LogEntry]:
        """Its output, piece by piece."""
        if follow:
            async for entry in self._follow(job_id, after):
                yield entry
            return
        place: str | None = after
        while place is not None:
            response = await self._ask("GET", f"{_path(job_id)}/logs", params={"after": place, "limit": PAGE})
            if response.status_code == 404:
                return
            self._expect(response)
            with _understood(response):
                page = response.json()
                entries, place = [_entry(item) for item in page["items"]], page["next"]
            for entry in entries:
                yield entry

    async def _follow(self, job_id: str, after: str) -> AsyncIterator[LogEntry]:
        patience = Patience.until(inf)
        while True:
            away = Unavailable(f"the api at {self.url} breaks the stream off before the job has ended")
            try:
                async with self._connections.waits.stream(
                    "GET",
                    f"{_path(job_id)}/logs/stream",
                    headers={"Last-Event-ID": after, "Accept": "text/event-stream"},
                    timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_S, read=SILENCE_S),
                ) as response:
                    self._answered = True
                    if response.status_code == 404:
                        return
                    if response.status_code != 200:
                        await response.aread()
                        self._expect(response)
                    async for kind, fields in _events(response, patience):
                        if kind == "end":
                            return
                        if kind == "log":
                            after = fields["id"]
                            yield _entry(fields)
            except httpx.TransportError as error:
                away = self._away(error)
            except Unavailable as error:
                away = error
            if not await self._rest(patience):
                raise away

    async def _create(self, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """One job goes by itself: its key is the user's own, if it has one."""
        alone = len(bodies) == 1
        content = orjson.dumps(bodies[0] if alone else {"jobs": bodies})
        headers = {"Content-Type": "application/json"}
        if not alone or "idempotency_key" not in bodies[0]:
            headers["Idempotency-Key"] = f"sdk-{uuid4()}"
        path = "/api/v1/jobs" if alone else "/api/v1/jobs/batch"
        response = await self._ask("POST", path, content=content, headers=headers)
        if response.status_code == 409 and "key" in _error(response)["message"]:
            raise IdempotencyConflict(_error(response)["message"])
        if response.status_code == 400 and (found := DEPENDENCY.fullmatch(_error(response)["field"])):
            place, which = int(found["job"] or 0), int(found["which"])
            raise UnknownDependency("", bodies[place]["dependencies"][which])
        self._expect(response)
        with _understood(response):
            answer = response.json()
            return [answer] if alone else list(answer["items"])

    def _job(self, response: httpx.Response) -> Job | None:
        if response.status_code == 404:
            return None
        self._expect(response)
        with _understood(response):
            return of_json(response.json())

    async def _ask(
        self,
        method: str,
        path: str,
        patience: Patience | None = None,
        waits_until: float | None = None,
        **request: Any,
    ) -> httpx.Response:
        """The answer, asked for again while there is none; `waits_until` is the deadline of one that may be long."""
        patience = patience or Patience()
        while True:
            try:
                if waits_until is None:
                    response = await self._connections.questions.request(method, path, **request)
                else:
                    response = await self._wait(path, waits_until)
            except httpx.TransportError as error:
                if not await self._rest(patience):
                    raise self._away(error) from None
                continue
            self._answered = True
            if response.status_code not in AGAIN:
                patience.heard()
                return response
            told = response.headers.get("Retry-After", "")
            if not await self._rest(patience, min(float(told), LONGEST_PAUSE_S) if told.isdigit() else None):
                return response

    async def _wait(self, path: str, deadline: float) -> httpx.Response:
        async with self._connections.turn(deadline) as wait_s:
            timeout = httpx.Timeout(wait_s + LATE_S, connect=CONNECT_S)
            return await self._connections.waits.get(path, params={"timeout_s": round(wait_s, 3)}, timeout=timeout)

    async def _rest(self, patience: Patience, told_s: float | None = None) -> bool:
        """Pause before the next try; False when there shall be none.  One that never answered is given up soon."""
        return await patience.rest(told_s, most_s=inf if self._answered else FIRST_S)

    def _expect(self, response: httpx.Response) -> None:
        """Raise what an answer that is no success says."""
        if response.is_success:
            return
        error = _error(response)
        if response.status_code in AGAIN:
            raise Unavailable(error["message"])
        if response.status_code in (401, 403):
            raise Unauthorized(f"{error['message']} Give the client a token, or set TASKFLOW_API_TOKEN.", error["code"])
        raise Refused(error["message"], error["code"])

    def _away(self, error: Exception) -> Unavailable:
        why = str(error) or type(error).__name__
        return Unavailable(f"the api at {self.url} does not answer ({why}); check the address, and that it runs")


def _path(job_id: str) -> str:
    return f"/api/v1/jobs/{quote(job_id, safe='')}"


@contextmanager
def _understood(response: httpx.Response) -> Iterator[None]:
    """What is read from an answer is what TaskFlow would say."""
    try:
        yield
    except (ValueError, KeyError, TypeError):
        raise Refused(_strange(response)) from None


def _strange(response: httpx.Response) -> str:
    return f"{response.url} answered {response.status_code}, which TaskFlow would not; check the address"


def _error(response: httpx.Response) -> dict[str, str]:
    try:
        error: dict[str, Any] = response.json()["error"]
        field = error["details"][0]["field"] if error.get("details") else ""
        return {"message": str(error["message"]), "code": str(error["code"]), "field": str(field)}
    except (ValueError, KeyError, TypeError):
        return {"message": _strange(response), "code": "", "field": ""}


async def _events(response: httpx.Response, patience: Patience) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Its events.  Lines end with a line feed and nothing else: a text may hold what Python also takes for an end."""
    kind, rest = "", b""
    async for data in response.aiter_bytes():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            name, _, value = line.partition(b": ")
            if name == b"retry":
                patience.greeted()
            elif line:
                patience.heard()
            if name == b"event":
                kind = value.decode()
            elif name == b"data":
                yield kind, orjson.loads(value)


def _entry(item: dict[str, Any]) -> LogEntry:
    return LogEntry(item["id"], item["stream"], item["attempt"], datetime_of_ms(ms_of_iso(item["at"])), item["text"])
