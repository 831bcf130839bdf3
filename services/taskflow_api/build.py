"""From a request's body to the job that the engine takes."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from taskflow_api.bodies import CreateJob, RetryPolicyBody, WorkBody
from taskflow_api.errors import Detail, Invalid
from taskflow_api.faults import faults
from taskflow_api.fields import ms
from taskflow_api.parse import join_path, printable
from taskflow_domain import RetryPolicy, executor_faults, order_of_priority
from taskflow_streams import NewJob

DEFAULT_RETRY = RetryPolicy()
EXECUTOR_MARK = "@"  # handlers that begin so are executors
BUILT_IN = frozenset({"shell", "python"})  # executors whose fields are known here


def handler_of(type_: str, task: str | None, name: str) -> str:
    """What a worker must have to run such a job."""
    if type_ != "task":
        return EXECUTOR_MARK + type_
    handler = task or name
    # A task cannot pass for an executor; it waits for a handler of that name, which no worker can have.
    return f"task:{handler}" if handler.startswith(EXECUTOR_MARK) else handler


def filled_up(policy: RetryPolicy, given: RetryPolicyBody | None, within: tuple[str | int, ...] = ()) -> RetryPolicy:
    """The policy with what was given, which must make sense as a whole; null is the default policy."""
    if given is None:
        return DEFAULT_RETRY
    try:
        return policy.merged(given.changes())
    except ValidationError as error:
        raise Invalid.of(faults(error, (*within, "retry_policy"))) from None


def check_payload(
    type_: str, payload: bytes, denylist: Sequence[str], within: tuple[str | int, ...] = ()
) -> float | None:
    """Refuse a payload that a built-in executor could not run; else the time limit in it, if there is one."""
    fields = json.loads(payload)
    found = executor_faults(type_, fields, denylist)
    if found:
        place = join_path((*within, "payload"))
        raise Invalid.of(
            [Detail(f"{place}.{printable(field)}" if field else place, message) for field, message in found]
        )
    timeout_s: float | None = fields.get("timeout_s")
    return timeout_s


def work_of(body: WorkBody, name: str, denylist: Sequence[str], within: tuple[str | int, ...] = ()) -> dict[str, Any]:
    """The part of a job that says what it does and how; `within` is where its body stands in that of the request."""
    timeout_s = body.timeout_s
    if body.type in BUILT_IN:
        own_timeout_s = check_payload(body.type, body.payload, denylist, within)
        timeout_s = own_timeout_s if timeout_s is None else timeout_s
    return {
        "name": name,
        "handler": handler_of(body.type, body.task, name),
        "payload": body.payload,
        "order": order_of_priority(body.priority),
        "type": body.type,
        "task": body.task,
        "retry": filled_up(DEFAULT_RETRY, body.retry_policy, within),
        "timeout_ms": ms(timeout_s),
        "owner": body.owner,
    }


def new_job(
    body: CreateJob,
    job_id: str,
    dependencies: tuple[str, ...],
    *,
    has_key: bool,
    within: tuple[str | int, ...] = (),
    denylist: Sequence[str] = (),
) -> NewJob:
    """The job to submit; `within` is where its body stands in that of the request."""
    return NewJob(
        id=job_id,
        queue=body.queue,
        dependencies=dependencies,
        due_ms=body.scheduled_at,
        delay_ms=ms(body.delay_s),
        expires_ms=body.expires_at,
        ttl_ms=ms(body.ttl_s),
        has_key=has_key,
        **work_of(body, body.name, denylist, within),
    )
