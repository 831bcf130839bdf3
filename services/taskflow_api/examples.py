"""The examples that the documentation shows.  Tests send the bodies and hold the answers against the schema."""

from typing import Any, Final

ID: Final = "019b7c3f-5d2e-7000-8000-3f2a9c1b4d5e"
OTHER_ID: Final = "019b7c3f-5d2d-7000-8000-1c0d2e3f4a5b"

JOB: Final[dict[str, Any]] = {
    "id": ID,
    "name": "resize",
    "queue": "images",
    "payload": {"path": "cat.jpg", "width": 640},
    "priority": 5,
    "status": "COMPLETED",
    "dependencies": [OTHER_ID],
    "retry_policy": {
        "max_attempts": 3,
        "backoff_strategy": "EXPONENTIAL",
        "base_delay_seconds": 10,
        "max_delay_seconds": 300,
    },
    "created_at": "2026-01-02T03:04:05.678Z",
    "updated_at": "2026-01-02T03:04:07.012Z",
    "attempt_count": 1,
    "type": "task",
    "task": None,
    "owner": None,
    "timeout_s": 60,
    "scheduled_at": None,
    "expires_at": None,
    "started_at": "2026-01-02T03:04:06.001Z",
    "finished_at": "2026-01-02T03:04:07.012Z",
    "result": {"bytes": 48213},
    "error": None,
    "progress": {"fraction": 1.0, "message": None},
    "run_id": None,
    "retry_of": None,
    "schedule_id": None,
    "worker": "worker-1",
}

EVENT: Final[dict[str, Any]] = {
    "id": "1767323046001-0",
    "type": "job.started",
    "at": "2026-01-02T03:04:06.001Z",
    "from": "READY",
    "to": "RUNNING",
    "attempt": 1,
    "worker": "worker-1",
    "queue": "images",
    "priority": 5,
}

EXPLANATION: Final[dict[str, Any]] = {
    "id": ID,
    "status": "PENDING",
    "message": "It waits for 1 job.",
    "reasons": [{"code": "WAITING_FOR_DEPENDENCIES", "message": "It waits for 1 job.", "jobs": [OTHER_ID]}],
}

QUEUE: Final[dict[str, Any]] = {
    "name": "images",
    "waiting": 12,
    "running": 4,
    "paused": False,
    "max_concurrent": 4,
    "weight": 1.0,
    "reason": None,
}

WORKER: Final[dict[str, Any]] = {
    "id": "worker-1",
    "name": "worker-1",
    "kind": "process",
    "queues": None,
    "concurrency": 8,
    "running": 4,
    "started_at": "2026-01-02T03:00:00.000Z",
    "last_heartbeat": "2026-01-02T03:04:05.678Z",
    "status": "online",
    "draining": False,
    "running_ids": [],
    "cpu_percent": 3.5,
    "memory_bytes": 62914560,
}

LISTED_WORKER: Final[dict[str, Any]] = {
    "id": "7d3c1c1e-6f0e-4c5a-9a53-0d6b8a3f5c11",
    "name": "gpu box",
    "queues": ["gpu", "general"],
    "concurrency": 2,
    "last_heartbeat": "2026-01-02T03:04:05.678Z",
    "started_at": "2026-01-02T03:00:00.000Z",
    "status": "online",
    "running": [ID],
}

WORKER_ID: Final = LISTED_WORKER["id"]
TOKEN: Final = f"{WORKER_ID}:{ID}:1"
LEASED_JOB: Final[dict[str, Any]] = {
    "job": ID,
    "token": TOKEN,
    "type": "shell",
    "handler": "@shell",
    "name": "echo hello",
    "task": None,
    "queue": "general",
    "payload": {"cmd": "echo hello", "timeout_s": 60},
    "attempt": 1,
    "fence": 1,
    "timeout_s": 60,
    "created_at": "2026-01-02T03:04:05.678Z",
}

