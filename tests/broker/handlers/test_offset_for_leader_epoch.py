"""OffsetForLeaderEpoch: where a leader epoch ended."""

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


def request(*epochs, partition=0, current=-1):
    asked = [
        Topic.Partition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
        for epoch in epochs
    ]
    return OffsetForLeaderEpochRequest(topics=[Topic(topic="events", partitions=asked)])


def ends(hosting, *epochs, version=4, **fields):
    call = called(request(*epochs, **fields), version=version)
    response = offset_for_leader_epoch.handle(hosting.replicas, call)
    assert encode(response, version)
    return [
        (line.leader_epoch, line.end_offset)
        if not line.error_code
        else ErrorCode.of(line.error_code).name
        for line in response.topics[0].partitions
    ]


async def test_an_epoch_ends_where_the_next_begins_and_the_last_with_the_log(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(epoch=2)
    append(partition, b"a", b"b")
    hosting.lead(epoch=5)
    append(partition, b"c")
    assert ends(hosting, 0, 2, 3, 5, 6, -1) == [
        (0, 0),
        (2, 2),
        (2, 2),
        (5, 3),
        (-1, -1),
        (-1, -1),
    ]


async def test_only_the_leader_answers_and_only_who_knows_its_epoch(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(epoch=3)
    hosting.lead(partition=1, leader=OTHER, replicas=(OTHER, BROKER))
    assert ends(hosting, 3, current=2) == ["FENCED_LEADER_EPOCH"]
    assert ends(hosting, 3, current=4) == ["UNKNOWN_LEADER_EPOCH"]
    assert ends(hosting, 0, partition=1) == ["NOT_LEADER_OR_FOLLOWER"]
    assert ends(hosting, 0, partition=2) == ["UNKNOWN_TOPIC_OR_PARTITION"]


@pytest.mark.parametrize("version", range(5))
async def test_a_refusal_of_all_reaches_every_line(version):
    call = called(request(1, 2), version=version)
    response = offset_for_leader_epoch.refused(call, KafkaStorageError())
    lines = response.topics[0].partitions
    assert [(line.error_code, line.end_offset) for line in lines] == [(56, -1), (56, -1)]
    assert encode(response, version)
