"""Our controller takes over the znodes of Apache Kafka, including unfinished operations."""

import pytest

from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.store import paths
from tests.support.left_trees import moving, put_tree, to_delete
from tests.support.recorded_trees import Recording, names_of_recorded_trees
from tests.support.stores import MemoryStores
from tests.support.taken_over_cluster import taken_over

EVERY_TREE = [
    pytest.param(step.tree, id=f"{name}-{number}")
    for name in names_of_recorded_trees()
    for number, step in enumerate(Recording.load(name).steps)
]
UNFINISHED_TREES = [
    pytest.param(*tree.values, id=tree.id)
    for tree in EVERY_TREE
    if moving(*tree.values) or to_delete(*tree.values)
]
LAST_TREES = [
    pytest.param(Recording.load(name).steps[-1].tree, id=f"{name}-last")
    for name in names_of_recorded_trees()
]
#: Trees without a live controller.
ABANDONED_TREES = [
    pytest.param(step.tree, id=name)
    for name in ("left-stopped", "left-killed")
    for step in Recording.load(name).steps
    if step.controller is None
]


async def store_with(stores, recorded):
    store = await stores.open()
    await put_tree(store, recorded)
    return store


@pytest.mark.parametrize("recorded", ABANDONED_TREES)
def test_abandoned_trees_contain_an_unfinished_deletion_and_reassignment(recorded):
    assert to_delete(recorded) == {"going"}
    assert moving(recorded) == [("moving", 0)]
    assert not [path for path, node in recorded.items() if node.is_ephemeral]


@pytest.mark.parametrize("recorded", EVERY_TREE)
async def test_takeover_by_all_brokers_at_once(recorded):
    await taken_over(await store_with(MemoryStores(), recorded), first=None)


@pytest.mark.parametrize("recorded", UNFINISHED_TREES)
@pytest.mark.parametrize("first", [1, 2, 3])
async def test_takeover_by_one_broker_that_others_join(recorded, first):
    await taken_over(await store_with(MemoryStores(), recorded), first=[first])


@pytest.mark.parametrize("recorded", [*LAST_TREES, *ABANDONED_TREES])
async def test_takeover_on_every_store(recorded, stores):
    await taken_over(await store_with(stores, recorded), first=[1, 2])


@pytest.mark.parametrize("recorded", ABANDONED_TREES)
async def test_configs_of_abandoned_trees_are_read(recorded, stores):
    reads = MetadataReader(await store_with(stores, recorded))
    topic_configs = await reads.get_topic_configs(["steady", "moving"])
    assert topic_configs == {"steady": {"max.message.bytes": "2000"}, "moving": {}}
    others = {
        paths.broker_config(2): {"log.cleaner.threads": "2"},
        paths.broker_config(None): {"log.retention.ms": "7200000"},
        paths.user_client_config(user="alice", client_id=None): {"producer_byte_rate": "1024"},
    }
    assert await reads.get_entity_configs(others) == others
