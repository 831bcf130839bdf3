"""An api for each test that asks for one, on a store of its own."""

from collections.abc import AsyncIterator

import pytest

from taskflow_streams import Store
from tests.integration.api.door import Door, open_door


@pytest.fixture
async def door(store: Store) -> AsyncIterator[Door]:
    """The api of a store with one partition."""
    opened = open_door(store)
    async with opened.http:
        yield opened


@pytest.fixture
async def wide_door(wide_store: Store) -> AsyncIterator[Door]:
    """The api of a store with four partitions."""
    opened = open_door(wide_store)
    async with opened.http:
        yield opened
