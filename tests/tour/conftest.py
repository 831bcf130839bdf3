"""One TaskFlow for the whole tour."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.stack import Stack


@pytest.fixture(scope="session")
def taskflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """All services, one worker, an embedded Valkey."""
    with Stack(tmp_path_factory.mktemp("tour") / "data") as stack:
        yield stack
