"""POST /api/v1/jobs/batch: create up to a thousand jobs that may depend on one another, all or none."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskflow_api import shapes
from taskflow_api.bodies import Batch, BatchJob
from taskflow_api.body import validate
from taskflow_api.build import new_job
from taskflow_api.context import api_of
from taskflow_api.describe import IDEMPOTENCY_HEADER, answers, takes
from taskflow_api.errors import Conflict, Detail, Invalid
from taskflow_api.parse import read_object
from taskflow_api.paths import PREFIX
from taskflow_api.present import show_jobs
from taskflow_api.query import read_query
from taskflow_api.submit import Keyed, existing, fingerprint, header_key, submit, tie, untie
from taskflow_domain import MAX_DEPENDENCIES, detect_cycle
from taskflow_streams import NewJob, Store, UnknownDependency

router = APIRouter(prefix=PREFIX, tags=["jobs"])


@router.post(
    "/jobs/batch",
    status_code=201,
    summary="Create many jobs",
    responses=answers(
        {201: (shapes.JobList, "The jobs."), 200: (shapes.JobList, "The jobs that these keys have created before.")},
        400, 409, 413, 503,
    ),
    openapi_extra=takes(Batch, headers=[IDEMPOTENCY_HEADER]),
)  # fmt: skip
async def create_batch(request: Request) -> Response:
    """Create up to 1,000 jobs, all or none.

    A job may have a `key` of the sender's choice, by which others of the batch name it in `depends_on`, in any
    order.  The header `Idempotency-Key` covers the batch as a whole; single jobs may have keys of their own.
    """
    api = api_of(request)
    read_query(request, {})
    raw = await read_object(request, api.settings.batch_limit_bytes)
    jobs = validate(Batch, raw).jobs
    _check(jobs)
    keys = _idempotency_keys(jobs, raw, header_key(request))
    store = api.store
    await api.headroom.check(store)

    fresh = _new_ids(store, jobs)
    denylist = api.settings.denylist_cmds
    made = _build(jobs, fresh, keys, denylist)
    ids = await tie(store, fresh, keys)
    if ids != fresh:
        if known := await existing(store, ids):
            return show_jobs(known)
        made = _build(jobs, ids, keys, denylist)
    try:
        records, created = await submit(store, made)
    except UnknownDependency as error:
        await untie(store, fresh, keys)
        raise _unknown(jobs, ids, error) from None
    return show_jobs(records, 201 if created else 200)


def _check(jobs: Sequence[BatchJob]) -> None:
    """What one job alone cannot show: whom the names mean, and that nobody waits for himself."""
    places: dict[str, int] = {}
    faults: list[Detail] = []
    for i, job in enumerate(jobs):
        if job.key is not None and places.setdefault(job.key, i) != i:
            faults.append(Detail(f"jobs[{i}].key", f"jobs[{places[job.key]}] has this key already"))
    for i, job in enumerate(jobs):
        for j, name in enumerate(job.depends_on):
            if name not in places:
                faults.append(Detail(f"jobs[{i}].depends_on[{j}]", "no job of this batch has this key"))
        if len(job.dependencies) + len(job.depends_on) > MAX_DEPENDENCIES:
            faults.append(Detail(f"jobs[{i}].depends_on", f"may be {MAX_DEPENDENCIES} with `dependencies`, no more"))
    if faults:
        raise Invalid.of(faults)
    edges = {job.key: job.depends_on for job in jobs if job.key is not None}
    cycle = detect_cycle("", list(edges), edges).cycle_path  # no key is empty, so nobody waits for this one
    if cycle:
        raise Conflict(f"These jobs wait for one another: {' → '.join([*cycle, cycle[0]])}.")


def _idempotency_keys(jobs: Sequence[BatchJob], raw: dict[str, Any], header: str | None) -> list[Keyed | None]:
    """Each job's own key, or one made of the batch's key and its place."""
    whole = fingerprint(raw) if header is not None else ""
    keys: list[Keyed | None] = []
    seen: set[str] = set()
    for i, job in enumerate(jobs):
        field = f"jobs[{i}].idempotency_key"
        if job.idempotency_key is None:
            # A space is in no key that can be sent, so these never meet another's.
            keys.append(Keyed(f"{header} {i}", whole, "Idempotency-Key") if header is not None else None)
        elif job.idempotency_key in seen:
            raise Invalid.field(field, "another job of this batch has this key")
        else:
            seen.add(job.idempotency_key)
            keys.append(Keyed(job.idempotency_key, fingerprint(raw["jobs"][i]), field))
    return keys


def _new_ids(store: Store, jobs: Sequence[BatchJob]) -> list[str]:
    """Ids of one partition, for that is what one script can create together."""
    outside = next((job.dependencies for job in jobs if job.dependencies), ())
    first = store.new_id(outside)
    return [first, *(store.new_id([first]) for _ in jobs[1:])]


def _build(
    jobs: Sequence[BatchJob], ids: Sequence[str], keys: Sequence[Keyed | None], denylist: Sequence[str]
) -> list[NewJob]:
    by_key = {job.key: job_id for job, job_id in zip(jobs, ids, strict=True) if job.key is not None}
    return [
        new_job(
            job,
            ids[i],
            job.dependencies + tuple(by_key[name] for name in job.depends_on),
            has_key=keys[i] is not None,
            within=("jobs", i),
            denylist=denylist,
        )
        for i, job in enumerate(jobs)
    ]


def _unknown(jobs: Sequence[BatchJob], ids: Sequence[str], error: UnknownDependency) -> Invalid:
    i = list(ids).index(error.job_id)
    if error.dependency in jobs[i].dependencies:
        place = f"dependencies[{jobs[i].dependencies.index(error.dependency)}]"
    else:
        place = "depends_on"
    return Invalid.field(f"jobs[{i}].{place}", f"there is no job {error.dependency}")
