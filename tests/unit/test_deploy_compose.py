"""The compose file runs what there is to run."""

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import yaml

COMPOSE = Path(__file__).parents[2] / "docker-compose.yml"


def services() -> dict[str, Any]:
    """The services of the compose file."""
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


def test_every_service_has_a_container_that_runs_it() -> None:
    """Each of them, and the server they share."""
    names = {entry.name for entry in entry_points(group="taskflow.services")}

    composed = services()

    assert set(composed) == names | {"redis"}
    assert all(composed[name]["command"].split()[0] == name for name in names)
    assert all(composed[name]["healthcheck"]["test"] for name in composed)


def test_the_server_keeps_its_data_and_evicts_none() -> None:
    """Services refuse a server that would throw data away."""
    command = services()["redis"]["command"]

    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command


def test_an_api_without_a_token_is_published_on_this_machine_alone() -> None:
    """It listens on every address inside its container, so this is the only door."""
    assert all(port.startswith("127.0.0.1:") for port in services()["api"]["ports"])