LOG_ITEM: Final[dict[str, Any]] = {
    "id": "1767323046120-0",
    "stream": "stdout",
    "at": "2026-01-02T03:04:06.120Z",
    "attempt": 1,
    "text": "hello\n",
}

SUBMITTED_JOB: Final[dict[str, Any]] = {
    "id": ID,
    "queue": "general",
    "type": "shell",
    "payload": {"cmd": "echo hello", "timeout_s": 60},
    "schedule_cron": None,
    "priority": 0,
    "retries_max": 3,
    "retries_attempted": 0,
    "status": "succeeded",
    "created_at": "2026-01-02T03:04:05.678Z",
    "scheduled_at": None,
    "started_at": "2026-01-02T03:04:06.001Z",
    "finished_at": "2026-01-02T03:04:06.130Z",
    "result": {"exit_code": 0, "output": None},
    "error": None,
    "owner": None,
    "progress": None,
    "stdout": "hello\n",
    "stderr": "",
    "lease": None,
    "logs": {"items": [LOG_ITEM], "next": None},
}

SCHEDULE: Final[dict[str, Any]] = {
    "id": ID,
    "name": "nightly report",
    "cron": "0 3 * * 1-5",
    "interval_s": None,
    "timezone": "Europe/Berlin",
    "start_at": None,
    "end_at": None,
    "jitter_s": 0.0,
    "overlap": "skip",
    "catchup_limit": None,
    "catchup_window_s": 3600.0,
    "max_runs": None,
    "owner": None,
    "job": {"type": "shell", "cmd": "./report.sh", "timeout_s": 600},
    "status": "active",
    "message": "It fires next at 2026-01-05T03:00:00.000+01:00.",
    "paused": False,
    "reason": None,
    "next_at": "2026-01-05T02:00:00.000Z",
    "next_local": "2026-01-05T03:00:00.000+01:00",
    "last_at": "2026-01-02T02:00:00.000Z",
    "last_job_id": OTHER_ID,
    "runs": 1,
    "waiting": 0,
    "created_at": "2026-01-01T12:00:00.000Z",
    "updated_at": "2026-01-02T02:00:00.004Z",
}

HISTORY_LINE: Final[dict[str, Any]] = {
    "id": "1767319200004-0",
    "at": "2026-01-02T02:00:00.004Z",
    "what": "fired",
    "fire_at": "2026-01-02T02:00:00.000Z",
    "origin": "schedule",
    "why": None,
    "job_id": OTHER_ID,
    "until": None,
    "count": 1,
    "message": f"Started job {OTHER_ID}.",
}

PREVIEW: Final[dict[str, Any]] = {
    "timezone": "Europe/Berlin",
    "items": [
        {
            "at": "2027-03-28T01:00:00.000Z",
            "local": "2027-03-28T03:00:00.000+02:00",
            "due_at": "2027-03-28T01:00:00.000Z",
        }
    ],
}

