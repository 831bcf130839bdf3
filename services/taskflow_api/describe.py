"""Say in OpenAPI what an operation takes and what it answers."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel

from taskflow_api import examples, s2_shapes, schedule_shapes, shapes
from taskflow_api.fields import KEY_PATTERN

Responses = dict[int | str, dict[str, Any]]

_ABOUT: Final = {
    400: "The request is wrong: not JSON, a field out of bounds or unknown, a dependency that does not exist.",
    401: "The token is missing or wrong.",
    404: "There is no such job.",
    409: "Not in this state: it has ended, others depend on it, a cycle would close, a key was used before.",
    413: "The body is over its limit.",
    503: "The broker is away, or nearly full.  Try again after the seconds that `Retry-After` says.",
}
_HEADERS: Final[dict[int, dict[str, Any]]] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}, "description": "`Bearer`"}},
    503: {"Retry-After": {"schema": {"type": "integer", "minimum": 1}, "description": "Seconds to wait."}},
}
_PLACES: Final[dict[type[BaseModel], str]] = {  # of what was made
    shapes.Job: "The job's path.",
    s2_shapes.JobRef: "The job's path.",
    schedule_shapes.Schedule: "The schedule's path.",
    schedule_shapes.ScheduleRef: "The schedule's path.",
}

IDEMPOTENCY_HEADER: Final[dict[str, Any]] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Sent again with the same key and body, what was made first is the answer.  Kept for 7 days.",
    "schema": {"type": "string", "pattern": KEY_PATTERN},
    "examples": {"order": {"value": "order-4711"}},
}
JOB_ID: Final[dict[str, Any]] = {
    "name": "job_id",
    "in": "path",
    "required": True,
    "description": "The job's id.  What is no UUID names no job: 404.",
    "schema": {"type": "string", "format": "uuid"},
}


def answers(
    good: Mapping[int, tuple[type[BaseModel] | None, str]],
    *errors: int,
    headers: Mapping[str, Any] | None = None,
    about: Mapping[int, str] | None = None,
) -> Responses:
    """What an operation answers when all is well, and with which errors.  Any may be 401."""
    responses: Responses = {}
    for status, (model, description) in good.items():
        responses[status] = {"description": description} | ({"model": model} if model is not None else {})
        if headers:
            responses[status]["headers"] = dict(headers)
        if status == HTTPStatus.CREATED and model in _PLACES:
            about_place = {"schema": {"type": "string"}, "description": _PLACES[model]}
            responses[status]["headers"] = {"Location": about_place}
    for status in sorted({*errors, 401}):
        responses[status] = {
            "model": shapes.Error,
            "description": (about or {}).get(status, _ABOUT[status]),
            "content": {"application/json": {"example": examples.ERRORS[status]}},
        }
        if status in _HEADERS:
            responses[status]["headers"] = _HEADERS[status]
    return responses


def takes(
    body: type[BaseModel] | None = None,
    *,
    is_required: bool = True,
    path: Sequence[Mapping[str, Any]] = (),
    headers: Sequence[Mapping[str, Any]] = (),
    query: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """What an operation takes.  The schema of a body is added to the components by `openapi`."""
    extra: dict[str, Any] = {"parameters": [dict(parameter) for parameter in (*path, *headers, *query)]}
    if body is not None:
        content = {
            "schema": {"$ref": f"#/components/schemas/{body.__name__}"},
            "examples": {name: {"value": value} for name, value in examples.BODIES[body.__name__].items()},
        }
        extra["requestBody"] = {"required": is_required, "content": {"application/json": content}}
    return extra


def parameter(name: str, schema: Mapping[str, Any], description: str) -> dict[str, Any]:
    """One query parameter, which may be given once."""
    return {"name": name, "in": "query", "required": False, "description": description, "schema": dict(schema)}
