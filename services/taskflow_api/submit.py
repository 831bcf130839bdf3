"""Submit jobs once, however often they are sent.

A key is tied to a job's id before the job is submitted under that id.  Whoever sends the key again, even while
the first request is still on its way, gets the same id, and the engine creates no id twice.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from starlette.requests import Request

from taskflow_api.errors import Conflict, Invalid
from taskflow_api.fields import KEY_PATTERN
from taskflow_streams import JobRecord, NewJob, Store, Submitted

KEY_HEADER: Final = "Idempotency-Key"
_KEY: Final = re.compile(KEY_PATTERN.removesuffix("$"))


@dataclass(frozen=True, slots=True)
class Keyed:
    """An idempotency key, what it was sent with, and what to call it when it is refused."""

    key: str
    fingerprint: str
    field: str


def header_key(request: Request) -> str | None:
    """The key in the request's header, if there is one."""
    given = set(request.headers.getlist(KEY_HEADER))
    if not given:
        return None
    if len(given) > 1:
        raise Invalid.field(KEY_HEADER, "is given twice")
    key = given.pop()
    if not _KEY.fullmatch(key):
        raise Invalid.field(KEY_HEADER, f"must match {KEY_PATTERN}")
    return key


def given_key(request: Request, field: str | None) -> str | None:
    """The key in the header or the body; both may be given if they are the same."""
    header = header_key(request)
    if header is not None and field is not None and header != field:
        raise Invalid.field("idempotency_key", f"differs from the header {KEY_HEADER}")
    return header or field


def fingerprint(body: dict[str, Any]) -> str:
    """The same for bodies that are the same JSON; the key itself does not count, nor does a field that is null."""
    content = {name: value for name, value in body.items() if name != "idempotency_key" and value is not None}
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


async def tie(store: Store, ids: Sequence[str], keys: Sequence[Keyed | None]) -> list[str]:
    """The ids to submit under: those that belong to the keys, and for jobs without one those that were made."""
    places = [i for i, keyed in enumerate(keys) if keyed is not None]
    given = [keyed for keyed in keys if keyed is not None]
    if not given:
        return list(ids)
    rows = [(keyed.key, ids[i], keyed.fingerprint) for i, keyed in zip(places, given, strict=True)]
    claims = await store.claim(rows)
    for keyed, claim in zip(given, claims, strict=True):
        if claim.fingerprint != keyed.fingerprint:
            raise Conflict(f"{keyed.field}: this key was used with another body; {claim.job_id} has it.")
    tied = list(ids)
    for i, claim in zip(places, claims, strict=True):
        tied[i] = claim.job_id
    if len({claim.first for claim in claims}) > 1 or len(given) < len(ids):
        old = [claim.job_id for claim in claims if not claim.first]
        if not all(await store.exist(old)):
            await untie(store, ids, keys)  # only what was tied just now: the others have other ids
            raise Conflict("A key of this batch belongs to a job that does not exist any more; nothing was created.")
    return tied


async def untie(store: Store, ids: Sequence[str], keys: Sequence[Keyed | None]) -> None:
    """Give the keys free again: their jobs were refused."""
    rows = [(keyed.key, job_id) for keyed, job_id in zip(keys, ids, strict=True) if keyed is not None]
    if rows:
        await store.unclaim(rows)


async def existing(store: Store, ids: Sequence[str]) -> list[JobRecord] | None:
    """The jobs of a request that was sent before, if they are all there."""
    records = [record for record in await store.get(ids) if record is not None]
    return records if len(records) == len(ids) else None


async def submit(store: Store, jobs: Sequence[NewJob]) -> tuple[list[JobRecord], bool]:
    """Submit: the jobs, new ones as they were born and others as they are now, and whether any of them is new."""
    born = await store.create(jobs)
    old = [job.id for job, (_, record) in zip(jobs, born, strict=True) if record is None]
    known = dict(zip(old, await store.get(old), strict=True))
    records = []
    for job, (word, new) in zip(jobs, born, strict=True):
        record = new or known.get(job.id)
        if word is Submitted.GONE or record is None:
            raise Conflict(f"Job {job.id}, which this request created when it was first sent, was removed since.")
        records.append(record)
    return records, len(old) < len(jobs)
