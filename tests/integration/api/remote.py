"""The words of the tests of workers over HTTP: one that registers, leases and reports."""

from dataclasses import dataclass
from typing import Any

import httpx

from tests.integration.api.door import Json

SHELL = {"type": "shell", "cmd": "echo hello"}


@dataclass(frozen=True, slots=True)
class Remote:
    """A worker over HTTP.  `post` and `tell` give the response; the others assert that it is good."""

    http: httpx.AsyncClient
    id: str

    async def post(self, tail: str, **body: Any) -> httpx.Response:
        """Send something about the worker."""
        return await self.http.post(f"/workers/{self.id}/{tail}", json=body)

    async def tell(self, leased: Json, verb: str, **body: Any) -> httpx.Response:
        """Send something about a job."""
        return await self.post(f"jobs/{leased['job']}/{verb}", **({"token": leased["token"]} | body))

    async def said(self, leased: Json, verb: str, **body: Any) -> str:
        """The same, and how it was heard."""
        response = await self.tell(leased, verb, **body)
        assert response.status_code == 200, response.text
        outcome: str = response.json()["outcome"]
        return outcome

    async def lease(self, **body: Any) -> list[Json]:
        """Jobs; without waiting unless asked to."""
        response = await self.post("lease", **({"wait_s": 0} | body))
        assert response.status_code == 200, response.text
        items: list[Json] = response.json()["items"]
        return items

    async def take(self, **body: Any) -> Json:
        """One job; there must be one."""
        [leased] = await self.lease(**body)
        return leased

    async def beat(self, *running: str, **more: Any) -> Json:
        """A heartbeat."""
        response = await self.post("heartbeat", running=list(running), **more)
        assert response.status_code == 200, response.text
        found: Json = response.json()
        return found


async def a_remote(http: httpx.AsyncClient, **fields: Any) -> Remote:
    """A worker that has registered."""
    body = {"name": "far", "queues": ["*"], "concurrency": 4} | fields
    response = await http.post("/workers/register", json=body)
    assert response.status_code == 201, response.text
    return Remote(http, response.json()["id"])


async def a_command(http: httpx.AsyncClient, **fields: Any) -> str:
    """A shell job that waits; its id."""
    response = await http.post("/jobs", json=SHELL | fields)
    assert response.status_code == 201, response.text
    job_id: str = response.json()["id"]
    return job_id
