"""DescribeProducers: the active producers of a partition."""

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


def build_request(*partitions, topic="events"):
    topics = [DescribeProducersRequest.Topic(name=topic, partition_indexes=list(partitions))]
    return DescribeProducersRequest(topics=topics)


def describe(hosting, *partitions, **fields):
    request = called(build_request(*partitions, **fields))
    response = describe_producers.handle(hosting.replicas, SeenCluster(hosting), request)
    assert encode(response, 0)
    return response.topics[0].partitions


def write(partition, *, producer, sequence=0, **fields):
    append(partition, producer_id=producer, producer_epoch=3, base_sequence=sequence, **fields)


async def test_producers_are_returned_with_last_batch_and_open_transaction(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead()
    append(partition)
    write(partition, producer=7)
    write(partition, producer=8, is_transactional=True)
    write(partition, producer=9, is_transactional=True)
    end_transaction(
        partition.log, producer_id=9, producer_epoch=3, commit=True, coordinator_epoch=4
    )
    (partition_response,) = describe(hosting, 0)
    assert partition_response.error_code == 0
    assert [
        (
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in partition_response.active_producers
    ] == [
        (7, 3, 0, NOW_MS, -1, -1),
        (8, 3, 0, NOW_MS, -1, 2),
        (9, 3, 0, NOW_MS, 4, -1),
    ]


async def test_followers_return_producers_too(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(leader=OTHER, replicas=(OTHER, BROKER))
    (partition_response,) = describe(hosting, 0)
    assert (partition_response.error_code, partition_response.active_producers) == (0, [])


async def test_remote_unknown_and_invalid_partitions_return_different_errors(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.known.partitions.add(("events", 0))
    names = [
        ErrorCode.for_code(partition_response.error_code).name
        for partition_response in describe(hosting, 0, 1)
    ]
    assert names == ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION"]
    (partition_response,) = describe(hosting, 0, topic="others")
    assert ErrorCode.for_code(partition_response.error_code).name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert partition_response.error_message
    (partition_response,) = describe(hosting, 0, topic="not/a/name")
    assert ErrorCode.for_code(partition_response.error_code).name == "INVALID_TOPIC_EXCEPTION"


async def test_request_error_is_returned_for_every_partition():
    response = describe_producers.error_response(called(build_request(0, 1)), KafkaStorageError())
    assert [
        partition_response.error_code for partition_response in response.topics[0].partitions
    ] == [56, 56]
    assert encode(response, 0)


@pytest.mark.usefixtures("short_turns")
class TestManyEntries:
    async def test_many_partitions_yield_to_the_event_loop(self, tmp_path):
        hosting = Hosting(tmp_path)
        write(hosting.lead(partition=2 * MANY - 1), producer=7)
        response, slice_count = await self.describe(hosting, *range(2 * MANY))
        *_, partition_response = response.topics[0].partitions
        assert [each.producer_id for each in partition_response.active_producers] == [7]
        assert slice_count > MANY / 2

    async def test_many_unknown_partitions_yield_to_the_event_loop(self, tmp_path):
        response, slice_count = await self.describe(Hosting(tmp_path), *range(2 * MANY))
        assert {
            partition_response.error_code for partition_response in response.topics[0].partitions
        } == {3}
        assert slice_count > MANY / 2

    async def test_many_producers_of_one_partition_yield_to_the_event_loop(self, tmp_path):
        hosting = Hosting(tmp_path)
        partition = hosting.lead()
        for producer in range(2 * MANY):
            write(partition, producer=producer)
        response, slice_count = await self.describe(hosting, 0)
        (partition_response,) = response.topics[0].partitions
        assert [each.producer_id for each in partition_response.active_producers] == [
            *range(2 * MANY)
        ]
        assert slice_count > MANY / 2

    async def describe(self, hosting, *partitions):
        request = called(build_request(*partitions))
        return await in_turns(
            describe_producers.handle(hosting.replicas, SeenCluster(hosting), request)
        )
