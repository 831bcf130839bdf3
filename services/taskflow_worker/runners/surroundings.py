"""What the process of a job sees: its own environment, the allowed part of the worker's, and who it is."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from taskflow.executor import Kit, Work


def allowed(names: Iterable[str], env: Mapping[str, str]) -> dict[str, str]:
    """The variables that are named; `LC_*` names all that begin so."""
    exact = {name for name in names if not name.endswith("*")}
    prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
    return {name: value for name, value in env.items() if name in exact or (prefixes and name.startswith(prefixes))}


def identity(work: Work) -> dict[str, str]:
    """Who the job is."""
    return {
        "TASKFLOW_JOB_ID": work.job_id,
        "TASKFLOW_ATTEMPT": str(work.attempt),
        "TASKFLOW_FENCE": str(work.fence),
        mark_name(work): "1",
    }


def mark_name(work: Work) -> str:
    """A variable that only this attempt's processes have, by which they are known wherever they go."""
    return f"TASKFLOW_ATTEMPT_{work.job_id.replace('-', '')}_{work.fence}"


def mark(work: Work) -> str:
    """The same, as it stands in the environment."""
    return f"{mark_name(work)}=1"


def environment(kit: Kit, work: Work, own: Mapping[str, str]) -> dict[str, str]:
    """All of it."""
    return {**allowed(kit.env_allowlist, os.environ), **own, **identity(work)}


def limits(kit: Kit) -> dict[str, int | None]:
    """What its processes may use."""
    return asdict(kit.limits)


def job_fields(work: Work) -> dict[str, Any]:
    """What a Python process needs to know of its job."""
    return {
        "job_id": work.job_id, "attempt": work.attempt, "fence": work.fence, "queue": work.queue, "name": work.name,
        "worker": work.worker, "payload": work.payload, "timeout_s": work.timeout_s,
    }  # fmt: skip
