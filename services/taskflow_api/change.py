"""What an update wants, held against what there is; and the difference, as the engine takes it.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from taskflow_api.bodies import IGNORED, IMMUTABLE, UpdateJob
from taskflow_api.build import BUILT_IN, check_payload, filled_up, handler_of
from taskflow_api.errors import Detail, Invalid
from taskflow_api.faults import faults
from taskflow_api.fields import ms
from taskflow_api.present import job_fields
from taskflow_domain import RetryPolicy, canonical_id, ms_of_iso, order_of_priority, priority_of_order
from taskflow_streams import Change, JobRecord, pack_retry, pack_spec


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of a job that can be changed."""

    name: str
    payload: bytes
    task: str | None
    type: str
    dependencies: tuple[str, ...]
    queue: str
    order: int
    retry: RetryPolicy
    timeout_ms: int | None
    due_ms: int | None
    expires_ms: int | None
    owner: str | None

    @property
    def spec(self) -> tuple[str, bytes, str | None, str, tuple[str, ...]]:
        """What the engine keeps as one."""
        return self.name, self.payload, self.task, self.type, self.dependencies


def present_state(job: JobRecord) -> Wanted:
    """The job as it is."""
    spec = job.spec
    return Wanted(
        spec.name, spec.payload, spec.task, spec.type, spec.dependencies, job.queue, job.order, job.retry,
        job.timeout_ms, job.due_ms, job.expires_ms, job.owner,
    )  # fmt: skip


def wanted_state(job: JobRecord, body: Mapping[str, Any], now_ms: int, denylist: Sequence[str] = ()) -> Wanted:
    """The job as it is to be, or `Invalid` with everything that is wrong with the request."""
    found = [
        Detail(name, "cannot be changed") for name in IMMUTABLE if name in body and not _is_same(job, name, body[name])
    ]
    # What stays may be what this door would not accept as new, such as another door's queue name.
    stays = {
        "queue": job.queue,
        "dependencies": list(job.spec.dependencies),
        "retry_policy": job_fields(job)["retry_policy"],
    }
    given = {
        name: value
        for name, value in body.items()
        if name not in IMMUTABLE and name not in IGNORED and (name not in stays or stays[name] != value)
    }
    try:
        update = UpdateJob.model_validate(given)
    except ValidationError as error:
        raise Invalid.of(found + faults(error)) from None
    if found:
        raise Invalid.of(found)
    wanted = _merged(job, update, now_ms)
    if wanted.type in BUILT_IN and (wanted.type, wanted.payload) != (job.spec.type, job.spec.payload):
        own_timeout_s = check_payload(wanted.type, wanted.payload, denylist)
        if own_timeout_s is not None and "timeout_s" not in update.model_fields_set:
            return replace(wanted, timeout_ms=ms(own_timeout_s))
    return wanted


def difference(job: JobRecord, wanted: Wanted) -> Change | None:
    """What to write; None if there is nothing to change."""
    now = present_state(job)
    fields = {
        "queue": (now.queue, wanted.queue),
        "order": (now.order, wanted.order),
        "handler": (job.handler, handler_of(wanted.type, wanted.task, wanted.name)),
        "retry": (pack_retry(now.retry), pack_retry(wanted.retry)),
        "timeout": (now.timeout_ms, wanted.timeout_ms),
        "due": (now.due_ms, wanted.due_ms),
        "expires": (now.expires_ms, wanted.expires_ms),
        "owner": (now.owner, wanted.owner),
    }
    changed = {name: after for name, (before, after) in fields.items() if before != after}
    change = Change(
        set={name: value for name, value in changed.items() if value is not None},
        clear=tuple(name for name, value in changed.items() if value is None),
        spec=pack_spec(*wanted.spec) if wanted.spec != now.spec else None,
        dependencies=wanted.dependencies if moves(job, wanted) else None,
    )
    return None if change == Change() else change


def moves(job: JobRecord, wanted: Wanted) -> bool:
    """Whether the job is to depend on other jobs than before; their order means nothing."""
    return set(wanted.dependencies) != set(job.spec.dependencies)


def _is_same(job: JobRecord, name: str, value: Any) -> bool:
    match name:
        case "id":
            return isinstance(value, str) and canonical_id(value) == job.id
        case "status":
            return bool(value == job.status)
        case "attempt_count":
            return type(value) is int and value == job.attempt
        case _:
            try:
                return isinstance(value, str) and ms_of_iso(value) == job.created_ms
            except ValueError:
                return False


def _merged(job: JobRecord, update: UpdateJob, now_ms: int) -> Wanted:
    said = update.model_fields_set
    changes: dict[str, Any] = {
        name: getattr(update, name)
        for name in ("name", "payload", "task", "type", "dependencies", "queue", "owner")
        if name in said
    }
    # An order may be finer than a priority: who sends back what was shown does not mean to change it.
    if "priority" in said and update.priority != priority_of_order(job.order):
        changes["order"] = order_of_priority(update.priority)
    if "retry_policy" in said:
        changes["retry"] = filled_up(job.retry, update.retry_policy)
    if "timeout_s" in said:
        changes["timeout_ms"] = ms(update.timeout_s)
    for target, time, span in (("due_ms", "scheduled_at", "delay_s"), ("expires_ms", "expires_at", "ttl_s")):
        if time in said:
            changes[target] = getattr(update, time)
        seconds = getattr(update, span)
        if seconds is not None:
            changes[target] = now_ms + (ms(seconds) or 0)
    return replace(present_state(job), **changes)
