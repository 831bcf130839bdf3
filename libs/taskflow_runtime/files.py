"""The two files that may hold settings, `.env` and `taskflow.yaml`.  A file that is missing says nothing."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from taskflow_runtime.errors import BadSetting

ENV_FILE = Path(".env")
CONFIG_FILE = Path("taskflow.yaml")
CONFIG_VARIABLE = "TASKFLOW_CONFIG"

Variables = Mapping[str, str | None]


def read_env_file() -> Variables:
    """What `.env` in the working directory says."""
    if not ENV_FILE.is_file():
        return {}
    from dotenv import dotenv_values

    try:
        return dotenv_values(ENV_FILE)
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"{ENV_FILE} cannot be read: {error}.") from None


def read_config_file(env_file: Variables) -> tuple[Path, Mapping[str, Any]]:
    """The YAML file's path and content.  One that `TASKFLOW_CONFIG` names has to exist."""
    named = os.environ.get(CONFIG_VARIABLE) or env_file.get(CONFIG_VARIABLE)
    path = Path(named) if named else CONFIG_FILE
    if not named and not path.is_file():
        return path, {}
    return path, _parse(path, f"{CONFIG_VARIABLE} names {path}, which" if named else str(path))


def _parse(path: Path, subject: str) -> Mapping[str, Any]:
    import yaml  # most deployments have no such file, and it takes as long as the rest of this package

    try:
        document = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"{subject} cannot be read: {error}.") from None
    except yaml.YAMLError as error:
        raise BadSetting(f"{subject} is not valid YAML: {' '.join(str(error).split())}.") from None
    if document is None:
        return {}
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise BadSetting(f"{subject} must hold settings as `name: value` lines.")
    return document
