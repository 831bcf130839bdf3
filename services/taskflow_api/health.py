"""/healthz, /readyz and /metrics, on the api's own port."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import shapes
from taskflow_api.context import api_of
from taskflow_api.describe import Responses, answers
from taskflow_api.errors import NotFound

router = APIRouter(tags=["health"])

_OPEN: Responses = {200: {"model": shapes.HealthState, "description": "All is well."}}
_METRICS: Responses = {
    200: {"description": "Everything that is measured.", "content": {"text/plain": {"schema": {"type": "string"}}}},
    401: answers({})[401],
}


@router.get("/healthz", summary="Alive?", responses=_OPEN)
async def healthz(request: Request) -> Response:
    """Whether the process answers.  Needs no token."""
    return _answer(request, "/healthz")


@router.get("/readyz", summary="Ready?", responses=_OPEN | {
    503: {"model": shapes.HealthState, "description": "The broker has not been read lately, or we are stopping."},
})  # fmt: skip
async def readyz(request: Request) -> Response:
    """Whether the broker was read lately.  Needs no token."""
    return _answer(request, "/readyz")


@router.get("/metrics", summary="Metrics", response_class=Response, responses=_METRICS)
async def metrics(request: Request) -> Response:
    """What this process measures, for Prometheus."""
    return _answer(request, "/metrics")


def _answer(request: Request, path: str) -> Response:
    found = api_of(request).health.answer(path, request.headers.get("accept", ""))
    if found is None:
        raise NotFound(f"There is no {path}.")
    return Response(found.body, found.status, media_type=found.content_type)
