"""A follower with a session of many partitions, few of which each fetch reads."""

from types import SimpleNamespace

import pytest

from odradek.broker.fetching.partition_reader import PartitionReader
from odradek.protocol.api.fetch import FetchRequest
from tests.support.fetches import FetchBench, append, asked, errors, numbers, request
from tests.support.hosted_partitions import BROKER

FOLLOWER, COUNT = 2, 5
LAG_MS = 1000


class Scene(FetchBench):
    """Broker 1 leads partitions with a record each, and a follower has a session of all."""

    def __init__(self, path):
        super().__init__(path)
        self.proposed = []
        self.hosting.replicas.isr_manager = SimpleNamespace(
            now_ms=lambda: self.now_ms,
            lag_max_ms=LAG_MS,
            submit=lambda partition, _: self.proposed.append(partition.topic_partition.partition),
            is_eligible=lambda replica_id: True,
        )
        replicas = (BROKER, FOLLOWER)
        self.partitions = [self.lead(index, replicas=replicas) for index in range(COUNT)]
        for partition in self.partitions:
            append(partition)
        self.session_id, self.epoch = 0, 0
        all_partitions = [asked(index, 1, log_start_offset=0) for index in range(COUNT)]
        self.session_id = self.send(*all_partitions).session_id
        for _ in range(2):  # the first moves the high watermarks, the second returns them
            self.send()

    def send(self, *changed, replica_epoch=-1, **fields):
        fetch_request = request(
            *changed,
            session_id=self.session_id,
            session_epoch=self.epoch,
            replica_state=FetchRequest.ReplicaState(
                replica_id=FOLLOWER, replica_epoch=replica_epoch
            ),
            **fields,
        )
        self.epoch += 1
        response = self.fetched(fetch_request)
        assert response.error_code == 0
        return response

    def out_of_sync(self):
        for partition in self.partitions:
            partition.maybe_shrink_isr()
        partitions, self.proposed = self.proposed, []
        return partitions


@pytest.fixture
def looked_at(monkeypatch):
    """Returns the numbers of the partitions that were read."""
    read, partition_numbers = PartitionReader.read, []

    def record_and_read(reader, fetch_partition, *limits, **options):
        partition_numbers.append(fetch_partition.partition_request.partition)
        return read(reader, fetch_partition, *limits, **options)

    monkeypatch.setattr(PartitionReader, "read", record_and_read)
    return partition_numbers


async def test_unchanged_partitions_are_not_read(tmp_path, looked_at):
    scene = Scene(tmp_path)
    looked_at.clear()
    assert not scene.send().responses
    assert looked_at == []
    append(scene.partitions[3])
    assert list(numbers(scene.send())) == [3]
    assert looked_at == [3]
    scene.send(asked(3, 2, log_start_offset=0))
    assert scene.partitions[3].high_watermark.value == 2


async def test_fetch_keeps_the_follower_in_sync_with_unread_partitions(tmp_path):
    scene = Scene(tmp_path)
    scene.now_ms += 10 * LAG_MS
    scene.send()
    for partition in scene.partitions:
        append(partition)
    scene.now_ms += LAG_MS
    assert scene.out_of_sync() == []
    scene.now_ms += 1
    assert scene.out_of_sync() == [0, 1, 2, 3, 4]


async def test_follower_without_fetches_is_out_of_sync_with_growing_partitions(tmp_path):
    scene = Scene(tmp_path)
    scene.now_ms += 10 * LAG_MS
    assert scene.out_of_sync() == []  # the follower has all records
    append(scene.partitions[1])
    assert scene.out_of_sync() == [1]


async def test_fetch_does_not_keep_the_follower_in_sync_with_forgotten_partitions(tmp_path):
    scene = Scene(tmp_path)
    forgotten = FetchRequest.ForgottenTopic(topic="events", partitions=[4])
    scene.send(forgotten_topics_data=[forgotten])
    scene.now_ms += 10 * LAG_MS
    scene.send()
    for partition in scene.partitions:
        append(partition)
    assert scene.out_of_sync() == [4]


async def test_new_broker_epoch_of_the_follower_is_recorded(tmp_path):
    scene = Scene(tmp_path)
    scene.send(replica_epoch=30)
    assert {partition.leader_state.broker_epoch_of(FOLLOWER) for partition in scene.partitions} == {
        30
    }


async def test_new_leader_epoch_is_noticed(tmp_path):
    scene = Scene(tmp_path)
    scene.lead(2, replicas=(BROKER, FOLLOWER), epoch=1)
    scene.send()
    assert scene.partitions[2].leader_state.followers[FOLLOWER].log_end_offset == 1
    scene.lead(2, leader=FOLLOWER, replicas=(BROKER, FOLLOWER), epoch=2)
    assert errors(scene.send()) == ["NOT_LEADER_OR_FOLLOWER"]


async def test_fetch_does_not_keep_the_follower_in_sync_with_partitions_in_error(tmp_path):
    scene = Scene(tmp_path)
    append(scene.partitions[4])
    failing = asked(4, 1, log_start_offset=0, current_leader_epoch=7)
    assert errors(scene.send(failing)) == ["UNKNOWN_LEADER_EPOCH"]
    scene.now_ms += 10 * LAG_MS
    scene.send()
    assert scene.out_of_sync() == [4]


async def test_partition_is_sent_again_after_a_change_of_its_leader_epoch(tmp_path):
    """The follower had the new epoch before the response arrived, and ignored the response."""
    scene = Scene(tmp_path)
    scene.lead(0, epoch=1, replicas=(BROKER, FOLLOWER))
    response = scene.send(asked(0, 1, log_start_offset=0, current_leader_epoch=1))
    assert list(numbers(response)) == [0]
