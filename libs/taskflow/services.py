"""The services that are installed, found through the entry-point group `taskflow.services`.

Nothing here imports a service by name: the libraries do not know who stands on them.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from taskflow.commands.errors import CommandFailed

GROUP = "taskflow.services"


def find(name: str) -> EntryPoint:
    """The entry point of a service."""
    for entry in entry_points(group=GROUP, name=name):
        return entry
    raise CommandFailed(f"The service {name!r} is not installed; install TaskFlow again with all its packages.")


def start(name: str, **overrides: Any) -> None:
    """Run a service in this process until it is told to stop.  An override that is None was not given."""
    find(name).load()(**{setting: value for setting, value in overrides.items() if value is not None})
