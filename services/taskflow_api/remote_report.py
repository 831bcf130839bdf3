"""POST /workers/{worker_id}/jobs/{job_id}/logs|progress|complete|fail|release: what a worker tells of a job it holds.

The token is shown with every word.  One that is wrong or old is answered 409 and changes nothing.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import remote, remote_shapes
from taskflow_api.body import validate
from taskflow_api.context import Api, api_of, find_job, job_id_of
from taskflow_api.describe import JOB_ID, answers, takes
from taskflow_api.errors import Conflict, NotFound, Problem
from taskflow_api.parse import read_object
from taskflow_api.paths import JOB, WORKER
from taskflow_api.present import answer
from taskflow_api.remote_bodies import (
    MESSAGE_CHARS,
    TRACEBACK_CHARS,
    AddLog,
    CompleteJob,
    FailJob,
    ReleaseJob,
    TellProgress,
)
from taskflow_api.remote_lease import token_of
from taskflow_api.workers import WORKER_ID
from taskflow_domain import JobStatus
from taskflow_streams import LOG_BYTES, Ending, Failure, How, Partition, Reported, Token

router = APIRouter(tags=["workers over HTTP"])

B = TypeVar("B", bound=ReleaseJob)

_PATH: Final = f"{WORKER}{JOB}"
_ANSWERS: Final = answers({200: (remote_shapes.Heard, "It was heard.")}, 400, 404, 409, 413, 503, about={
    404: "No such worker is registered, or there is no such job.",
    409: "The token is wrong or old: the job is another's by now.  Nothing was changed; stop the attempt.",
})  # fmt: skip
# What a job may be after a report, when the same comes again.
_SAME: Final[Mapping[How, frozenset[JobStatus]]] = {
    How.COMPLETED: frozenset({JobStatus.COMPLETED}),
    How.FAILED: frozenset({JobStatus.FAILED, JobStatus.READY, JobStatus.CANCELED}),
    How.FATAL: frozenset({JobStatus.FAILED, JobStatus.CANCELED}),
    How.RELEASED: frozenset({JobStatus.READY, JobStatus.CANCELED, JobStatus.EXPIRED}),
}


@router.post(
    f"{_PATH}/logs",
    summary="Add to the output of a job",
    responses=_ANSWERS,
    openapi_extra=takes(AddLog, path=[WORKER_ID, JOB_ID]),
)
async def add_log(request: Request) -> Response:
    """Show what the job prints, while it runs.  With `offset`, a piece that is sent twice is kept once."""
    held = await _Held.of(request)
    body = await held.read(AddLog)
    text = body.text.encode()
    chunk = (body.stream, text) if body.offset is None else (body.stream, text, body.offset)
    word = await held.home.leases.log(held.worker_id, await held.token(body), [chunk], LOG_BYTES)
    if word == "stale":
        raise await held.refusal()
    return _heard("full" if word == "full" else "accepted")


@router.post(
    f"{_PATH}/progress",
    summary="Say how far a job is",
    responses=_ANSWERS,
    openapi_extra=takes(TellProgress, path=[WORKER_ID, JOB_ID]),
)
async def tell_progress(request: Request) -> Response:
    """Shown with the job; the last word counts."""
    held = await _Held.of(request)
    body = await held.read(TellProgress)
    if not await held.home.leases.progress(held.worker_id, await held.token(body), body.fraction, body.message):
        raise await held.refusal()
    return _heard("accepted")


@router.post(
    f"{_PATH}/complete",
    summary="A job is done",
    responses=_ANSWERS,
    openapi_extra=takes(CompleteJob, path=[WORKER_ID, JOB_ID]),
)
async def complete_job(request: Request) -> Response:
    """The job is COMPLETED with this result, also if it was to be canceled.  Safe to repeat: `already_done`."""
    held = await _Held.of(request)
    body = await held.read(CompleteJob)
    return await held.end(Ending(*await held.token(body), How.COMPLETED, body.result))


@router.post(
    f"{_PATH}/fail",
    summary="A job failed",
    responses=_ANSWERS,
    openapi_extra=takes(FailJob, path=[WORKER_ID, JOB_ID]),
)
async def fail_job(request: Request) -> Response:
    """The attempt failed: the job is tried again as its policy says, unless `fatal`.

    A job that was to be canceled is canceled.  Safe to repeat: `already_done`.
    """
    held = await _Held.of(request)
    body = await held.read(FailJob)
    trace = body.error.traceback
    failure = Failure(
        body.error.kind, body.error.message[:MESSAGE_CHARS], trace[-TRACEBACK_CHARS:] if trace is not None else None
    )
    how = How.FATAL if body.fatal else How.FAILED
    return await held.end(Ending(*await held.token(body), how, body.result, failure))


@router.post(
    f"{_PATH}/release",
    summary="Give a job back",
    responses=_ANSWERS,
    openapi_extra=takes(ReleaseJob, path=[WORKER_ID, JOB_ID]),
)
async def release_job(request: Request) -> Response:
    """Another worker shall run it; the attempt does not count.  Safe to repeat: `already_done`."""
    held = await _Held.of(request)
    body = await held.read(ReleaseJob)
    return await held.end(Ending(*await held.token(body), How.RELEASED))


class _Held:
    """A job, and the worker that says it holds it."""

    def __init__(self, request: Request, api: Api, worker_id: str, job_id: str, home: Partition) -> None:
        self.worker_id, self.job_id, self.home = worker_id, job_id, home
        self._request, self._api = request, api

    @classmethod
    async def of(cls, request: Request) -> "_Held":
        """As the path says."""
        api, job_id = api_of(request), job_id_of(request)
        worker_id: str = request.path_params["worker_id"]
        if not remote.is_id(worker_id):  # one of our own, perhaps: it speaks for itself, and nobody for it
            raise remote.unknown(worker_id)
        home = api.store.partition(job_id)
        if home is None:
            raise NotFound(f"There is no job {job_id}.")
        return cls(request, api, worker_id, job_id, home)

    async def read(self, model: type[B]) -> B:
        """The request's body."""
        return validate(model, await read_object(self._request, self._api.settings.body_limit_bytes))

    async def token(self, body: ReleaseJob) -> Token:
        """The token as the engine knows it, if it is one that this worker was given with this job."""
        fence = body.token.rpartition(":")[2]
        number = int(fence[:15]) if fence.isascii() and fence.isdigit() else 0
        if body.token != token_of(self.worker_id, self.job_id, number):
            raise await self.refusal()
        return self.job_id, number

    async def end(self, ending: Ending) -> Response:
        """Report an end."""
        [word], _ = await self.home.leases.report(self.worker_id, [ending])
        if word is Reported.OK:
            return _heard("accepted")
        if word is Reported.DONE:
            job = await find_job(self._api.store, self.job_id)
            if job.status in _SAME[ending.how] and job.worker in (None, self.worker_id):
                return _heard("already_done")
        raise await self.refusal()

    async def refusal(self) -> Problem:
        """Why the worker was not heard."""
        await remote.load(self._api.store, self.worker_id)
        await find_job(self._api.store, self.job_id)
        return Conflict(
            f"Worker {self.worker_id} does not hold job {self.job_id} with this token: it is wrong or old.  "
            "Nothing was changed; stop the attempt."
        )


def _heard(outcome: str) -> Response:
    return answer({"outcome": outcome})
