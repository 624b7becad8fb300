"""DescribeProducers: who has written to a partition."""

import pytest

from odradek.broker.handlers import describe_producers
from odradek.protocol.api.describe_producers import DescribeProducersRequest
from odradek.protocol.codec import encode
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaStorageError
from tests.support.calls import called
from tests.support.fetches import SeenCluster, append
from tests.support.hosted_partitions import BROKER, Hosting
from tests.support.logs import NOW_MS, end_transaction
from tests.support.turn_counting import MANY, in_turns

OTHER = 2


def request(*partitions, topic="events"):
    topics = [DescribeProducersRequest.Topic(name=topic, partition_indexes=list(partitions))]
    return DescribeProducersRequest(topics=topics)


def described(hosting, *partitions, **fields):
    call = called(request(*partitions, **fields))
    response = describe_producers.handle(hosting.replicas, SeenCluster(hosting), call)
    assert encode(response, 0)
    return response.topics[0].partitions


def write(partition, *, producer, sequence=0, **fields):
    append(partition, producer_id=producer, producer_epoch=3, base_sequence=sequence, **fields)


async def test_producers_are_told_with_their_last_batch_and_open_transaction(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead()
    append(partition)
    write(partition, producer=7)
    write(partition, producer=8, is_transactional=True)
    write(partition, producer=9, is_transactional=True)
    end_transaction(
        partition.log, producer_id=9, producer_epoch=3, commit=True, coordinator_epoch=4
    )
    (line,) = described(hosting, 0)
    assert line.error_code == 0
    assert [
        (
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in line.active_producers
    ] == [
        (7, 3, 0, NOW_MS, -1, -1),
        (8, 3, 0, NOW_MS, -1, 2),
        (9, 3, 0, NOW_MS, 4, -1),
    ]


async def test_followers_answer_too(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(leader=OTHER, replicas=(OTHER, BROKER))
    (line,) = described(hosting, 0)
    assert (line.error_code, line.active_producers) == (0, [])


async def test_what_is_not_here_is_told_apart(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.known.partitions.add(("events", 0))
    names = [ErrorCode.of(line.error_code).name for line in described(hosting, 0, 1)]
    assert names == ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION"]
    (line,) = described(hosting, 0, topic="others")
    assert ErrorCode.of(line.error_code).name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert line.error_message
    (line,) = described(hosting, 0, topic="not/a/name")
    assert ErrorCode.of(line.error_code).name == "INVALID_TOPIC_EXCEPTION"


async def test_a_refusal_of_all_reaches_every_line():
    response = describe_producers.refused(called(request(0, 1)), KafkaStorageError())
    assert [line.error_code for line in response.topics[0].partitions] == [56, 56]
    assert encode(response, 0)


@pytest.mark.usefixtures("short_turns")
class TestMany:
    async def test_partitions_are_described_in_turns(self, tmp_path):
        hosting = Hosting(tmp_path)
        write(hosting.lead(partition=2 * MANY - 1), producer=7)
        answered, turn_count = await self.answered(hosting, *range(2 * MANY))
        *_, line = answered.topics[0].partitions
        assert [each.producer_id for each in line.active_producers] == [7]
        assert turn_count > MANY / 2

    async def test_partitions_of_no_topic_as_well(self, tmp_path):
        answered, turn_count = await self.answered(Hosting(tmp_path), *range(2 * MANY))
        assert {line.error_code for line in answered.topics[0].partitions} == {3}
        assert turn_count > MANY / 2

    async def test_producers_of_one_partition_too(self, tmp_path):
        hosting = Hosting(tmp_path)
        partition = hosting.lead()
        for producer in range(2 * MANY):
            write(partition, producer=producer)
        answered, turn_count = await self.answered(hosting, 0)
        (line,) = answered.topics[0].partitions
        assert [each.producer_id for each in line.active_producers] == [*range(2 * MANY)]
        assert turn_count > MANY / 2

    async def answered(self, hosting, *partitions):
        call = called(request(*partitions))
        return await in_turns(
            describe_producers.handle(hosting.replicas, SeenCluster(hosting), call)
        )
