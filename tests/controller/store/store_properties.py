"""All metadata stores return what ZooKeeper returns for any sequence of operations."""

import tempfile
from pathlib import Path

from hypothesis import given, settings

from tests.support.loops import finish
from tests.support.store_steps import STEPS, told_of
from tests.support.stores import EmbeddedStores, MemoryStores
from tests.support.zookeeper import ZooKeeperStores


async def results_of(stores, steps):
    return await told_of(await stores.open(), steps)


# Few examples, because each step is a round trip to the server or a flush to disk.
@settings(max_examples=30)
@given(steps=STEPS)
def test_memory_store_returns_what_zookeeper_returns(zookeeper, steps):
    expected = finish(results_of(ZooKeeperStores(zookeeper), steps))
    assert finish(results_of(MemoryStores(), steps)) == expected


@settings(max_examples=10)
@given(steps=STEPS)
def test_embedded_store_returns_what_the_memory_store_returns(steps):
    with tempfile.TemporaryDirectory() as folder:
        results = finish(results_of(EmbeddedStores(Path(folder)), steps))
    assert results == finish(results_of(MemoryStores(), steps))
