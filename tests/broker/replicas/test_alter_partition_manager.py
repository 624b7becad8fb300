"""Leaders propose ISR changes, and the controller decides."""

import asyncio

import pytest

from odradek.broker.replicas.alter_partition_manager import AlterPartitionManager
from odradek.broker.replicas.leader_state import INELIGIBLE_BACKOFF_MS
from odradek.protocol.api.alter_partition import AlterPartitionResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import NotController
from odradek.protocol.types import Uuid
from tests.support.calls import as_sent
from tests.support.hosted_partitions import Hosting
from tests.support.logs import NOW_MS, records_batch

TOPIC_ID = Uuid(bytes([7] * 16))
PartitionResponse = AlterPartitionResponse.Topic.Partition


class Scene:
    """Broker 1 leads a partition with followers 2 and 3; controller responses are scripted."""

    broker_id, broker_epoch = 1, 5

    def __init__(self, path, *, in_sync=(1, 2, 3), topic_id=TOPIC_ID):
        self.hosting = Hosting(path)
        self.now_ms = NOW_MS
        self.alive = {1, 2, 3}
        self.requests = []
        self.results = []
        self.response_epochs = []
        self.pauses = []
        self._has_sent = asyncio.Event()
        self.manager = AlterPartitionManager(
            self,
            self,
            lag_max_ms=lambda: 1000,
            now_ms=lambda: self.now_ms,
            start_task=self.hosting.background.start,
            sleep=self._pause,
        )
        self.hosting.replicas.isr_manager = self.manager
        self.partition = self.hosting.lead(
            replicas=(1, 2, 3), in_sync=in_sync, topic_id=topic_id, epoch=4
        )
        self.partition.append(records_batch(b"v"), acks=1, now_ms=NOW_MS)

    async def _pause(self, seconds):
        self.pauses.append(seconds)

    def is_alive(self, broker_id):
        return broker_id in self.alive

    async def send(self, request, *, version):
        sent = as_sent(request, version=version)
        self.requests.append((version, sent))
        self._has_sent.set()
        result = self.results.pop(0) if self.results else None
        if isinstance(result, Exception):
            raise result
        (topic,) = sent.topics
        (requested,) = topic.partitions
        error = ErrorCode.NONE if result is None else result
        partition_epoch = (
            self.response_epochs.pop() if self.response_epochs else requested.partition_epoch + 1
        )
        partition = PartitionResponse(
            partition_index=0,
            error_code=error.code,
            leader_id=1,
            leader_epoch=requested.leader_epoch,
            isr=requested.new_isr or [each.broker_id for each in requested.new_isr_with_epochs],
            partition_epoch=partition_epoch,
        )
        topic_response = AlterPartitionResponse.Topic(
            topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=[partition]
        )
        return AlterPartitionResponse(throttle_time_ms=0, error_code=0, topics=[topic_response])

    def fetched(self, replica, offset=1, broker_epoch=-1):
        self.partition.update_follower_fetch_state(
            replica, fetch_offset=offset, follower_start_offset=0, broker_epoch=broker_epoch
        )

    async def settled(self):
        for _ in range(20):
            await asyncio.sleep(0)

    @property
    def role(self):
        return self.partition.leader_state


@pytest.mark.parametrize(("topic_id", "version"), [(TOPIC_ID, 3), (None, 1)])
async def test_caught_up_follower_is_proposed_for_the_isr(tmp_path, topic_id, version):
    scene = Scene(tmp_path, in_sync=[1, 2], topic_id=topic_id)
    scene.fetched(2)
    assert scene.partition.high_watermark.value == 1
    scene.fetched(3)
    await scene.settled()
    ((sent_version, request),) = scene.requests
    assert (sent_version, request.broker_id, request.broker_epoch) == (version, 1, 5)
    (partition,) = request.topics[0].partitions
    assert (partition.leader_epoch, partition.partition_epoch) == (4, 4)
    replicas = [each.broker_id for each in partition.new_isr_with_epochs]
    assert (replicas, partition.new_isr) == (([1, 2, 3], []) if topic_id else ([], [1, 2, 3]))
    assert scene.role.isr == {1, 2, 3}
    assert scene.role.pending_isr is None
    assert scene.partition.partition_epoch == 5


async def test_offline_follower_is_not_proposed_for_the_isr(tmp_path):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.alive.remove(3)
    scene.fetched(3)
    await scene.settled()
    assert not scene.requests


async def test_high_watermark_waits_for_the_response_when_the_isr_shrinks(tmp_path):
    scene = Scene(tmp_path)
    scene.fetched(2)
    scene.now_ms += 1001
    scene.partition.append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
    scene.fetched(2, 2)
    scene.partition.maybe_shrink_isr()
    assert scene.partition.high_watermark.value == 0
    await scene.settled()
    assert scene.role.isr == {1, 2}
    assert scene.partition.high_watermark.value == 2


