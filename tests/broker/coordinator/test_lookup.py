"""Which broker coordinates what."""

import asyncio

import pytest

from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS
from odradek.protocol.errors import CoordinatorNotAvailable, UnknownTopicOrPartition
from tests.support.group_coordinators import LISTENER, Coordinating


async def test_whoever_leads_the_partition_of_the_key(tmp_path):
    scene = Coordinating(tmp_path, partitions=3)
    assert scene.lookup.coordinator("g", listener=LISTENER) == scene.cluster.node
    assert scene.lookup.partition_of("g") == ord("g") % 3


async def test_nobody_at_a_listener_that_the_leader_lacks(tmp_path):
    scene = Coordinating(tmp_path)
    with pytest.raises(CoordinatorNotAvailable):
        scene.lookup.coordinator("g", listener="OUTSIDE")


async def test_the_topic_is_created_on_first_use(tmp_path):
    scene = Coordinating(tmp_path, partitions=0)
    assert not scene.lookup.is_known
    await scene.lookup.prepare()
    assert scene.created == [CONSUMER_OFFSETS]
    assert scene.lookup.is_known


async def test_whoever_asks_at_the_same_time_waits_for_the_same_creation(tmp_path):
    scene = Coordinating(tmp_path, partitions=0)
    await asyncio.gather(scene.lookup.prepare(), scene.lookup.prepare())
    assert scene.created == [CONSUMER_OFFSETS]
    assert scene.lookup.is_known


async def test_nobody_waits_for_the_leaders_of_what_has_long_been_in_creation(
    tmp_path, monkeypatch
):
    scene = Coordinating(tmp_path, partitions=0)

    async def refuse(names):
        return {name: UnknownTopicOrPartition() for name in names}

    async def never(*_, **__):
        raise AssertionError

    monkeypatch.setattr(scene, "create", refuse)
    monkeypatch.setattr(scene.cluster, "wait_for_leaders", never)
    await scene.lookup.prepare()
    assert not scene.lookup.is_known
