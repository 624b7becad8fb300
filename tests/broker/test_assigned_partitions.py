"""Which of the logs on disk are assigned to this broker, stray or lost."""

import pytest

from odradek.broker.assigned_partitions import find_assigned_partitions, find_lost_partitions
from odradek.controller.registration import create_top_level_paths
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store import paths
from odradek.controller.store.data_tree import DataTree
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.protocol.types import TopicPartition
from tests.support.memory_store import MemoryStore

BROKER_ID = 1


async def tree(**topics):
    """Returns a store with topics, each with the replicas of its partitions."""
    store = MemoryStore(DataTree())
    await store.open_session()
    await create_top_level_paths(store)
    for name, replicas in topics.items():
        partitions = {
            number: ReplicaAssignment(tuple(brokers)) for number, brokers in enumerate(replicas)
        }
        await store.create(paths.topic(name), TopicAssignment(partitions).encode())
    return store


async def find_assigned(store, *names):
    partitions = [TopicPartition(name[0], int(name[1:])) for name in names]
    return await find_assigned_partitions(store, partitions, broker_id=BROKER_ID)


async def test_partitions_assigned_to_this_broker_are_found():
    store = await tree(a=[[1], [2, 1], [1]], b=[[1]])
    assigned, strays = await find_assigned(store, "a0", "a1", "b0")
    assert assigned == {"a": {0, 1}, "b": {0}}
    assert strays == []


async def test_partitions_of_other_brokers_or_unknown_topics_are_stray():
    store = await tree(a=[[1], [2]])
    assigned, strays = await find_assigned(store, "a0", "a1", "a7", "z0")
    assert assigned == {"a": {0}}
    assert strays == [("a", 1), ("a", 7), ("z", 0)]


async def test_partitions_of_a_topic_being_deleted_are_neither_assigned_nor_stray():
    store = await tree(a=[[1]])
    await store.create(paths.topic_to_delete("a"), b"")
    assert await find_assigned(store, "a0") == ({}, [])


async def find_lost(store, *, isr, local_partitions=()):
    """Returns the lost partitions after partition 0 of topic ``a`` got this ISR."""
    state = paths.partition_state(TopicPartition("a", 0))
    for parent in (state.rsplit("/", 2)[0], state.rsplit("/", 1)[0]):
        await store.create(parent)
    leadership = LeaderAndIsr(leader=-1, leader_epoch=3, isr=isr, controller_epoch=1)
    await store.create(state, leadership.encode())
    return await find_lost_partitions(
        store, {TopicPartition("a", int(index)) for index in local_partitions}, broker_id=BROKER_ID
    )


async def test_missing_log_is_lost_if_this_broker_was_the_only_isr_member():
    assert await find_lost(await tree(a=[[1, 2]]), isr=(1,)) == {("a", 0)}


async def test_broker_without_any_log_lost_every_partition_with_it_in_the_isr():
    assert await find_lost(await tree(a=[[1, 2]]), isr=(2, 1)) == {("a", 0)}


@pytest.mark.parametrize(
    ("replicas", "isr", "local_partitions"),
    [
        ([1, 2], (1,), "0"),  # it is here
        ([1, 2], (1, 2), "7"),  # another replica has it, and this broker lost nothing else
        ([1, 2], (2,), ""),
        ([2, 3], (2,), ""),
        ([1], (1,), ""),  # no other broker can have it
    ],
)
async def test_partition_is_not_lost_if_it_is_here_or_others_have_it_or_cannot(
    replicas, isr, local_partitions
):
    assert (
        await find_lost(await tree(a=[replicas]), isr=isr, local_partitions=local_partitions)
        == set()
    )


async def test_partition_of_a_topic_being_deleted_is_not_lost():
    store = await tree(a=[[1, 2]])
    await store.create(paths.topic_to_delete("a"), b"")
    assert await find_lost(store, isr=(1,)) == set()
