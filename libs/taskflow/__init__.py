"""TaskFlow for those who use it: `@task` for functions that jobs run, `current()` inside them, `Client` to enqueue.

The names are loaded when they are first used, so that the command line does not pay for a Redis client.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taskflow import testing
    from taskflow.async_client import AsyncClient
    from taskflow.client import Client
    from taskflow.context import Context, current
    from taskflow.default import configure
    from taskflow.errors import Fatal, IdempotencyConflict, JobFailed, NotJson, Refused, TaskFlowError, Unauthorized
    from taskflow.function import TaskFunction
    from taskflow.handle import AsyncHandle, Handle
    from taskflow.job import Job, LogEntry
    from taskflow.submission import Submission
    from taskflow.tasks import Registry, Task, task
    from taskflow_domain import BackoffStrategy, JobStatus, RetryPolicy
    from taskflow_streams import Full, Unavailable, UnknownDependency

__all__ = [
    "AsyncClient",
    "AsyncHandle",
    "BackoffStrategy",
    "Client",
    "Context",
    "Fatal",
    "Full",
    "Handle",
    "IdempotencyConflict",
    "Job",
    "JobFailed",
    "JobStatus",
    "LogEntry",
    "NotJson",
    "Refused",
    "Registry",
    "RetryPolicy",
    "Submission",
    "Task",
    "TaskFlowError",
    "TaskFunction",
    "Unauthorized",
    "Unavailable",
    "UnknownDependency",
    "configure",
    "current",
    "task",
    "testing",
]

_HOMES = {
    "AsyncClient": "taskflow.async_client",
    "AsyncHandle": "taskflow.handle",
    "BackoffStrategy": "taskflow_domain",
    "Client": "taskflow.client",
    "Context": "taskflow.context",
    "Fatal": "taskflow.errors",
    "Full": "taskflow_streams",
    "Handle": "taskflow.handle",
    "IdempotencyConflict": "taskflow.errors",
    "Job": "taskflow.job",
    "JobFailed": "taskflow.errors",
    "JobStatus": "taskflow_domain",
    "LogEntry": "taskflow.job",
    "NotJson": "taskflow.errors",
    "Refused": "taskflow.errors",
    "Registry": "taskflow.tasks",
    "RetryPolicy": "taskflow_domain",
    "Submission": "taskflow.submission",
    "Task": "taskflow.tasks",
    "TaskFlowError": "taskflow.errors",
    "TaskFunction": "taskflow.function",
    "Unauthorized": "taskflow.errors",
    "Unavailable": "taskflow_streams",
    "UnknownDependency": "taskflow_streams",
    "configure": "taskflow.default",
    "current": "taskflow.context",
    "task": "taskflow.tasks",
}


def __getattr__(name: str) -> object:
    if name == "testing":
        return import_module("taskflow.testing")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
