"""Offsets that the oldest clients keep in ZooKeeper."""

import pytest

from odradek.broker.groups.zookeeper_offsets import ZooKeeperOffsets
from odradek.controller.store.data_tree import DataTree
from odradek.protocol.errors import InvalidGroupId
from tests.support.memory_store import MemoryStore


@pytest.fixture
def store():
    return MemoryStore(DataTree())


async def test_offset_is_stored_as_a_number_in_a_znode(store):
    await store.open_session()
    offsets = ZooKeeperOffsets(store)
    await offsets.commit("g", ("events", 3), 17)
    assert (await store.get("/consumers/g/offsets/events/3")).value == b"17"
    await offsets.commit("g", ("events", 3), 18)
    assert (await store.get("/consumers/g/offsets/events/3")).value == b"18"


async def test_uncommitted_offset_is_none(store):
    await store.open_session()
    offsets = ZooKeeperOffsets(store)
    await offsets.commit("g", ("events", 3), 17)
    assert await offsets.fetch("g", [("events", 2), ("events", 3)]) == [None, 17]


@pytest.mark.parametrize("group_id", ["", "a\0b", ".."])
async def test_group_id_that_is_no_valid_znode_name_is_rejected(store, group_id):
    await store.open_session()
    with pytest.raises(InvalidGroupId):
        await ZooKeeperOffsets(store).commit(group_id, ("events", 3), 17)
