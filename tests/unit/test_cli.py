"""The command line: what it passes on, and what it says when it cannot."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from typer.testing import CliRunner

from taskflow import services
from taskflow.cli import app, main

HEAVY = ("redis", "pydantic", "fastapi", "uvicorn", "structlog", "asyncio")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """Services that only write down how they were started."""
    calls: list[tuple[str, dict[str, Any]]] = []

    class Recorder(EntryPoint):
        def load(self) -> Any:
            return lambda **overrides: calls.append((self.name, overrides))

    def found(*, group: str, name: str) -> list[EntryPoint]:
        return [Recorder(name, "nowhere", group)]

    monkeypatch.setattr(services, "entry_points", found)
    return calls


@pytest.mark.parametrize("name", ["api", "scheduler", "cron", "reaper", "worker", "projector"])
def test_each_service_can_be_started_alone(started: list[tuple[str, dict[str, Any]]], name: str) -> None:
    """What was not given on the command line is left to the settings."""
    result = CliRunner().invoke(app, [name])

    assert result.exit_code == 0
    assert started == [(name, {})]


def test_options_arrive_as_settings(started: list[tuple[str, dict[str, Any]]]) -> None:
    """Each under the name that the setting has."""
    CliRunner().invoke(app, ["api", "--redis-url", "redis://x", "--host", "::", "--port", "1", "--insecure"])
    CliRunner().invoke(app, ["worker", "--concurrency", "3", "--queues", "a,b", "one.tasks", "two.tasks"])

    assert started == [
        ("api", {"redis_url": "redis://x", "host": "::", "port": 1, "insecure": True}),
        ("worker", {"worker_concurrency": 3, "worker_queues": "a,b", "worker_modules": "one.tasks,two.tasks"}),
    ]


def test_a_failure_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, with a status, and without a traceback."""
    monkeypatch.setattr(services, "entry_points", lambda **_: [])
    monkeypatch.setattr(sys, "argv", ["taskflow", "cron"])

    with pytest.raises(SystemExit) as end:
        main()

    assert end.value.code == 1
    assert capsys.readouterr().err == (
        "taskflow: The service 'cron' is not installed; install TaskFlow again with all its packages.\n"
    )


def test_the_version_is_told_both_ways() -> None:
    """As a command and as an option."""
    command, option = (CliRunner().invoke(app, [word]) for word in ("version", "--version"))

    assert command.output == option.output
    assert command.output.startswith("taskflow ")


def test_help_does_not_wait_for_what_it_does_not_need() -> None:
    """Every command pays for the imports of this module; none should pay for those of the others."""
    code = f"import sys, taskflow.cli; print([name for name in {HEAVY} if name in sys.modules])"

    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert told.stdout.strip() == "[]"
