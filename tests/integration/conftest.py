"""A store of its own for each test that asks for one, and a look at what it left behind."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from taskflow_streams import Store
from taskflow_streams.embedded import EmbeddedServer
from taskflow_worker.processes import Nursery
from tests.support.consistency import faults
from tests.support.engine import Clock

Connect = Callable[[int], Awaitable[Store]]
_namespaces = itertools.count()


@pytest.fixture
async def connect(server: EmbeddedServer) -> AsyncIterator[Connect]:
    """Make stores with that many partitions, each in a namespace of its own.

    Afterwards everything in them must be consistent, and no key without an owner or an end.
    """
    stores: list[Store] = []

    async def make(partitions: int) -> Store:
        store = await Store.connect(server.url, namespace=f"t{next(_namespaces)}", partitions=partitions)
        stores.append(store)
        return store

    yield make

    found = [fault for store in stores for fault in await faults(store)]
    for store in stores:
        await store.redis.flushdb()
        await store.close()
    assert not found, "\n".join(found)


@pytest.fixture
async def store(connect: Connect) -> Store:
    """A store with one partition."""
    return await connect(1)


@pytest.fixture
async def wide_store(connect: Connect) -> Store:
    """A store with four partitions."""
    return await connect(4)


@pytest.fixture
def clock(store: Store) -> Clock:
    """The store's time, in the test's hands."""
    return Clock(store)


@pytest.fixture
async def nursery() -> AsyncIterator[Nursery]:
    """One that has started."""
    one = Nursery()
    await one.start()
    yield one
    await one.close()
