"""The tasks a worker has: the built-in ones, and those of the modules it was told to import."""

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import taskflow.builtin  # noqa: F401 - importing it registers the built-in tasks
from taskflow.tasks import Task, registry
from taskflow_runtime import Refusal


class BadModule(Refusal):
    """A module with tasks cannot be imported."""

    exit_status = 2


def load_tasks(modules: Sequence[str]) -> Mapping[str, Task]:
    """Import the modules; all tasks that are registered then.  Raises BadModule with a sentence.

    Modules are also looked for in the working directory, after everywhere else.
    """
    here = str(Path.cwd())
    if modules and here not in sys.path:
        sys.path.append(here)
    for module in modules:
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise BadModule(f"The module {module!r} with tasks cannot be imported: {why}.") from error
    return dict(registry.tasks)
