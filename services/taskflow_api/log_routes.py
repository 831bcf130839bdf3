"""GET …/jobs/{job_id}/logs, …/logs/stream and …/wait: what a job prints and how it ends, for those who wait for it."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import s2_shapes, shapes
from taskflow_api.context import Api, api_of, find_job, path_job_id
from taskflow_api.describe import JOB_ID, Responses, answers, parameter, takes
from taskflow_api.errors import Invalid, NotFound
from taskflow_api.front import PATIENT
from taskflow_api.logs import DEFAULT_LIMIT, LOG_ID_SCHEMA, MAX_LIMIT, START, STREAMS, log_id, read_page
from taskflow_api.paths import JOB, PREFIX
from taskflow_api.present import answer, job_fields, show_job
from taskflow_api.query import Reader, integer, one_of, read_query, seconds
from taskflow_api.s2_present import STATUS_WORDS, error_text
from taskflow_api.sse import EventStream, follow, until_gone
from taskflow_streams import JobRecord, Partition

router = APIRouter()

LAST_EVENT_ID: Final = "Last-Event-ID"
LONGEST_WAIT_S: Final = 60
DEFAULT_WAIT_S: Final = 20

_PAGE_READERS: Final[dict[str, Reader]] = {
    "after": log_id,
    "limit": integer(1, MAX_LIMIT),
    "stream": one_of(STREAMS),
}
_AFTER: Final = parameter("after", LOG_ID_SCHEMA, "Go on after this piece: `next` of the page before.")
_PAGE_PARAMETERS: Final = [
    _AFTER,
    parameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
        "Pieces on a page.",
    ),
    parameter("stream", {"type": "string", "enum": list(STREAMS)}, "Only this stream."),
]
_RESUME: Final[dict[str, Any]] = {
    "name": LAST_EVENT_ID,
    "in": "header",
    "required": False,
    "description": "The id of the last event that was seen, as browsers send it; it counts more than `after`.",
    "schema": LOG_ID_SCHEMA,
}
_STREAM_ANSWERS: Final[Responses] = answers({}, 400, 404, 503) | {
    200: {
        "description": "Server-sent events: `log` for each piece, and `end`.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


def _s1_end(job: JobRecord) -> dict[str, Any]:
    fields = job_fields(job)
    return {name: fields[name] for name in ("id", "status", "result", "error")}


def _s2_end(job: JobRecord) -> dict[str, Any]:
    return _s1_end(job) | {"status": STATUS_WORDS[job.status], "error": error_text(job)}


async def get_logs(request: Request) -> Response:
    """What a job printed, all its attempts, in order.

    `next` goes on; it is null when there is nothing more now.  The stream `system` is what the worker has to say.
    Bytes that are no UTF-8 are shown as U+FFFD; a character is shown with the piece that completes it.
    """
    given = read_query(request, _PAGE_READERS)
    job, home = await _locate(api_of(request), request)
    limit = given.get("limit", DEFAULT_LIMIT)
    return answer(await read_page(home, job, given.get("after", START), limit, given.get("stream")))


async def _locate(api: Api, request: Request) -> tuple[JobRecord, Partition]:
    job = await find_job(api.store, path_job_id(request))
    home = api.store.partition(job.id)
    if home is None:
        raise NotFound(f"There is no job {job.id}.")
    return job, home


def _streaming(end: Callable[[JobRecord], dict[str, Any]]) -> Callable[[Request], Awaitable[Response]]:
    async def stream_logs(request: Request) -> Response:
        """Follow what a job prints, from the beginning or from where a reader was, until it has ended.

        Each piece is an event `log` whose data is an item of `…/logs`; `progress` is how far the job is, as its record
        has it (`fraction`, `message`); the last event is `end`, with `id`, `status`,
        `result` and `error`; all null but the id if the job was deleted.  A comment comes every 15 seconds when there
        is nothing to say.  A stream that breaks off without `end` is to be opened again, which browsers do.
        """
        api = api_of(request)
        after = read_query(request, {"after": log_id}).get("after", START)
        if (header := request.headers.get(LAST_EVENT_ID)) is not None:
            try:
                after = log_id(header)
            except ValueError as error:
                raise Invalid.field(LAST_EVENT_ID, str(error)) from None
        job, home = await _locate(api, request)
        request.scope[PATIENT] = True
        api.patience.enter()  # now, for a refusal must come before the stream
        return EventStream(follow(api.store, home, job.id, after, end), api.stopping, api.patience.leave)

    return stream_logs


async def wait_for_job(request: Request) -> Response:
    """The job once it has ended, or as it is when the time is over: look at its status."""
    api = api_of(request)
    given = read_query(request, {"timeout_s": seconds(0, LONGEST_WAIT_S)})
    job_id = path_job_id(request)
    if request.method == "HEAD":  # for which there is nothing to wait for
        return show_job(await find_job(api.store, job_id))
    request.scope[PATIENT] = True
    with api.patience.room():
        waiting = api.store.wait_end(job_id, given.get("timeout_s", DEFAULT_WAIT_S))
        job = await until_gone(request, waiting, api.stopping)
    if job is None:
        job = await find_job(api.store, job_id)
    return show_job(job)


for _prefix, _tag, _end, _title in (
    (PREFIX, "jobs", _s1_end, "a job"),
    ("", "submissions", _s2_end, "a submitted job"),
):
    router.add_api_route(
        f"{_prefix}{JOB}/logs",
        get_logs,
        name=f"get_logs_{_tag}",
        methods=["GET"],
        tags=[_tag],
        summary=f"The output of {_title}",
        responses=answers({200: (s2_shapes.LogPage, "One page.")}, 400, 404, 503),
        openapi_extra=takes(path=[JOB_ID], query=_PAGE_PARAMETERS),
    )
    router.add_api_route(
        f"{_prefix}{JOB}/logs/stream",
        _streaming(_end),
        name=f"stream_logs_{_tag}",
        methods=["GET"],
        tags=[_tag],
        summary=f"Follow the output of {_title}",
        responses=_STREAM_ANSWERS,
        response_class=Response,
        openapi_extra=takes(path=[JOB_ID], headers=[_RESUME], query=[_AFTER]),
    )
router.add_api_route(
    f"{PREFIX}{JOB}/wait",
    wait_for_job,
    methods=["GET"],
    tags=["jobs"],
    summary="Wait until a job has ended",
    responses=answers({200: (shapes.Job, "The job as it is now.")}, 400, 404, 503),
    openapi_extra=takes(
        path=[JOB_ID],
        query=[
            parameter(
                "timeout_s",
                {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT_S, "default": DEFAULT_WAIT_S},
                "The longest time to wait.",
            )
        ],
    ),
)
