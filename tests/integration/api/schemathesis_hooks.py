"""What a JSON schema cannot say, said to Schemathesis: requests that ought to be accepted are mended accordingly.

A cursor comes from an answer and excludes an offset; dependencies exist; 3.0 is no integer here, though a schema holds
it for one; not all that looks like a time or a Python name is one; parts of a body must fit together.  Requests that
ought to be refused are left as they are.
"""

import os
import re
from typing import Any

import schemathesis

from taskflow_api.search import decode_cursor
from taskflow_domain import ms_of_iso, partition_of

CURSOR = "MjAyNi0wMS0wMlQwMzowNDowNS42NzhafDAxOWI3YzNmLTVkMmUtNzAwMC04MDAwLTNmMmE5YzFiNGQ1ZQ=="
assert decode_cursor(CURSOR)
WORKER, LEAVING, HOLDER = os.environ.get("SCHEMATHESIS_WORKERS", ",,").split(",")  # the second is sent away
TIMES = {
    "scheduled_at", "expires_at", "created_after", "created_before", "created_from", "created_to", "start_at", "from",
}  # fmt: skip
TIME = "2026-01-02T03:04:05.678Z"
CRON = "*/5 * * * *"
SCHEDULE, UNWANTED = os.environ.get("SCHEMATHESIS_SCHEDULES", ",").split(",")  # the second is deleted
VERBS = ("logs", "progress", "complete", "fail", "release")
HELD = dict(zip(VERBS, os.environ.get("SCHEMATHESIS_JOBS", "").split(","), strict=False))  # by the third of them


@schemathesis.hook
def map_case(_context: Any, case: Any) -> Any:
    """Mend a request that ought to be accepted."""
    if case.method == "DELETE" and (case.path_parameters or {}).get("ref") == SCHEDULE:
        case.path_parameters["ref"] = UNWANTED  # also where it ought to be refused, for a fault that is none here
    if case.meta is not None and case.meta.generation.mode.is_positive:
        if case.query:
            _mend_times(case.query)
        if case.operation.path.endswith("/schedules/preview"):
            _mend_timing(case.query)
        if case.query and "cursor" in case.query and not case.operation.path.endswith("/history"):
            case.query["cursor"] = CURSOR
            case.query.pop("offset", None)
        if case.path_parameters and "worker_id" in case.path_parameters:
            case.path_parameters["worker_id"] = LEAVING if case.method == "DELETE" else WORKER
            if "job_id" in case.path_parameters:
                held = HELD[case.operation.path.rpartition("/")[2]]
                case.path_parameters |= {"worker_id": HOLDER, "job_id": held}
        if case.path_parameters and "ref" in case.path_parameters and not _is_linked(case):
            case.path_parameters["ref"] = UNWANTED if case.method == "DELETE" else SCHEDULE
        if isinstance(case.body, dict):
            case.body = _mend(_exact(case.body))
            if case.meta.phase.name == "stateful":  # what it makes is a schedule, no job that /api/v1 would find
                case.body.pop("schedule_cron", None)
            if "token" in case.body:
                case.body["token"] = f"{HOLDER}:{case.path_parameters['job_id']}:1"
            if case.operation.path.endswith("/lease"):
                case.body["wait_s"] = 0  # there is nothing to wait for
    return case


def _is_linked(case: Any) -> bool:
    """Whether a request follows from the answer to another, and names what that one has made."""
    return case.meta.phase.name == "stateful" and partition_of(str(case.path_parameters["ref"])) is not None


def _mend(body: dict[str, Any]) -> dict[str, Any]:
    body.pop("idempotency_key", None)  # it may differ from the header's, or have been used before
    _mend_times(body)
    if not all(part.isidentifier() for part in re.split("[.:]", str(body.get("callable") or "m"))):
        body["callable"] = "m:f"
    if isinstance(body.get("kwargs"), dict):
        body["kwargs"] = {name if name.isidentifier() else "a": value for name, value in body["kwargs"].items()}
    body.pop("end_at", None)  # it may be past, or before the start
    if "name" in body and body.get("type") in ("shell", "python"):
        body["type"] = "task"  # else its payload holds their fields
    if body.get("schedule_cron"):
        body["schedule_cron"] = CRON
        for rival in ("scheduled_at", "delay_s", "expires_at"):
            body.pop(rival, None)
    if "job" in body or "timezone" in body or "cron" in body:
        _mend_timing(body)
        body["job"] = _mend(body.get("job") or {"type": "shell", "cmd": "true"})
    if "to" in body:
        body |= {"from": "2026-01-01", "to": "2026-01-02"}
    if body.get("dependencies"):
        body["dependencies"] = []
    policy = body.get("retry_policy")
    if policy is not None:
        policy.pop("base_delay_seconds", None)
        policy.pop("max_delay_seconds", None)
    for i, job in enumerate(body.get("jobs", [])):
        _mend(job)
        job["key"] = f"job {i}"
        job["depends_on"] = [f"job {j}" for j in range(i) if job.get("depends_on")][:50]
    return body


def _mend_timing(fields: dict[str, Any]) -> None:
    if fields.get("interval_s") is not None:
        fields.pop("cron", None)
    else:
        fields["cron"] = CRON
    if "timezone" in fields:
        fields["timezone"] = "UTC"


def _mend_times(fields: dict[str, Any]) -> None:
    for name in TIMES & fields.keys():
        try:
            ms_of_iso(str(fields[name] or TIME))
        except ValueError:
            fields[name] = TIME


def _exact(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_exact(item) for item in value]
    if isinstance(value, dict):
        return {name: _exact(item) for name, item in value.items()}
    return value
