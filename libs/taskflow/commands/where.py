"""Where the api is and what token it takes: told, or set, or started in this directory.

The files that hold settings are read without the machinery of the services, which would take as long as the rest.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from taskflow.commands.errors import CommandFailed
from taskflow.supervisor.claim import find_running
from taskflow_runtime.errors import BadSetting
from taskflow_runtime.files import read_config_file, read_env_file

DEFAULT_URL: Final = "http://127.0.0.1:8000"
DATA_DIR: Final = ".taskflow"


def find_api(url: str | None, token: str | None) -> tuple[str, str | None]:
    """URL and token.  What is not given (or set in the environment) comes from `.env`, then from `taskflow.yaml`.

    A URL that is set nowhere is that of the `taskflow up` of this directory, if it runs, else the default.
    """
    if not url or not token:
        try:
            variables = read_env_file()
            _, document = read_config_file(variables)
        except BadSetting as error:
            raise CommandFailed(str(error)) from None
        url = url or variables.get("TASKFLOW_API_URL")
        token = token or variables.get("TASKFLOW_API_TOKEN") or _setting(document, "api_token")
    return (url or _started_here() or DEFAULT_URL).rstrip("/"), token or None


def _started_here() -> str | None:
    running = find_running(Path(os.environ.get("TASKFLOW_DATA_DIR") or DATA_DIR))
    return running.api_url if running else None


def _setting(document: Mapping[str, Any], field: str) -> str | None:
    for key, value in document.items():
        if key.lower().removeprefix("taskflow_") == field and value is not None:
            return str(value)
    return None
