"""Which Python files there are, and which of them have changed.  By looking, which works on every file system."""

import os
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeAlias

MOST_FILES: Final = 10_000  # a look at so many takes a tenth of a second
NOT_OURS: Final = frozenset({"__pycache__", "node_modules", "site-packages"})

Look: TypeAlias = dict[str, tuple[int, int]]  # path -> (time of change, size)


def places(modules: Iterable[str]) -> list[Path]:
    """The working directory, and the packages of these modules that are elsewhere."""
    here = Path.cwd()
    found = [here]
    for name in dict.fromkeys(module.partition(".")[0] for module in modules):
        found += [place for place in _homes(name) if not place.is_relative_to(here)]
    return found


def look(roots: Iterable[Path]) -> Look:
    """Every Python file below these places, as it is now."""
    seen: Look = {}
    for path in _files(roots):
        try:
            state = os.stat(path)
        except OSError:  # gone since
            continue
        seen[path] = (state.st_mtime_ns, state.st_size)
        if len(seen) == MOST_FILES:
            break
    return seen


def changed(before: Look, now: Look) -> list[str]:
    """The files that are new, gone, or not what they were."""
    return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))


def _files(roots: Iterable[Path]) -> Iterator[str]:
    for root in roots:
        if root.is_file():
            yield str(root)
        for folder, folders, files in os.walk(root):
            folders[:] = [name for name in folders if not _is_foreign(folder, name)]
            yield from (os.path.join(folder, name) for name in files if name.endswith(".py"))


def _is_foreign(folder: str, name: str) -> bool:
    hidden = name.startswith(".") or name in NOT_OURS
    return hidden or os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))


def _homes(name: str) -> list[Path]:
    """Where a module or a package is; nothing is imported for it."""
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return []
    finally:
        sys.path.remove(here)
    if spec is None:
        return []
    if spec.submodule_search_locations is not None:
        return [Path(place) for place in spec.submodule_search_locations]
    return [Path(spec.origin)] if spec.has_location and spec.origin else []
