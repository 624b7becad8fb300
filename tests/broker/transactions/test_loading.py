"""A transaction coordinator loads its partition when elected and unloads it; on real logs."""

import asyncio

import pytest

from odradek.broker.metadata.internal_topics import TRANSACTION_STATE
from odradek.broker.transactions.decisions import EndTransactionRequest
from odradek.broker.transactions.transaction_state import ProducerIdAndEpoch, TransactionState
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
    """Completes at once, as there is one replica."""
    return scene.coordinator.init_producer_id(name, None, timeout_ms=TIMEOUT_MS)


def open_transaction(scene, name=ID):
    producer = init(scene, name)
    assert (
        scene.coordinator.add_partitions(name, producer, EVENTS, client_transaction_version=0)
        is None
    )
    return producer


def state(scene, name=ID):
    return scene.coordinator.shard(name).transactions[name].state


def bounce_leadership(scene):
    """Move leadership to another broker and back."""
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)


async def test_requests_are_rejected_during_loading(tmp_path):
    scene = Transacting(tmp_path)
    producer = open_transaction(scene)
    bounce_leadership(scene)
    assert scene.coordinator.runtime.is_loading
    with pytest.raises(CoordinatorLoadInProgress):
        init(scene)
    with pytest.raises(CoordinatorLoadInProgress):
        scene.coordinator.end_transaction(ID, EndTransactionRequest(producer, True, 0))
    await scene.settled()
    assert state(scene) is TransactionState.ONGOING
    scene.coordinator.end_transaction(ID, EndTransactionRequest(producer, True, 0))
    await scene.settled()
    assert state(scene) is TransactionState.COMPLETE_COMMIT


async def test_former_leader_is_not_coordinator(tmp_path):
    scene = Transacting(tmp_path)
    init(scene)
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    with pytest.raises(NotCoordinator):
        init(scene)


async def test_each_id_is_in_its_partition(tmp_path):
    scene = Transacting(tmp_path, partitions=3)
    for name in "abcdef":
        init(scene, name)
    ids_by_shard = [sorted(shard.transactions) for shard in scene.coordinator]
    assert {name for names in ids_by_shard for name in names} == {*"abcdef"}
    assert all(ids_by_shard)


@pytest.mark.parametrize("is_commit", [True, False])
async def test_prepared_transaction_is_completed_with_the_epoch_of_the_new_leader(
    tmp_path, is_commit
):
    scene = Transacting(tmp_path)
    producer = open_transaction(scene)
    scene.participants.leaderless.update(EVENTS)
    scene.coordinator.end_transaction(ID, EndTransactionRequest(producer, is_commit, 0))
    bounce_leadership(scene)
    scene.participants.leaderless.clear()
    await scene.settled()
    assert state(scene) is (
        TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    )
    (marker,) = scene.participants.logs[TopicPartition("events", 0)].markers
    assert marker == (producer, is_commit, 2)


async def until(condition):
    """Yield to the event loop until the condition holds."""
    while not condition():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0)