async def test_isr_changes_are_logged_in_the_words_of_kafka(tmp_path, caplog):
    caplog.set_level("INFO", "kafka.cluster")
    scene = Scene(tmp_path, in_sync=[1, 2])
    name = scene.partition.topic_partition
    scene.fetched(2)
    scene.fetched(3)
    await scene.settled()
    scene.now_ms += 1001
    scene.partition.append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
    scene.fetched(2, offset=2)
    scene.partition.maybe_shrink_isr()
    await scene.settled()
    assert caplog.messages == [
        f"{name}: Expanding ISR from [1, 2] to [1, 2, 3]",
        f"{name}: ISR updated to [1, 2, 3] and version updated to 5",
        f"{name}: Shrinking ISR from [1, 2, 3] to [1, 2]",
        f"{name}: ISR updated to [1, 2] and version updated to 6",
    ]


async def test_isr_of_all_partitions_is_checked(tmp_path):
    scene = Scene(tmp_path)
    scene.now_ms += 1001
    await scene.hosting.replicas.maybe_shrink_isr()
    await scene.settled()
    assert scene.role.isr == {1}


async def test_alter_partition_is_retried_until_the_controller_accepts(tmp_path):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.results = [NotController(), ErrorCode.UNKNOWN_SERVER_ERROR]
    scene.fetched(3)
    await scene.settled()
    assert len(scene.requests) == 3
    assert len(scene.pauses) == 2
    assert scene.role.isr == {1, 2, 3}


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION])
async def test_leader_with_a_stale_epoch_waits_for_the_controllers_update(tmp_path, error):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.results = [error]
    scene.fetched(3)
    await scene.settled()
    scene.fetched(3)
    await scene.settled()
    assert len(scene.requests) == 1
    assert scene.role.isr == {1, 2}
    scene.hosting.lead(replicas=(1, 2, 3), in_sync=[1, 2], topic_id=TOPIC_ID, epoch=5, is_new=False)
    scene.fetched(3)
    await scene.settled()
    assert scene.role.isr == {1, 2, 3}


async def test_ineligible_replica_is_proposed_again_after_a_backoff(tmp_path):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.results = [ErrorCode.INELIGIBLE_REPLICA]
    for _ in range(3):
        scene.fetched(3)
        await scene.settled()
    assert scene.role.isr == {1, 2}
    assert len(scene.requests) == 1
    scene.now_ms += INELIGIBLE_BACKOFF_MS
    scene.fetched(3)
    await scene.settled()
    assert scene.role.isr == {1, 2, 3}


async def test_response_is_ignored_after_leadership_is_lost(tmp_path):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.fetched(3)
    before = scene.partition.partition_epoch
    scene.partition.make_follower(2, leader_epoch=5, partition_epoch=9)
    await scene.settled()
    assert scene.partition.partition_epoch == 9 != before
    assert scene.partition.leader_state is None


async def test_repeated_controller_errors_are_logged_once(tmp_path, caplog):
    caplog.set_level("INFO")
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.results = [NotController(), NotController(), ErrorCode.UNKNOWN_SERVER_ERROR]
    scene.results += [ErrorCode.UNKNOWN_SERVER_ERROR]
    scene.fetched(3)
    await scene.settled()
    assert len(scene.requests) == 5
    assert caplog.text.count("Failed to alter ISR; retrying") == 2
    assert "Failed to alter ISR; retrying: UNKNOWN_SERVER_ERROR" in caplog.text


async def test_isr_change_is_retried_after_an_unexpected_error(tmp_path, caplog):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.results = [ValueError("a mistake"), ValueError("a mistake")]
    scene.fetched(3)
    await scene.settled()
    assert scene.role.isr == {1, 2, 3}
    assert caplog.text.count("Failed to alter ISR; retrying: ValueError('a mistake')") == 1


async def test_high_watermark_does_not_wait_for_an_offline_replica(tmp_path):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.results = [ErrorCode.INELIGIBLE_REPLICA]
    scene.fetched(3)
    await scene.settled()
    scene.partition.append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
    scene.fetched(2, 2)
    assert scene.partition.high_watermark.value == 1
    scene.alive.remove(3)
    scene.fetched(2, 2)
    assert scene.partition.high_watermark.value == 2


async def test_response_with_an_older_partition_epoch_is_requested_again(tmp_path):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.partition.partition_epoch = 9
    scene.response_epochs = [3]
    scene.fetched(3)
    await scene.settled()
    assert len(scene.requests) == 2
    assert scene.role.isr == {1, 2, 3}
    assert scene.partition.partition_epoch == 10


async def test_follower_is_proposed_with_the_broker_epoch_of_its_fetch(tmp_path):
    scene = Scene(tmp_path, in_sync=[1, 2])
    scene.fetched(2, broker_epoch=20)
    scene.results = [NotController()]
    scene.fetched(3, broker_epoch=30)
    scene.fetched(3, offset=0, broker_epoch=31)  # it has lost its records
    await scene.settled()
    proposed = [
        {each.broker_id: each.broker_epoch for each in partition.new_isr_with_epochs}
        for _, request in scene.requests
        for partition in request.topics[0].partitions
    ]
    assert proposed == [{1: 5, 2: 20, 3: 30}] * 2
