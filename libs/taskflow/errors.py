"""What users of the SDK may raise or meet.

TaskFlowError
├── Fatal                  raised by a handler: this attempt failed, and no other would do better
├── JobFailed              raised by `Client.result`: the job ended, but not COMPLETED
└── IdempotencyConflict    raised by `Client.enqueue`: the key belongs to another job
"""


class TaskFlowError(Exception):
    """Anything the SDK raises on purpose."""


class Fatal(TaskFlowError):
    """Raise it in a handler when a retry would not help: the job is FAILED at once."""


class JobFailed(TaskFlowError):
    """A job whose result was asked for has none, for it ended FAILED, BLOCKED, CANCELED or EXPIRED."""


class IdempotencyConflict(TaskFlowError):
    """The idempotency key was used before, for a job with another content."""
