"""What users of the SDK may raise or meet.

TaskFlowError
├── Fatal                  raised by a handler: this attempt failed, and no other would do better
├── JobFailed              raised by `Handle.result`: the job ended, but not COMPLETED
├── IdempotencyConflict    raised by `Client.enqueue`: the key belongs to another job
├── NotJson                raised by `Client.enqueue`: an argument cannot be sent
└── Refused                raised by a client over HTTP: the api refuses the request
    └── Unauthorized       the token is missing or wrong

A server that does not answer is `Unavailable`; one that has no room is `Full`, which is one, too.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taskflow.job import Job


class TaskFlowError(Exception):
    """Anything the SDK raises on purpose."""


class Fatal(TaskFlowError):
    """Raise it in a handler when a retry would not help: the job is FAILED at once."""


class JobFailed(TaskFlowError):
    """A job whose result was asked for has none, for it ended FAILED, BLOCKED, CANCELED or EXPIRED."""

    def __init__(self, job: "Job") -> None:
        why = f": {job.error.kind}: {job.error.message}" if job.error else ""
        if job.status == "BLOCKED" and not why:
            why = ": a dependency did not complete"
        super().__init__(f"job {job.id} is {job.status}{why}")
        self.job = job
        self.status = job.status
        self.error = job.error


class IdempotencyConflict(TaskFlowError):
    """The idempotency key was used before, for a job with another content."""


class NotJson(TaskFlowError, ValueError):
    """Something that JSON cannot hold; the message names its place, and how to convert it."""


class Refused(TaskFlowError, ValueError):
    """The api refuses a request.  `code` is its word for it, such as VALIDATION_ERROR."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class Unauthorized(Refused):
    """The api asks for a token, or for another one."""
