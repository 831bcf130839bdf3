"""What all tests share: how hard Hypothesis looks, and one server per test process."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from taskflow_streams.embedded import EmbeddedServer

# No deadline: machines are shared.  Always the same examples in the everyday run, so that red means this change.
# `HYPOTHESIS_PROFILE=thorough` looks for new ones.
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "thorough", deadline=None, max_examples=1000, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    """A real Valkey for this test process; nothing in it lasts."""
    with EmbeddedServer.temporary() as running:
        yield running
