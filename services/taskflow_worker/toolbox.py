"""The executors a worker has, found through the entry-point group `taskflow.executors`."""

from importlib.metadata import entry_points

from taskflow.executor import Executor, Kit
from taskflow_runtime import Refusal

GROUP = "taskflow.executors"


class BadExecutor(Refusal):
    """An executor cannot be loaded."""

    exit_status = 2


def load_executors(kit: Kit) -> dict[str, Executor]:
    """One of each kind that is installed, by name.  Raises BadExecutor with a sentence."""
    found: dict[str, Executor] = {}
    for entry in entry_points(group=GROUP):
        try:
            found[entry.name] = entry.load()(kit)
        except Exception as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise BadExecutor(f"The executor {entry.name!r} ({entry.value}) cannot be loaded: {why}.") from error
    return found
