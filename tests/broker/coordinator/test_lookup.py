"""The lookup of coordinators."""

import asyncio

import pytest

from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS
from odradek.protocol.errors import CoordinatorNotAvailable, UnknownTopicOrPartition
from tests.support.group_coordinators import LISTENER, Coordinating


async def test_coordinator_is_the_leader_of_the_keys_partition(tmp_path):
    scene = Coordinating(tmp_path, partitions=3)
    assert scene.lookup.coordinator("g", listener=LISTENER) == scene.cluster.node
    assert scene.lookup.partition_for("g") == ord("g") % 3


async def test_no_coordinator_at_a_listener_that_the_leader_lacks(tmp_path):
    scene = Coordinating(tmp_path)
    with pytest.raises(CoordinatorNotAvailable):
        scene.lookup.coordinator("g", listener="OUTSIDE")


async def test_internal_topic_is_created_on_first_use(tmp_path):
    scene = Coordinating(tmp_path, partitions=0)
    assert not scene.lookup.is_ready
    await scene.lookup.prepare()
    assert scene.created == [CONSUMER_OFFSETS]
    assert scene.lookup.is_ready


async def test_concurrent_lookups_share_one_creation(tmp_path):
    scene = Coordinating(tmp_path, partitions=0)
    await asyncio.gather(scene.lookup.prepare(), scene.lookup.prepare())
    assert scene.created == [CONSUMER_OFFSETS]
    assert scene.lookup.is_ready


async def test_lookup_does_not_wait_for_leaders_if_the_creation_fails(tmp_path, monkeypatch):
    scene = Coordinating(tmp_path, partitions=0)

    async def fail_creation(names):
        return {name: UnknownTopicOrPartition() for name in names}

    async def never(*_, **__):
        raise AssertionError

    monkeypatch.setattr(scene, "create", fail_creation)
    monkeypatch.setattr(scene.cluster, "wait_for_leaders", never)
    await scene.lookup.prepare()
    assert not scene.lookup.is_ready
