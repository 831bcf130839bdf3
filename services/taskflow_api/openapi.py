"""The OpenAPI document: what the routes declare, the bodies they read by themselves, and the token."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute

from taskflow_api import bodies, remote_bodies, s2_bodies, schedule_bodies
from taskflow_api.front import OPEN_PATHS

TITLE: Final = "TaskFlow"
ABOUT: Final = """\
Jobs with dependencies, priorities and retries, and schedules that make them.

* Every error is `{"error": {"code", "message", "details": [{"field", "message"}]}}`.
* Times are UTC, always `2026-01-02T03:04:05.678Z`; sent times are ISO 8601, and UTC if they have no offset.
* Bodies are JSON and strict: no `"5"` for 5, no unknown fields, no doubled keys, no NUL in texts.
  Optional fields may be null.
* A query parameter is given once; unknown ones are refused.
* Jobs run at least once, in order of priority, then age; `attempt_count` counts attempts started.
"""
TAGS: Final = [
    {"name": "jobs", "description": "Create, read, change, delete and search jobs."},
    {"name": "submissions", "description": "Shell commands and Python functions: submit, follow, list, cancel."},
    {
        "name": "schedules",
        "description": "Run jobs again and again, by the clock or by hand, and for times that are past.",
    },
    {"name": "queues", "description": "Where jobs wait, and how many of them may run."},
    {"name": "workers", "description": "Who runs them."},
    {
        "name": "workers over HTTP",
        "description": "Be a worker, in any language: register, lease, heartbeat, log, complete.",
    },
    {"name": "health", "description": "For those who watch over the process."},
]
BODIES: Final = (
    bodies.CreateJob, bodies.UpdateJob, bodies.RetryJob, bodies.Batch, bodies.UpdateQueue, s2_bodies.SubmitJob,
    *schedule_bodies.BODIES, *remote_bodies.BODIES,
)  # fmt: skip


def document(app: FastAPI, routes: Sequence[BaseRoute], *, asks_token: bool) -> Callable[[], dict[str, Any]]:
    """The function that makes the document, once."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _make(app, routes, asks_token)
        return app.openapi_schema

    return openapi


def _make(app: FastAPI, routes: Sequence[BaseRoute], asks_token: bool) -> dict[str, Any]:
    schema = get_openapi(title=app.title, version=app.version, description=ABOUT, tags=TAGS, routes=routes)
    components = schema.setdefault("components", {})
    _, definitions = models_json_schema(
        [(model, "validation") for model in BODIES], ref_template="#/components/schemas/{model}"
    )
    components["schemas"] |= definitions["$defs"]
    if asks_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"token": []}]
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            if not asks_token:
                operation["responses"].pop("401", None)
            elif path in OPEN_PATHS:
                operation["security"] = []
    return schema
