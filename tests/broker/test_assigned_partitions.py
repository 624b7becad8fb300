"""Whose are the logs that lie here?"""

import pytest

from odradek.broker.own_partitions import hosted, lost
from odradek.controller.assignment import Assignment
from odradek.controller.registration import create_roots
from odradek.controller.store import paths
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.controller.store.tree import Tree
from odradek.protocol.types import TopicPartition
from tests.support.memory_store import MemoryStore

OURS = 1


async def tree(**topics):
    """A store with topics, each with the replicas of its partitions."""
    store = MemoryStore(Tree())
    await store.open_session()
    await create_roots(store)
    for name, replicas in topics.items():
        partitions = {number: Assignment(tuple(each)) for number, each in enumerate(replicas)}
        await store.create(paths.topic(name), TopicAssignment(partitions).encode())
    return store


async def found(store, *names):
    partitions = [TopicPartition(name[0], int(name[1:])) for name in names]
    return await hosted(store, partitions, broker_id=OURS)


async def test_those_that_are_assigned_to_this_broker_are_its_own():
    store = await tree(a=[[1], [2, 1], [1]], b=[[1]])
    own, strays = await found(store, "a0", "a1", "b0")
    assert own == {"a": {0, 1}, "b": {0}}
    assert strays == []


async def test_those_of_others_and_of_no_topic_are_strays():
    store = await tree(a=[[1], [2]])
    own, strays = await found(store, "a0", "a1", "a7", "z0")
    assert own == {"a": {0}}
    assert strays == [("a", 1), ("a", 7), ("z", 0)]


async def test_those_of_a_topic_that_is_being_deleted_are_neither():
    store = await tree(a=[[1]])
    await store.create(paths.topic_to_delete("a"), b"")
    assert await found(store, "a0") == ({}, [])


async def lost_in(store, *, isr, here=()):
    """Of partition 0 of ``a``."""
    state = paths.partition_state(TopicPartition("a", 0))
    for parent in (state.rsplit("/", 2)[0], state.rsplit("/", 1)[0]):
        await store.create(parent)
    leadership = LeaderAndIsr(leader=-1, leader_epoch=3, isr=isr, controller_epoch=1)
    await store.create(state, leadership.encode())
    return await lost(store, {TopicPartition("a", int(each)) for each in here}, broker_id=OURS)


async def test_what_this_broker_alone_was_in_sync_with_is_lost_if_it_is_not_here():
    assert await lost_in(await tree(a=[[1, 2]]), isr=(1,)) == {("a", 0)}


async def test_a_broker_without_any_log_has_lost_all_that_it_was_in_sync_with():
    assert await lost_in(await tree(a=[[1, 2]]), isr=(2, 1)) == {("a", 0)}


@pytest.mark.parametrize(
    ("replicas", "isr", "here"),
    [
        ([1, 2], (1,), "0"),  # it is here
        ([1, 2], (1, 2), "7"),  # another has it, and this broker has lost nothing else
        ([1, 2], (2,), ""),
        ([2, 3], (2,), ""),
        ([1], (1,), ""),  # nobody else can have any of it
    ],
)
async def test_what_others_have_for_sure_or_cannot_have_is_not(replicas, isr, here):
    assert await lost_in(await tree(a=[replicas]), isr=isr, here=here) == set()


async def test_nor_is_what_is_being_deleted():
    store = await tree(a=[[1, 2]])
    await store.create(paths.topic_to_delete("a"), b"")
    assert await lost_in(store, isr=(1,)) == set()
