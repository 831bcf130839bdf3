"""Which processes there are, and what each is told."""

import socket

import pytest
from pydantic import ValidationError

from taskflow.commands.errors import CommandFailed
from taskflow.supervisor import ports
from taskflow.supervisor.plan import START_ORDER, STOP_ORDER, StackSettings, programs


def test_every_service_runs_and_has_its_turn_to_stop() -> None:
    """Six services, one process each unless told otherwise."""
    plan = programs(StackSettings(), "unix:///x", workers=1)

    assert [program.name for program in plan] == list(START_ORDER)
    assert sorted(START_ORDER) == sorted(service for stage in STOP_ORDER for service in stage)


@pytest.mark.parametrize(("workers", "names"), [(0, []), (1, ["worker"]), (3, ["worker-1", "worker-2", "worker-3"])])
def test_there_are_as_many_workers_as_wanted(workers: int, names: list[str]) -> None:
    """None is a number, too."""
    plan = programs(StackSettings(), "unix:///x", workers)

    assert [program.name for program in plan if program.service == "worker"] == names


def test_services_are_told_through_their_environment() -> None:
    """All learn where the broker is; each learns what concerns itself alone."""
    settings = StackSettings(port=9000, partitions=4, worker_concurrency=7, log_format="pretty")

    told = {program.name: program.environment for program in programs(settings, "unix:///x", workers=1)}

    assert all(each["TASKFLOW_REDIS_URL"] == "unix:///x" for each in told.values())
    assert all(each["TASKFLOW_PARTITIONS"] == "4" for each in told.values())
    assert all(each["TASKFLOW_LOG_FORMAT"] == "json" for each in told.values())
    assert told["api"]["TASKFLOW_PORT"] == "9000"
    assert told["worker"]["TASKFLOW_WORKER_CONCURRENCY"] == "7"
    assert "TASKFLOW_WORKER_CONCURRENCY" not in told["api"]
    assert "TASKFLOW_PORT" not in told["worker"]


def test_every_process_has_a_port_of_its_own() -> None:
    """Health is asked of each alone; the api answers on its own port."""
    plan = programs(StackSettings(port=9000), "unix:///x", workers=5)

    assert len({program.port for program in plan}) == len(plan)
    assert plan[0].url == "http://127.0.0.1:9000"


def test_an_api_that_listens_everywhere_is_reached_here() -> None:
    """0.0.0.0 is no address to connect to."""
    plan = programs(StackSettings(host="0.0.0.0", insecure=True, port=9000), "unix:///x", workers=0)

    assert plan[0].url == "http://127.0.0.1:9000"


def test_a_port_that_is_taken_is_named_before_anything_starts() -> None:
    """The sentence says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        with pytest.raises(CommandFailed, match=f"Port {port} .* taken .* --port"):
            ports.check("127.0.0.1", port)


def test_an_open_door_is_refused_before_anything_starts() -> None:
    """The stack knows the api's rule, so nobody waits for seven processes to hear of it."""
    with pytest.raises(ValidationError, match="TASKFLOW_API_TOKEN"):
        StackSettings(host="0.0.0.0")