BODIES: Final[dict[str, dict[str, Any]]] = {
    "CreateJob": {
        "least": {"name": "taskflow.noop", "queue": "default"},
        "more": {
            "name": "resize the cat",
            "task": "taskflow.echo",
            "queue": "images",
            "payload": {"path": "cat.jpg", "width": 640},
            "priority": 8,
            "retry_policy": {"max_attempts": 5, "base_delay_seconds": 2},
            "timeout_s": 60,
            "delay_s": 1.5,
        },
    },
    "UpdateJob": {"some": {"priority": 10, "retry_policy": {"max_attempts": 1}}},
    "Batch": {
        "diamond": {
            "jobs": [
                {"key": "a", "name": "taskflow.noop", "queue": "default"},
                {"key": "b", "name": "taskflow.noop", "queue": "default", "depends_on": ["a"]},
                {"key": "c", "name": "taskflow.noop", "queue": "default", "depends_on": ["a"]},
                {"name": "taskflow.noop", "queue": "default", "depends_on": ["b", "c"]},
            ]
        }
    },
    "SubmitJob": {
        "shell": {"type": "shell", "cmd": "echo hello", "env": {"LANG": "C.UTF-8"}, "timeout_s": 60},
        "python": {"type": "python", "callable": "math:hypot", "args": [3, 4], "retries_max": 0, "priority": -5},
    },
    "CreateSchedule": {
        "cron": {
            "name": "nightly report",
            "cron": "0 3 * * 1-5",
            "timezone": "Europe/Berlin",
            "overlap": "skip",
            "catchup_window_s": 3600,
            "job": {"type": "shell", "cmd": "./report.sh", "timeout_s": 600},
        },
        "interval": {
            "interval_s": 30,
            "max_runs": 1000,
            "job": {"name": "taskflow.noop", "queue": "default"},
        },
    },
    "UpdateSchedule": {
        "some": {"cron": "0 4 * * 1-5", "jitter_s": 60},
        "pause": {"paused": True, "reason": "the disk is full"},
    },
    "PauseSchedule": {"why": {"reason": "the disk is full"}},
    "TriggerSchedule": {"as it is": {}, "beside others": {"overlap": "allow"}},
    "BackfillSchedule": {
        "a day": {"from": "2026-01-01", "to": "2026-01-02"},
        "again": {"from": "2026-01-01", "to": "2026-01-02", "overlap": "buffer_all", "rerun": True},
    },
    "RetryJob": {"now": {}, "later": {"delay_s": 60}},
    "RegisterWorker": {
        "shell": {"name": "gpu box", "queues": ["gpu", "general"], "concurrency": 2},
        "tasks": {"name": "thumbnails", "queues": ["*"], "concurrency": 1, "handlers": ["resize", "crop"]},
    },
    "Heartbeat": {
        "idle": {"running": []},
        "busy": {"running": [ID], "cpu_percent": 87.5, "memory_bytes": 62914560},
    },
    "AskForJobs": {"some": {"max": 5, "wait_s": 20}, "alone": {"max": 1, "wait_s": 20, "running": []}},
    "ReleaseJob": {"back": {"token": TOKEN}},
    "AddLog": {"line": {"token": TOKEN, "stream": "stdout", "text": "hello\n", "offset": 0}},
    "TellProgress": {"half": {"token": TOKEN, "fraction": 0.5, "message": "half of it"}},
    "CompleteJob": {"shell": {"token": TOKEN, "result": {"exit_code": 0, "output": None}}},
    "FailJob": {
        "sentence": {"token": TOKEN, "error": "the disk is full"},
        "object": {
            "token": TOKEN,
            "error": {"class": "ExitCode", "message": "the command ended with exit code 3"},
            "result": {"exit_code": 3, "output": None},
            "fatal": True,
        },
    },
    "UpdateQueue": {
        "pause": {"paused": True, "reason": "the disk is full"},
        "resume": {"paused": False},
        "limit": {"max_concurrent": 4},
    },
}


def _error(code: str, message: str, *details: tuple[str, str]) -> dict[str, Any]:
    rows = [{"field": field, "message": text} for field, text in details]
    return {"error": {"code": code, "message": message, "details": rows}}


ERRORS: Final[dict[int, dict[str, Any]]] = {
    400: _error("VALIDATION_ERROR", "priority: must be 1 to 10", ("priority", "must be 1 to 10")),
    401: _error("UNAUTHORIZED", "Send the header Authorization: Bearer and the token."),
    404: _error("NOT_FOUND", f"There is no job {ID}."),
    409: _error("CONFLICT", f"Job {ID} has ended: it is COMPLETED."),
    413: _error("PAYLOAD_TOO_LARGE", "The body is larger than 1,048,576 bytes, the most that is accepted here."),
    503: _error("UNAVAILABLE", "The broker is away; try again soon."),
}
