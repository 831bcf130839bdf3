"""Where a client finds the server: told, or set, or started in this directory."""

from pathlib import Path

from taskflow.supervisor.claim import find_running
from taskflow_runtime import Settings, read

DATA_DIR = Path(".taskflow")


def find_broker(url: str | None = None, namespace: str | None = None) -> tuple[str, str]:
    """URL and namespace.  What is not given comes from the settings (environment, `.env`, `taskflow.yaml`).

    A URL that is set nowhere is that of the `taskflow up` of this directory, if it runs, else the default.
    """
    settings = read(Settings)
    if url is None and "redis_url" not in settings.model_fields_set:
        running = find_running(DATA_DIR)
        url = running.redis_url if running else None
    return url or settings.redis_url, namespace or settings.namespace
