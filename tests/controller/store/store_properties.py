"""Whatever is asked of them, all metadata stores answer as ZooKeeper does."""

import tempfile
from pathlib import Path

from hypothesis import given, settings

from tests.support.loops import finish
from tests.support.store_steps import STEPS, told_of
from tests.support.stores import EmbeddedStores, MemoryStores
from tests.support.zookeeper import ZooKeeperStores


async def told_by(stores, steps):
    return await told_of(await stores.open(), steps)


# Far from the usual hundred: each step is a round trip to the server, or a sync of the disk.
@settings(max_examples=30)
@given(steps=STEPS)
def test_memory_answers_as_zookeeper_does(zookeeper, steps):
    expected = finish(told_by(ZooKeeperStores(zookeeper), steps))
    assert finish(told_by(MemoryStores(), steps)) == expected


@settings(max_examples=10)
@given(steps=STEPS)
def test_the_embedded_store_answers_as_memory_does(steps):
    with tempfile.TemporaryDirectory() as folder:
        told = finish(told_by(EmbeddedStores(Path(folder)), steps))
    assert told == finish(told_by(MemoryStores(), steps))
