"""What a worker calls itself, and what it tells about itself."""

import os
import re
import secrets
import socket
import time
from importlib import metadata

from taskflow_domain import Subscriptions

MAX_CHARS = 64


def new_worker_id() -> str:
    """`<host>-<pid>-<random>`: readable, and never used twice; at most 64 characters."""
    tail = f"-{os.getpid()}-{secrets.token_hex(4)}"
    host = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname()) or "worker"
    return host[: MAX_CHARS - len(tail)] + tail


def describe(worker_id: str, slots: int, queues: Subscriptions, handlers: int) -> dict[str, str | int | float]:
    """What the list of workers shows, from the moment it joins."""
    return {
        "name": worker_id,
        "hostname": socket.gethostname(),
        "pid": os.getpid(),
        "queues": "*" if queues.all else ",".join(name for name, _ in queues.queues),
        "concurrency": slots,
        "started_ms": int(time.time() * 1000),
        "handlers": handlers,
        "version": metadata.version("taskflow"),
        "status": "active",
        "running": 0,
    }
