"""The OpenAPI document: whole, true, and readable without the internet."""

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import jsonschema_rs
import pytest

from taskflow_api import examples
from taskflow_domain import JobStatus
from taskflow_runtime.settings import Address
from taskflow_runtime.web import Web, listen
from taskflow_streams import Pool, Store
from tests.integration.api.door import JOBS, SCHEDULES, Door, open_door
from tests.integration.api.remote import a_command, a_remote
from tests.support.engine import a_job, a_running_job, a_worker, an_ended_job

TOKEN = "s3cret"
HOOKS = Path(__file__).with_name("schemathesis_hooks.py")
SECONDS = 240.0


async def document(door: Door) -> dict[str, Any]:
    """The document as it is served."""
    response = await door.http.get("/openapi.json")
    assert response.status_code == 200
    found: dict[str, Any] = response.json()
    return found


def operations(found: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every operation, with its name."""
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def conforms(found: dict[str, Any], schema: str, value: Any) -> None:
    """Hold a value against a schema of the document."""
    jsonschema_rs.validate({"$ref": f"#/components/schemas/{schema}", "components": found["components"]}, value)


async def test_every_operation_is_described(door: Door) -> None:
    """With a summary, a tag, what it answers, and the errors it can have; none is 422."""
    found = dict(operations(await document(door)))

    assert {name for name in found if "/api/" in name} == {
        "GET /api/v1/jobs",
        "POST /api/v1/jobs",
        "POST /api/v1/jobs/batch",
        "GET /api/v1/jobs/{job_id}",
        "PUT /api/v1/jobs/{job_id}",
        "DELETE /api/v1/jobs/{job_id}",
        "POST /api/v1/jobs/{job_id}/cancel",
        "POST /api/v1/jobs/{job_id}/retry",
        "GET /api/v1/jobs/{job_id}/events",
        "GET /api/v1/jobs/{job_id}/explain",
        "GET /api/v1/jobs/{job_id}/logs",
        "GET /api/v1/jobs/{job_id}/logs/stream",
        "GET /api/v1/jobs/{job_id}/wait",
        "GET /api/v1/queues",
        "PATCH /api/v1/queues/{name}",
        "GET /api/v1/workers",
        "POST /api/v1/workers/{worker_id}/drain",
        "POST /api/v1/workers/{worker_id}/resume",
        "GET /api/v1/schedules",
        "POST /api/v1/schedules",
        "GET /api/v1/schedules/preview",
        "GET /api/v1/schedules/{ref}",
        "PUT /api/v1/schedules/{ref}",
        "DELETE /api/v1/schedules/{ref}",
        "GET /api/v1/schedules/{ref}/preview",
        "GET /api/v1/schedules/{ref}/history",
        *(f"POST /api/v1/schedules/{{ref}}/{verb}" for verb in ("pause", "resume", "trigger", "backfill")),
    }
    assert {name for name in found if "/api/" not in name} == {
        "GET /healthz",
        "GET /readyz",
        "GET /metrics",
        "GET /jobs",
        "POST /jobs",
        "GET /jobs/{job_id}",
        "POST /jobs/{job_id}/cancel",
        "GET /jobs/{job_id}/logs",
        "GET /jobs/{job_id}/logs/stream",
        "POST /schedules",
        "GET /workers",
        "POST /workers/register",
        "DELETE /workers/{worker_id}",
        "POST /workers/{worker_id}/heartbeat",
        "POST /workers/{worker_id}/lease",
        *(
            f"POST /workers/{{worker_id}}/jobs/{{job_id}}/{verb}"
            for verb in ("logs", "progress", "complete", "fail", "release")
        ),
    }
    for name, operation in found.items():
        assert operation["summary"], name
        assert operation["description"], name
        assert len(operation["tags"]) == 1, name
        assert "422" not in operation["responses"], name
        if any(word in name for word in ("jobs", "workers", "schedules", "/api/")):
            assert {"400", "503"} <= set(operation["responses"]), name
            assert ("404" in operation["responses"]) == ("{" in name), name
        if "requestBody" in operation:
            assert "413" in operation["responses"], name


async def test_the_token_is_in_the_document_where_it_is_asked_for(door: Door) -> None:
    """With one, everything but health needs it; without, nothing speaks of it."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    guarded = (await open_door(door.store, api_token=TOKEN).http.get("/openapi.json", headers=headers)).json()
    open_ = await document(door)

    assert guarded["security"] == [{"token": []}]
    free = {name for name, operation in operations(guarded) if operation.get("security") == []}
    assert free == {"GET /healthz", "GET /readyz"}
    assert all(("401" in operation["responses"]) != (name in free) for name, operation in operations(guarded))
    assert "security" not in open_
    assert not any("401" in operation["responses"] for _, operation in operations(open_))


async def a_lease(door: Door) -> dict[str, Any]:
    """What a worker over HTTP was given, and its id."""
    worker = await a_remote(door.http, queues=["lone"])
    await a_command(door.http, queue="lone")
    return {"worker": worker.id} | await worker.take()


async def test_the_examples_are_true(door: Door) -> None:
    """Bodies are accepted, answers fit their schemas."""
    found = await document(door)
    ended, job = await an_ended_job(door.store), await door.create()
    for body in examples.BODIES["CreateJob"].values():
        assert (await door.http.post(JOBS, json=body)).status_code == 201
    for body in examples.BODIES["Batch"].values():
        assert (await door.http.post(f"{JOBS}/batch", json=body)).status_code == 201
    for body in examples.BODIES["UpdateJob"].values():
        assert (await door.http.put(f"{JOBS}/{job['id']}", json=body)).status_code == 200
    for body in examples.BODIES["SubmitJob"].values():
        assert (await door.http.post("/jobs", json=body)).status_code == 201
    for body in examples.BODIES["RetryJob"].values():
        assert (await door.http.post(f"{JOBS}/{ended}/retry", json=body)).status_code == 201
    for path in (SCHEDULES, "/schedules"):
        for body in examples.BODIES["CreateSchedule"].values():
            response = await door.http.post(
                path, json=body | {"name": path.replace("/", " ")} if "name" in body else body
            )
            assert response.status_code == 201
    nightly = f"{SCHEDULES}/{response.json()['id']}"
    for method, tail, name in (
        ("PUT", "", "UpdateSchedule"), ("POST", "/pause", "PauseSchedule"), ("POST", "/trigger", "TriggerSchedule"),
        ("POST", "/backfill", "BackfillSchedule"),
    ):  # fmt: skip
        for body in examples.BODIES[name].values():
            assert (await door.http.request(method, nightly + tail, json=body)).status_code == 200
    for body in examples.BODIES["UpdateQueue"].values():
        assert (await door.http.patch("/api/v1/queues/q", json=body)).status_code == 200
    for body in examples.BODIES["RegisterWorker"].values():
        worker = await door.http.post("/workers/register", json=body)
        assert worker.status_code == 201
    for body in examples.BODIES["Heartbeat"].values():
        assert (await door.http.post(f"/workers/{worker.json()['id']}/heartbeat", json=body)).status_code == 200
    for body in examples.BODIES["AskForJobs"].values():
        path = f"/workers/{worker.json()['id']}/lease"
        assert (await door.http.post(path, json=body | {"wait_s": 0})).status_code == 200
    for verb, name in (
        ("logs", "AddLog"), ("progress", "TellProgress"), ("complete", "CompleteJob"), ("fail", "FailJob"),
        ("release", "ReleaseJob"),
    ):  # fmt: skip
        for body in examples.BODIES[name].values():
            held = await a_lease(door)
            path = f"/workers/{held['worker']}/jobs/{held['job']}/{verb}"
            assert (await door.http.post(path, json=body | {"token": held["token"]})).status_code == 200
    for schema, value in (
        ("LeasedJob", examples.LEASED_JOB),
        ("Job", examples.JOB),
        ("Event", examples.EVENT),
        ("Explanation", examples.EXPLANATION),
        ("QueueState", examples.QUEUE),
        ("Worker", examples.WORKER),
        ("ListedWorker", examples.LISTED_WORKER),
        ("LogItem", examples.LOG_ITEM),
        ("SubmittedJob", examples.SUBMITTED_JOB),
        ("Schedule", examples.SCHEDULE),
        ("HistoryLine", examples.HISTORY_LINE),
        ("Preview", examples.PREVIEW),
        *(("Error", error) for error in examples.ERRORS.values()),
    ):
        conforms(found, schema, value)


async def test_answers_fit_their_schemas(door: Door) -> None:
    """In every state a job can be in."""
    found = await document(door)
    failed = await an_ended_job(door.store, JobStatus.FAILED)
    ids = [
        (await a_running_job(door.store)).job_id,
        await an_ended_job(door.store, task="t", timeout_ms=1500, owner="me", due_ms=1, expires_ms=2**42),
        failed,
        (await door.create(dependencies=[failed]))["id"],
        (await door.create(delay_s=5, ttl_s=10))["id"],
    ]
    await a_worker(door.store)
    for job_id in ids:
        conforms(found, "Job", await door.get(job_id))
        conforms(found, "SubmittedJob", (await door.http.get(f"/jobs/{job_id}")).json())
        conforms(found, "LogPage", (await door.http.get(f"/jobs/{job_id}/logs")).json())
        for tail, schema in (("events", "EventList"), ("explain", "Explanation")):
            conforms(found, schema, (await door.http.get(f"{JOBS}/{job_id}/{tail}")).json())
    await door.project()
    conforms(found, "JobPage", await door.search())
    conforms(found, "NumberedPage", (await door.http.get("/jobs")).json())
    conforms(found, "QueueList", (await door.http.get("/api/v1/queues")).json())
    far = await a_remote(door.http)
    await a_command(door.http)
    leased = (await far.post("lease", wait_s=0)).json()
    conforms(found, "LeasedJobs", leased)
    conforms(found, "Beat", await far.beat(leased["items"][0]["job"]))
    conforms(found, "Heard", (await far.tell(leased["items"][0], "complete")).json())
    conforms(found, "Dismissed", (await door.http.delete(f"/workers/{far.id}")).json())
    conforms(found, "ListedWorkers", (await door.http.get("/workers")).json())
    conforms(found, "WorkerList", (await door.http.get("/api/v1/workers")).json())


async def test_answers_about_schedules_fit_their_schemas(door: Door) -> None:
    """In every state that a schedule can be in, and with every kind of line in its history."""
    found = await document(door)
    made = [
        await door.schedule(name="all", timezone="Asia/Tokyo", start_at="2026-01-01", end_at="2099-01-01", jitter_s=0.5,
                            overlap="skip", catchup_limit=0, catchup_window_s=1, max_runs=9, owner="me"),
        await door.schedule(interval_s=1.5, paused=True, reason="not yet"),
        await door.schedule(cron="*/5 * * * * *", overlap="buffer_all", job={"type": "shell", "cmd": "true"}),
        (await door.http.post("/jobs", json=SHELL | {"schedule_cron": "@daily"})).json(),
    ]  # fmt: skip
    refs = [one["id"] for one in made]
    conforms(found, "JobRef", made[3])
    conforms(
        found,
        "ScheduleRef",
        (await door.http.post("/schedules", json=examples.BODIES["CreateSchedule"]["cron"])).json(),
    )
    conforms(found, "Triggered", await door.order(refs[2], "trigger"))
    conforms(found, "Triggered", await door.order(refs[2], "trigger"))
    span = {"from": "2020-01-01", "to": "2020-01-01T00:01:00"}
    conforms(found, "Backfilling", await door.order(refs[0], "backfill", **span))
    conforms(found, "Backfilling", await door.order(refs[2], "backfill", rerun=True, **span))
    conforms(found, "SubmittedJob", (await door.http.get(f"/jobs/{refs[3]}")).json())
    conforms(found, "JobState", (await door.http.post(f"/jobs/{refs[3]}/cancel")).json())
    for ref in refs[1:3]:
        conforms(found, "Schedule", await door.order(ref, "pause", reason="why not"))
        conforms(found, "Schedule", await door.order(ref, "resume"))
    for ref in refs:
        conforms(found, "Schedule", await door.look(ref))
        conforms(found, "SubmittedJob", (await door.http.get(f"/jobs/{ref}")).json())
        conforms(found, "Preview", await door.look(ref, "/preview"))
        conforms(found, "HistoryPage", await door.look(ref, "/history"))
    conforms(found, "Preview", await door.look("preview", cron="0 9 * * 1", timezone="Europe/Berlin"))
    conforms(found, "SchedulePage", await door.look("", limit=2))


SHELL = {"type": "shell", "cmd": "echo"}
PYTHON = {"type": "python", "callable": "m:f"}


@pytest.mark.parametrize(
    "body",
    [
        *({**SHELL, "cmd": cmd} for cmd in ("é", "\u00a0日本\n", " \u0001", "🙂", "\ufeff", "a\u2028b")),
        *({**PYTHON, "callable": path} for path in ("é:f", "m.ñ_1:Größe.名", "_:_", "𝒳:𝒴1", "e\u0301:f")),
        *({**PYTHON, "kwargs": {name: 1}} for name in ("é", "_", "a1", "名", "𝒳")),
        *(
            {**SHELL, "scheduled_at": time}
            for time in (
                "2030-01-01", "20300101", "2030-W01-1", "2030W011", "2030-w01", "2030-01-01T05", "2030-01-01t05:06z",
                "2030-01-01 05:06:07,5", "20300101T050607Z", "2030-01-01T05:06:07+05", "2030-01-01T05:06:07-0530",
                "2030-01-01T05:06:07.123456789+05:30:15", "1969-12-31T23:00:00-02:00", "9999-12-31",
            )
        ),
    ],
    ids=lambda body: ascii([value for name, value in body.items() if name != "type"][-1])[:40],
)  # fmt: skip
async def test_what_is_accepted_fits_its_schema(door: Door, body: dict[str, Any]) -> None:
    """Who looks at the schema first, as a gateway or a generated client does, refuses nothing that is fine."""
    conforms(await document(door), "SubmitJob", body)
    response = await door.http.post("/jobs", json=body)
    assert response.status_code == 201, response.text


@pytest.mark.parametrize(
    "body",
    [
        *({**SHELL, "cmd": cmd} for cmd in ("", " \t\n", "\u00a0\u2028\u3000\u0085\u001c", "a\0")),
        *({**SHELL, "env": {name: "1"}} for name in ("é", "1", "TASKFLOW_X", "a-b", "")),
        *(
            {**PYTHON, "callable": path}
            for path in ("f", "m:", ":f", "m:1", "m f:g", "m-n:f", "m..n:f", "m:f:g", "[:]")
        ),
        *({**PYTHON, "kwargs": {name: 1}} for name in ("", "1", "a b", "a.b", "a-b", "^", "`", "{", "a:")),
        *(
            {**SHELL, "scheduled_at": time}
            for time in (
                "soon",
                "",
                "2030",
                "2030-1-1",
                "2030-01-01T",
                "2030-01-01T05:06:07 Z",
                "1968-01-01",
                "٢٠٣٠-01-01",
            )
        ),
    ],
    ids=lambda body: ascii([value for name, value in body.items() if name != "type"][-1])[:40],
)
async def test_what_its_schema_refuses_is_refused(door: Door, body: dict[str, Any]) -> None:
    """As far as a schema can say it: that February has no 30th is said by the answer."""
    with pytest.raises(jsonschema_rs.ValidationError):
        conforms(await document(door), "SubmitJob", body)
    assert (await door.http.post("/jobs", json=body)).status_code == 400


@pytest.mark.parametrize("page", ["/docs", "/redoc"])
async def test_the_pages_need_no_internet(door: Door, page: str) -> None:
    """Whatever they load comes from here."""
    html = (await door.http.get(page)).text
    loaded = re.findall(r"(?:src|href)=\"([^\"]+)\"", html)

    assert len(loaded) >= 2
    assert "http://" not in html
    assert "https://" not in html
    for asset in loaded:
        assert (await door.http.get(asset)).status_code == 200


@pytest.mark.timeout(SECONDS + 60)
async def test_schemathesis_finds_nothing(store: Store, tmp_path: Path) -> None:
    """All its checks, in all its phases, against a real server that asks for a token."""
    about: dict[str, str | int | float] = {"kind": "http", "takes": '[["x"],null]', "concurrency": 1}
    workers = [str(uuid4()) for _ in range(3)]
    for name in workers:
        await store.partitions[0].workers.join(name, Pool(frozenset({"x"})), about)
    jobs = [await a_job(store, handler="x") for _ in range(5)]
    schedules = [(await open_door(store).schedule())["id"] for _ in range(2)]
    await store.partitions[0].leases.lease(workers[2], Pool(frozenset({"x"})), 5)
    door = open_door(store, api_token=TOKEN)
    door.health.beat()
    door.health.ready_within_s = SECONDS
    web = Web(listen(Address("127.0.0.1", 0, "")), door.http._transport.app)  # type: ignore[attr-defined]
    web.start()
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{web.url}/openapi.json",
        "--checks", "all", "--max-examples", "15", "--seed", "1", "--continue-on-failure", "--no-shrink",
        "--exclude-path-regex", "/(stream|wait)$",  # they are meant to take their time
        "--generation-allow-x00", "false", "-H", f"Authorization: Bearer {TOKEN}",
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=tmp_path,
        env=os.environ
        | {
            "SCHEMATHESIS_HOOKS": str(HOOKS),
            "SCHEMATHESIS_WORKERS": ",".join(workers),
            "SCHEMATHESIS_JOBS": ",".join(jobs),
            "SCHEMATHESIS_SCHEDULES": ",".join(schedules),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
        await web.stop()

    assert process.returncode == 0, output.decode()
    assert "No issues found" in output.decode(), output.decode()
