"""`.env.example` tells every setting of every service, with its default."""

from pathlib import Path

import pytest

from taskflow_runtime.catalogue import render, services_settings

EXAMPLE = Path(__file__).parents[2] / ".env.example"


def test_the_example_is_up_to_date() -> None:
    """The file is what the settings classes say today."""
    assert EXAMPLE.read_text() == render(), "run `python -m taskflow_runtime.catalogue > .env.example`"


def test_the_example_has_every_setting_of_every_service() -> None:
    """No service has a setting that one could learn only from its code."""
    text = EXAMPLE.read_text()

    classes = services_settings()

    assert set(classes) == {"api", "cron", "projector", "reaper", "scheduler", "worker"}
    for cls in classes.values():
        for field, info in cls.model_fields.items():
            assert f"\n# TASKFLOW_{field.upper()}=" in text
            assert info.description, f"{cls.__name__}.{field} needs a description"


def test_the_example_changes_nothing_when_it_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every line uncommented it still gives the defaults."""
    lines = EXAMPLE.read_text().splitlines()
    (tmp_path / ".env").write_text("\n".join(line.removeprefix("# ") for line in lines if "# TASKFLOW_" in line))
    monkeypatch.chdir(tmp_path)

    for cls in services_settings().values():
        defaults = {field: info.get_default(call_default_factory=True) for field, info in cls.model_fields.items()}
        assert cls().model_dump() == defaults
