"""Where the oldest clients keep their offsets."""

import pytest

from odradek.broker.groups.old_offsets import OldOffsets
from odradek.controller.store.tree import Tree
from odradek.protocol.errors import InvalidGroupId
from tests.support.memory_store import MemoryStore


@pytest.fixture
def store():
    return MemoryStore(Tree())


async def test_an_offset_is_a_number_in_a_node_of_its_own(store):
    await store.open_session()
    old = OldOffsets(store)
    await old.commit("g", ("events", 3), 17)
    assert (await store.get("/consumers/g/offsets/events/3")).value == b"17"
    await old.commit("g", ("events", 3), 18)
    assert (await store.get("/consumers/g/offsets/events/3")).value == b"18"


async def test_what_was_never_committed_is_none(store):
    await store.open_session()
    old = OldOffsets(store)
    await old.commit("g", ("events", 3), 17)
    assert await old.fetch("g", [("events", 2), ("events", 3)]) == [None, 17]


@pytest.mark.parametrize("group_id", ["", "a\0b", ".."])
async def test_a_name_that_no_node_can_have_is_refused(store, group_id):
    await store.open_session()
    with pytest.raises(InvalidGroupId):
        await OldOffsets(store).commit(group_id, ("events", 3), 17)
