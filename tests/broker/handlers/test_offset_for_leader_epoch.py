"""OffsetForLeaderEpoch: the end offset of a leader epoch."""

import pytest

from odradek.broker.handlers import offset_for_leader_epoch
from odradek.protocol.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from odradek.protocol.codec import encode
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaStorageError
from tests.support.calls import called
from tests.support.fetches import append
from tests.support.hosted_partitions import BROKER, Hosting

OTHER = 2
Topic = OffsetForLeaderEpochRequest.Topic


def build_request(*epochs, partition=0, current=-1):
    partitions = [
        Topic.Partition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
        for epoch in epochs
    ]
    return OffsetForLeaderEpochRequest(topics=[Topic(topic="events", partitions=partitions)])


def end_offsets(hosting, *epochs, version=4, **fields):
    request = called(build_request(*epochs, **fields), version=version)
    response = offset_for_leader_epoch.handle(hosting.replicas, request)
    assert encode(response, version)
    return [
        (result.leader_epoch, result.end_offset)
        if not result.error_code
        else ErrorCode.for_code(result.error_code).name
        for result in response.topics[0].partitions
    ]


async def test_epoch_ends_where_the_next_starts_and_the_last_at_the_log_end(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(epoch=2)
    append(partition, b"a", b"b")
    hosting.lead(epoch=5)
    append(partition, b"c")
    assert end_offsets(hosting, 0, 2, 3, 5, 6, -1) == [
        (0, 0),
        (2, 2),
        (2, 2),
        (5, 3),
        (-1, -1),
        (-1, -1),
    ]


async def test_only_the_leader_answers_and_the_leader_epoch_is_checked(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(epoch=3)
    hosting.lead(partition=1, leader=OTHER, replicas=(OTHER, BROKER))
    assert end_offsets(hosting, 3, current=2) == ["FENCED_LEADER_EPOCH"]
    assert end_offsets(hosting, 3, current=4) == ["UNKNOWN_LEADER_EPOCH"]
    assert end_offsets(hosting, 0, partition=1) == ["NOT_LEADER_OR_FOLLOWER"]
    assert end_offsets(hosting, 0, partition=2) == ["UNKNOWN_TOPIC_OR_PARTITION"]


@pytest.mark.parametrize("version", range(5))
async def test_request_error_is_returned_for_every_partition(version):
    request = called(build_request(1, 2), version=version)
    response = offset_for_leader_epoch.error_response(request, KafkaStorageError())
    results = response.topics[0].partitions
    assert [(result.error_code, result.end_offset) for result in results] == [(56, -1), (56, -1)]
    assert encode(response, version)
