"""From a request's body to the job that the engine takes."""

from pydantic import ValidationError

from taskflow_api.bodies import CreateJob, RetryPolicyBody
from taskflow_api.errors import Invalid
from taskflow_api.faults import faults
from taskflow_api.fields import ms
from taskflow_domain import RetryPolicy, order_of_priority
from taskflow_streams import NewJob

DEFAULT_RETRY = RetryPolicy()
EXECUTOR_MARK = "@"  # handlers that begin so are executors


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


def new_job(
    body: CreateJob,
    job_id: str,
    dependencies: tuple[str, ...],
    *,
    has_key: bool,
    within: tuple[str | int, ...] = (),
) -> NewJob:
    """The job to submit; `within` is where its body stands in that of the request."""
    return NewJob(
        id=job_id,
        name=body.name,
        queue=body.queue,
        handler=handler_of(body.type, body.task, body.name),
        payload=body.payload,
        order=order_of_priority(body.priority),
        type=body.type,
        task=body.task,
        dependencies=dependencies,
        retry=filled_up(DEFAULT_RETRY, body.retry_policy, within),
        timeout_ms=ms(body.timeout_s),
        due_ms=body.scheduled_at,
        delay_ms=ms(body.delay_s),
        expires_ms=body.expires_at,
        ttl_ms=ms(body.ttl_s),
        owner=body.owner,
        has_key=has_key,
    )
