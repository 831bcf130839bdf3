"""What `taskflow worker --reload` looks at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from taskflow.commands.watch import changed, look, places


def test_new_gone_and_changed_python_files_are_seen(tmp_path: Path) -> None:
    """Nothing else is."""
    (tmp_path / "pkg").mkdir()
    stays, grows, goes = (tmp_path / "pkg" / f"{name}.py" for name in ("stays", "grows", "goes"))
    for path in (stays, grows, goes):
        path.write_text("a = 1\n")
    before = look([tmp_path])

    touched = grows.stat().st_mtime_ns + 1
    os.utime(grows, ns=(touched, touched))
    goes.unlink()
    (tmp_path / "new.py").touch()
    (tmp_path / "notes.txt").touch()

    assert changed(before, look([tmp_path])) == sorted(map(str, (goes, grows, tmp_path / "new.py")))
    assert changed(before, before) == []


@pytest.mark.parametrize("foreign", [".git", "__pycache__", "node_modules", "site-packages", "env"])
def test_what_is_not_the_users_is_left_out(tmp_path: Path, foreign: str) -> None:
    """Hidden folders, caches, and environments by whatever name."""
    (tmp_path / foreign).mkdir()
    (tmp_path / foreign / "module.py").touch()
    (tmp_path / "env" / "pyvenv.cfg").parent.mkdir(exist_ok=True)
    (tmp_path / "env" / "pyvenv.cfg").touch()

    assert look([tmp_path]) == {}


def test_packages_elsewhere_are_watched_and_nothing_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Besides the working directory; what cannot be found is the worker's to tell."""
    here, there = tmp_path / "here", tmp_path / "there"
    (there / "far").mkdir(parents=True)
    (there / "far" / "__init__.py").write_text("raise SystemExit(1)")
    (there / "single.py").write_text("raise SystemExit(1)")
    (here / "near").mkdir(parents=True)
    (here / "near" / "__init__.py").touch()
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(there)

    assert places(["near.tasks", "far.tasks", "far.more", "single", "nowhere", "sys"]) == [
        here, there / "far", there / "single.py",
    ]  # fmt: skip
    assert set(look([there / "far", there / "single.py"])) == {str(there / "far/__init__.py"), str(there / "single.py")}
