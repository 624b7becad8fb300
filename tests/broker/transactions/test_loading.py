"""Becoming the coordinator of transactions, and ceasing to be, over real logs."""

import asyncio

import pytest

from odradek.broker.metadata.internal_topics import TRANSACTION_STATE
from odradek.broker.transactions.decisions import Ending
from odradek.broker.transactions.transaction_state import Producer, State
from odradek.protocol.errors import (
    CoordinatorLoadInProgress,
    NotCoordinator,
)
from odradek.protocol.types import TopicPartition
from odradek.storage.settings import TopicSettings
from tests.support.group_coordinators import damage
from tests.support.transaction_coordinators import Transacting
from tests.support.transactions import ID, TIMEOUT_MS

OTHER = 2
BOTH = (1, OTHER)
EVENTS = frozenset({TopicPartition("events", 0)})


def init(scene, name=ID):
    """At once, as there is one replica."""
    return scene.coordinator.init(name, None, timeout_ms=TIMEOUT_MS)


def opened(scene, name=ID):
    producer = init(scene, name)
    assert scene.coordinator.add(name, producer, EVENTS, client_version=0) is None
    return producer


def state(scene, name=ID):
    return scene.coordinator.shard(name).transactions[name].state


def bounced(scene):
    """Leadership goes to another and comes back."""
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)


async def test_while_it_is_loaded_everybody_is_told_so(tmp_path):
    scene = Transacting(tmp_path)
    producer = opened(scene)
    bounced(scene)
    assert scene.coordinator.shards.is_loading
    with pytest.raises(CoordinatorLoadInProgress):
        init(scene)
    with pytest.raises(CoordinatorLoadInProgress):
        scene.coordinator.end(ID, Ending(producer, True, 0))
    await scene.settled()
    assert state(scene) is State.ONGOING
    scene.coordinator.end(ID, Ending(producer, True, 0))
    await scene.settled()
    assert state(scene) is State.COMPLETE_COMMIT


async def test_who_leads_no_more_coordinates_no_more(tmp_path):
    scene = Transacting(tmp_path)
    init(scene)
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    with pytest.raises(NotCoordinator):
        init(scene)


async def test_each_id_is_in_its_partition(tmp_path):
    scene = Transacting(tmp_path, partitions=3)
    for name in "abcdef":
        init(scene, name)
    found = [sorted(shard.transactions) for shard in scene.coordinator]
    assert {name for names in found for name in names} == {*"abcdef"}
    assert all(found)


@pytest.mark.parametrize("is_commit", [True, False])
async def test_what_was_prepared_is_completed_with_the_epoch_of_the_new_leader(tmp_path, is_commit):
    scene = Transacting(tmp_path)
    producer = opened(scene)
    scene.participants.leaderless.update(EVENTS)
    scene.coordinator.end(ID, Ending(producer, is_commit, 0))
    bounced(scene)
    scene.participants.leaderless.clear()
    await scene.settled()
    assert state(scene) is (State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT)
    (marker,) = scene.participants.logs[TopicPartition("events", 0)].markers
    assert marker == (producer, is_commit, 2)


async def until(is_so):
    """Everybody else has their turns meanwhile."""
    while not is_so():  # noqa: ASYNC110 - nothing else tells
        await asyncio.sleep(0)