class TestNotReplicatedYet:
    """Records that a new leader has not replicated yet may still be lost."""

    async def loading_scene(self, path):
        """Load on a new leader; only the prepared commit at the log end is not replicated."""
        scene = Transacting(path)
        producer = open_transaction(scene)
        scene.lead(epoch=1, replicas=BOTH)
        scene.coordinator.end_transaction(ID, EndTransactionRequest(producer, True, 0))
        await self.wait_for_replication(scene)
        scene.lead(epoch=2, leader=OTHER, replicas=BOTH)
        scene.lead(epoch=3, replicas=BOTH)
        self.record_fetch(scene, offset=2)
        await self.wait_for_replication(scene)
        return scene

    def partition(self, scene):
        return scene.hosting.replicas.partition(TRANSACTION_STATE, 0)

    def record_fetch(self, scene, *, offset):
        self.partition(scene).update_follower_fetch_state(
            OTHER, fetch_offset=offset, follower_start_offset=0
        )

    async def wait_for_replication(self, scene):
        await until(lambda: self.partition(scene).high_watermark.has_waiters)

    def is_marked(self, scene):
        return bool(scene.participants.logs[TopicPartition("events", 0)].markers)

    async def test_prepared_transaction_waits(self, tmp_path):
        scene = await self.loading_scene(tmp_path)
        assert self.partition(scene).high_watermark.value == 2
        assert not self.is_marked(scene)
        with pytest.raises(CoordinatorLoadInProgress):
            init(scene)

    async def test_prepared_transaction_is_completed_after_replication(self, tmp_path):
        scene = await self.loading_scene(tmp_path)
        self.record_fetch(scene, offset=3)
        await until(lambda: self.is_marked(scene))
        self.record_fetch(scene, offset=4)
        await scene.settled()
        assert state(scene) is TransactionState.COMPLETE_COMMIT

    async def test_prepared_transaction_is_completed_after_the_isr_shrinks(self, tmp_path):
        scene = await self.loading_scene(tmp_path)
        scene.lead(epoch=4, replicas=BOTH, in_sync=(1,))
        await scene.settled()
        assert state(scene) is TransactionState.COMPLETE_COMMIT

    async def test_new_epoch_of_this_leader_continues_waiting(self, tmp_path):
        scene = await self.loading_scene(tmp_path)
        scene.lead(epoch=4, replicas=BOTH)
        await self.wait_for_replication(scene)
        assert scene.coordinator.runtime.is_loading
        assert not self.is_marked(scene)
        self.record_fetch(scene, offset=3)
        await until(lambda: not scene.coordinator.runtime.is_loading)
        assert state(scene) is TransactionState.PREPARE_COMMIT

    async def test_resignation_leaves_it_to_the_next_coordinator(self, tmp_path, caplog):
        scene = await self.loading_scene(tmp_path)
        scene.lead(epoch=4, leader=OTHER, replicas=BOTH)
        await scene.settled()
        assert not self.is_marked(scene)
        with pytest.raises(NotCoordinator):
            init(scene)
        assert not [each for each in caplog.records if each.levelname == "ERROR"]


async def test_loading_does_not_wait_for_a_flush(tmp_path):
    scene = Transacting(tmp_path)
    open_transaction(scene)
    log = scene.hosting.replicas.partition(TRANSACTION_STATE, 0).log
    log.configure(TopicSettings(flush_messages=1))
    bounce_leadership(scene)
    await scene.settled()
    assert state(scene) is TransactionState.ONGOING


async def test_corrupt_partition_is_not_served(tmp_path):
    scene = Transacting(tmp_path)
    open_transaction(scene)
    damage(scene.hosting.replicas.partition(TRANSACTION_STATE, 0))
    bounce_leadership(scene)
    await scene.settled()
    with pytest.raises(NotCoordinator):
        init(scene)
    assert not scene.coordinator.runtime.is_loading


async def test_value_of_an_unknown_version_fails_the_loading(tmp_path):
    scene = Transacting(tmp_path)
    init(scene)
    scene.coordinator.shard(ID).log.append([(b"\0\0\0\x01a", b"\0\x09what")])
    bounce_leadership(scene)
    await scene.settled()
    with pytest.raises(NotCoordinator):
        init(scene)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_transaction_continues_after_its_coordinator_is_reelected(tmp_path, version):
    scene = Transacting(tmp_path, version=version)
    producer = open_transaction(scene)
    bounce_leadership(scene)
    await scene.settled()
    more = frozenset({TopicPartition("other", 0)})
    assert (
        scene.coordinator.add_partitions(ID, producer, more, client_transaction_version=0) is None
    )
    assert scene.coordinator.shard(ID).transactions[ID].partitions == EVENTS | more
    assert scene.coordinator.end_transaction(
        ID, EndTransactionRequest(producer, True, 2)
    ) == ProducerIdAndEpoch(producer.id, 1)
    await scene.settled()


async def test_markers_carry_the_current_leader_epoch(tmp_path):
    scene = Transacting(tmp_path)
    producer = open_transaction(scene)
    scene.lead(epoch=7)
    scene.coordinator.end_transaction(ID, EndTransactionRequest(producer, True, 0))
    await scene.settled()
    (marker,) = scene.participants.logs[TopicPartition("events", 0)].markers
    assert marker.coordinator_epoch == 7
