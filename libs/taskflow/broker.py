"""Where a client finds the server: told, or set, or started in this directory."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from taskflow.commands.where import DATA_DIR
from taskflow.supervisor.claim import find_running
from taskflow_runtime import BadSetting, Settings, read
from taskflow_runtime.files import read_env_file


class Server(NamedTuple):
    """Where it is, and what to say to be let in."""

    url: str  # of Redis or of the api
    namespace: str
    token: str | None
    guessed: bool = False  # nobody said where it is


def find_server(url: str | None = None, namespace: str | None = None, token: str | None = None) -> Server:
    """The server.  What is not given comes from the settings (environment, `.env`, `taskflow.yaml`).

    A URL that is not given is TASKFLOW_REDIS_URL, else TASKFLOW_API_URL, else that of the `taskflow up` of this
    directory, if it runs, else Redis on this machine.
    """
    settings = read(Settings)
    told = url
    if told is None and "redis_url" in settings.model_fields_set:
        told = settings.redis_url
    if told is None:
        told = _setting("TASKFLOW_API_URL") or _started_here()
    if token is None and settings.api_token is not None:
        token = settings.api_token.get_secret_value()
    return Server(told or settings.redis_url, namespace or settings.namespace, token, guessed=not told)


def redis_here() -> str | None:
    """The Redis of the `taskflow up` of this directory, for a service that is told of no other."""
    with suppress(BadSetting):  # the service will say so
        if "redis_url" not in read(Settings).model_fields_set:
            return _started_here()
    return None


def _setting(name: str) -> str | None:
    return os.environ.get(name) or read_env_file().get(name)


def _started_here() -> str | None:
    running = find_running(Path(os.environ.get("TASKFLOW_DATA_DIR") or DATA_DIR))
    return running.redis_url if running else None
