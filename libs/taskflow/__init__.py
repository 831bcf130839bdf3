"""TaskFlow for those who use it: `@task` for functions that jobs run, `current()` inside them, `Client` to enqueue.

The names are loaded when they are first used, so that the command line does not pay for a Redis client.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taskflow.client import Client, Submission
    from taskflow.context import Context, current
    from taskflow.errors import Fatal, IdempotencyConflict, JobFailed, TaskFlowError
    from taskflow.tasks import Registry, Task, task
    from taskflow_domain import BackoffStrategy, RetryPolicy

__all__ = [
    "BackoffStrategy",
    "Client",
    "Context",
    "Fatal",
    "IdempotencyConflict",
    "JobFailed",
    "Registry",
    "RetryPolicy",
    "Submission",
    "Task",
    "TaskFlowError",
    "current",
    "task",
]

_HOMES = {
    "BackoffStrategy": "taskflow_domain",
    "Client": "taskflow.client",
    "Context": "taskflow.context",
    "Fatal": "taskflow.errors",
    "IdempotencyConflict": "taskflow.errors",
    "JobFailed": "taskflow.errors",
    "Registry": "taskflow.tasks",
    "RetryPolicy": "taskflow_domain",
    "Submission": "taskflow.client",
    "Task": "taskflow.tasks",
    "TaskFlowError": "taskflow.errors",
    "current": "taskflow.context",
    "task": "taskflow.tasks",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