class TestNotReplicatedYet:
    """What is prepared in the log of a new leader may be lost yet."""

    async def loading(self, path):
        """A commit is in the log, the other replica has all before it, and leadership has come."""
        scene = Transacting(path)
        producer = opened(scene)
        scene.lead(epoch=1, replicas=BOTH)
        scene.coordinator.end(ID, Ending(producer, True, 0))
        await self.replicas_are_awaited(scene)
        scene.lead(epoch=2, leader=OTHER, replicas=BOTH)
        scene.lead(epoch=3, replicas=BOTH)
        self.fetched(scene, offset=2)
        await self.replicas_are_awaited(scene)
        return scene

    def partition(self, scene):
        return scene.hosting.replicas.partition(TRANSACTION_STATE, 0)

    def fetched(self, scene, *, offset):
        self.partition(scene).follower_fetched(OTHER, offset=offset, start_offset=0)

    async def replicas_are_awaited(self, scene):
        await until(lambda: self.partition(scene).high_watermark.is_awaited)

    def is_marked(self, scene):
        return bool(scene.participants.logs[TopicPartition("events", 0)].markers)

    async def test_nobody_acts_on_it(self, tmp_path):
        scene = await self.loading(tmp_path)
        assert self.partition(scene).high_watermark.value == 2
        assert not self.is_marked(scene)
        with pytest.raises(CoordinatorLoadInProgress):
            init(scene)

    async def test_it_is_completed_once_all_replicas_have_it(self, tmp_path):
        scene = await self.loading(tmp_path)
        self.fetched(scene, offset=3)
        await until(lambda: self.is_marked(scene))
        self.fetched(scene, offset=4)
        await scene.settled()
        assert state(scene) is State.COMPLETE_COMMIT

    async def test_or_once_those_that_are_away_are_not_in_sync_any_more(self, tmp_path):
        scene = await self.loading(tmp_path)
        scene.lead(epoch=4, replicas=BOTH, in_sync=(1,))
        await scene.settled()
        assert state(scene) is State.COMPLETE_COMMIT

    async def test_a_new_epoch_of_this_leader_changes_nothing(self, tmp_path):
        scene = await self.loading(tmp_path)
        scene.lead(epoch=4, replicas=BOTH)
        await self.replicas_are_awaited(scene)
        assert scene.coordinator.shards.is_loading
        assert not self.is_marked(scene)
        self.fetched(scene, offset=3)
        await until(lambda: not scene.coordinator.shards.is_loading)
        assert state(scene) is State.PREPARE_COMMIT

    async def test_when_leadership_goes_it_is_for_the_next(self, tmp_path, caplog):
        scene = await self.loading(tmp_path)
        scene.lead(epoch=4, leader=OTHER, replicas=BOTH)
        await scene.settled()
        assert not self.is_marked(scene)
        with pytest.raises(NotCoordinator):
            init(scene)
        assert not [each for each in caplog.records if each.levelname == "ERROR"]


async def test_what_was_read_need_not_be_synced(tmp_path):
    scene = Transacting(tmp_path)
    opened(scene)
    log = scene.hosting.replicas.partition(TRANSACTION_STATE, 0).log
    log.configure(TopicSettings(flush_messages=1))
    bounced(scene)
    await scene.settled()
    assert state(scene) is State.ONGOING


async def test_what_cannot_be_read_is_not_served(tmp_path):
    scene = Transacting(tmp_path)
    opened(scene)
    damage(scene.hosting.replicas.partition(TRANSACTION_STATE, 0))
    bounced(scene)
    await scene.settled()
    with pytest.raises(NotCoordinator):
        init(scene)
    assert not scene.coordinator.shards.is_loading


async def test_a_value_of_a_version_that_nobody_knows_is_not_passed_over(tmp_path):
    scene = Transacting(tmp_path)
    init(scene)
    scene.coordinator.shard(ID).log.append([(b"\0\0\0\x01a", b"\0\x09what")])
    bounced(scene)
    await scene.settled()
    with pytest.raises(NotCoordinator):
        init(scene)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_transaction_goes_on_after_its_coordinator_has_come_back(tmp_path, version):
    scene = Transacting(tmp_path, version=version)
    producer = opened(scene)
    bounced(scene)
    await scene.settled()
    more = frozenset({TopicPartition("other", 0)})
    assert scene.coordinator.add(ID, producer, more, client_version=0) is None
    assert scene.coordinator.shard(ID).transactions[ID].partitions == EVENTS | more
    assert scene.coordinator.end(ID, Ending(producer, True, 2)) == Producer(producer.id, 1)
    await scene.settled()


async def test_in_a_new_epoch_of_the_same_leader_markers_have_that(tmp_path):
    scene = Transacting(tmp_path)
    producer = opened(scene)
    scene.lead(epoch=7)
    scene.coordinator.end(ID, Ending(producer, True, 0))
    await scene.settled()
    (marker,) = scene.participants.logs[TopicPartition("events", 0)].markers
    assert marker.coordinator_epoch == 7
