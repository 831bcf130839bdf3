"""The api as one ASGI application: routes, documentation, and an answer for everything that goes wrong."""

import asyncio
from collections.abc import Callable
from importlib import metadata
from typing import Final

from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Mount, Route
from starlette.types import ASGIApp

from taskflow_api import (
    batch,
    create,
    events,
    explain,
    health,
    jobs,
    log_routes,
    openapi,
    queues,
    remote_lease,
    remote_life,
    remote_report,
    retry,
    s2_create,
    s2_jobs,
    s2_list,
    s2_schedules,
    s2_workers,
    schedule_backfill,
    schedule_orders,
    schedule_trigger,
    schedule_update,
    schedule_views,
    schedules,
    search,
    update,
    workers,
)
from taskflow_api.context import Api, Headroom, Patience
from taskflow_api.errors import FULL_RETRY_AFTER_S, Busy, Internal, NotFound, Problem, WrongMethod
from taskflow_api.front import Front
from taskflow_api.parse import printable
from taskflow_api.settings import ApiSettings
from taskflow_runtime import Health
from taskflow_streams import Full, Store, Unavailable

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
MODULES: Final = (
    jobs, create, search, batch, update, retry, events, explain, log_routes, s2_create, s2_jobs, s2_list,
    s2_schedules, s2_workers, schedules, schedule_update, schedule_orders, schedule_trigger, schedule_backfill,
    schedule_views, queues, workers, remote_life, remote_lease, remote_report, health,
)  # fmt: skip


def create_app(
    open_store: Callable[[], Store], settings: ApiSettings, health_: Health, stopping: asyncio.Event | None = None
) -> ASGIApp:
    """The application.  `open_store` gives the store, which may be away; then the answers are 503.

    Responses without an end of their own end when `stopping` is set.
    """
    app = FastAPIOffline(
        title=openapi.TITLE,
        version=metadata.version("taskflow"),
        redirect_slashes=False,
        swagger_ui_parameters={"tryItOutEnabled": True},
    )
    app.state.api = Api(
        open_store,
        settings,
        health_,
        Headroom(settings.memory_limit),
        Patience(settings.stream_limit),
        stopping or asyncio.Event(),
    )
    routes = [route for module in MODULES for route in module.router.routes if isinstance(route, APIRoute)]
    # Our functions take a request and return a response, which is all that a plain route knows.  FastAPI's own, which
    # looks for parameters to fill in, would take a quarter of the time of a request.
    app.router.routes += [Route(route.path, route.endpoint, methods=sorted(route.methods or ())) for route in routes]
    app.openapi = openapi.document(app, routes, asks_token=settings.token is not None)  # type: ignore[method-assign]
    _handle_errors(app)
    return Front(app, settings.token, settings.slow_request_s)


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(Problem)
    async def refuse(_request: Request, problem: Problem) -> Response:
        return problem.response()

    @app.exception_handler(Unavailable)
    async def put_off(_request: Request, error: Unavailable) -> Response:
        if isinstance(error, Full):
            return Busy("The server's memory is used up; try again later.", FULL_RETRY_AFTER_S).response()
        return Busy("The broker is away; try again soon.").response()

    @app.exception_handler(HTTPException)
    async def translate(request: Request, error: HTTPException) -> Response:
        allowed = _allowed(app, request)
        if error.status_code in (404, 405) and allowed:
            message = f"{request.method} is not possible here; {', '.join(allowed)} would be."
            return WrongMethod(message, headers={"Allow": ", ".join(allowed)}).response()
        return NotFound(f"There is nothing at {printable(request.url.path)}.").response()

    @app.exception_handler(Exception)
    async def apologize(_request: Request, _error: Exception) -> Response:
        return Internal().response()


def _allowed(app: FastAPI, request: Request) -> list[str]:
    """The methods that the request's path has, if it has any but the one that was asked for."""
    found = []
    for method in METHODS:
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in app.routes if not isinstance(route, Mount)):
            found.append(method)
    return [] if request.method in found else found
