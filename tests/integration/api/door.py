"""The words of the api's tests: a client that says what it expects, and a projector that has caught up."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import httpx

from taskflow_api.app import create_app
from taskflow_api.settings import ApiSettings
from taskflow_projector.project import Projector
from taskflow_runtime import Health
from taskflow_streams import Store, id_key

JOBS: Final = "/api/v1/jobs"
SCHEDULES: Final = "/api/v1/schedules"
NOBODY: Final = "019b7c3f-5d2e-7000-8000-3f2a9c1b4d5e"  # the id of no job
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Door:
    """The api of one store.  Each method asserts that the request went well."""

    http: httpx.AsyncClient
    store: Store
    health: Health

    async def create(self, **fields: Any) -> Json:
        """A new job."""
        response = await self.http.post(JOBS, json={"name": "work", "queue": "q"} | fields)
        assert response.status_code == 201, response.text
        job: Json = response.json()
        return job

    async def get(self, job_id: str) -> Json:
        """A job as it is now."""
        response = await self.http.get(f"{JOBS}/{job_id}")
        assert response.status_code == 200, response.text
        job: Json = response.json()
        return job

    async def change(self, job_id: str, **fields: Any) -> Json:
        """A job after an update."""
        response = await self.http.put(f"{JOBS}/{job_id}", json=fields)
        assert response.status_code == 200, response.text
        job: Json = response.json()
        return job

    async def search(self, **query: Any) -> Json:
        """One page."""
        response = await self.http.get(JOBS, params=query)
        assert response.status_code == 200, response.text
        page: Json = response.json()
        return page

    async def schedule(self, **fields: Any) -> Json:
        """A new schedule, of every minute unless an interval is given."""
        timing = {} if "interval_s" in fields else {"cron": "* * * * *"}
        response = await self.http.post(SCHEDULES, json={**timing, "job": {"name": "work", "queue": "q"}, **fields})
        assert response.status_code == 201, response.text
        made: Json = response.json()
        return made

    async def look(self, ref: str, tail: str = "", **query: Any) -> Json:
        """A schedule as it is now, or what is below it."""
        response = await self.http.get(f"{SCHEDULES}/{ref}{tail}".rstrip("/"), params=query)
        assert response.status_code == 200, response.text
        found: Json = response.json()
        return found

    async def order(self, ref: str, verb: str, **fields: Any) -> Json:
        """What a schedule answers to an order."""
        response = await self.http.post(f"{SCHEDULES}/{ref}/{verb}", json=fields)
        assert response.status_code == 200, response.text
        told: Json = response.json()
        return told

    async def project(self) -> None:
        """Let the search indexes catch up."""
        for partition in self.store.partitions:
            projector = Projector(partition, "test", 1000)
            while id_key(await partition.projection.position()) < id_key(await partition.history.tip()):
                await projector.run_once(block_ms=1)


def open_door(store: Store, stopping: asyncio.Event | None = None, **settings: Any) -> Door:
    """An api for this store, without a server between."""
    health = Health("api")
    app = create_app(lambda: store, ApiSettings(**{"search_wait_s": 0, **settings}), health, stopping)
    # A bug would be answered with 500, and the assertion about the answer says so.
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return Door(httpx.AsyncClient(transport=transport, base_url="http://api"), store, health)


def refused(response: httpx.Response, status: int, code: str) -> Json:
    """The error of a refusal, which has the one envelope."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"error"}
    error: Json = body["error"]
    assert set(error) == {"code", "message", "details"}
    assert error["code"] == code
    assert error["message"]
    assert all(set(detail) == {"field", "message"} for detail in error["details"])
    return error


def invalid(response: httpx.Response, *fields: str) -> Json:
    """The error of a refused request that blames these fields."""
    error = refused(response, 400, "VALIDATION_ERROR")
    assert {detail["field"] for detail in error["details"]} == set(fields), error
    return error


def conflict(response: httpx.Response, *words: str) -> Json:
    """The error of a request that does not fit the state of things; its message has these words."""
    error = refused(response, 409, "CONFLICT")
    assert all(word in error["message"] for word in words), error
    return error
