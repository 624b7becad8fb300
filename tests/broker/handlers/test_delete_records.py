"""DeleteRecords: the log start offset advances, and the response waits for all replicas."""

import asyncio
import inspect

import pytest

from odradek.broker import time_slice
from odradek.broker.handlers import delete_records
from odradek.broker.metadata.metadata_snapshot import Node
from odradek.protocol.api.delete_records import DeleteRecordsRequest
from odradek.protocol.codec import encode
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaStorageError
from tests.support.calls import called, in_the_end
from tests.support.fetches import SeenCluster, append
from tests.support.hosted_partitions import BROKER, Hosting
from tests.support.logs import NOW_MS
from tests.support.turn_counting import MANY, in_turns

OTHER = 2
Topic = DeleteRecordsRequest.Topic


def build_request(*offsets, topic="events", timeout_ms=60_000):
    """Give one offset for each partition, from partition 0 on."""
    partitions = [
        Topic.Partition(partition_index=index, offset=offset)
        for index, offset in enumerate(offsets)
    ]
    topics = [Topic(name=topic, partitions=partitions)]
    return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def send(hosting, cluster, *offsets, **fields):
    request = called(build_request(*offsets, **fields))
    return delete_records.handle(hosting.replicas, hosting.logs, cluster, request)


def results(response):
    assert encode(response, 2)
    return [
        (ErrorCode.for_code(partition.error_code).name, partition.low_watermark)
        for partition in response.topics[0].partitions
    ]


def lead_filled(hosting, partition=0, **state):
    leader = hosting.lead(partition=partition, **state)
    append(leader, b"a", b"b")
    append(leader, b"c")
    return leader


async def test_log_starts_at_the_offset_or_at_the_high_watermark(tmp_path):
    hosting = Hosting(tmp_path)
    partitions = [lead_filled(hosting, index) for index in range(3)]
    response = send(hosting, SeenCluster(hosting), 1, -1, 0)
    assert results(response) == [("NONE", 1), ("NONE", 3), ("NONE", 0)]
    assert [each.log.log_start_offset for each in partitions] == [1, 3, 0]


async def test_records_that_are_already_deleted_are_not_deleted_again(tmp_path):
    hosting = Hosting(tmp_path)
    lead_filled(hosting)
    cluster = SeenCluster(hosting)
    send(hosting, cluster, 2)
    assert results(send(hosting, cluster, 1)) == [("NONE", 2)]


@pytest.mark.parametrize("offset", [4, -2])
async def test_offset_beyond_the_high_watermark_or_below_minus_1_is_rejected(tmp_path, offset):
    hosting = Hosting(tmp_path)
    partition = lead_filled(hosting)
    response = send(hosting, SeenCluster(hosting), offset)
    assert results(response) == [("OFFSET_OUT_OF_RANGE", -1)]
    assert partition.log.log_start_offset == 0


@pytest.mark.parametrize(
    ("policy", "error"),
    [(("compact",), "POLICY_VIOLATION"), (("compact", "delete"), "NONE"), (("delete",), "NONE")],
)
async def test_records_of_a_compact_only_topic_are_not_deleted(tmp_path, policy, error):
    hosting = Hosting(tmp_path, cleanup_policy=policy)
    partition = hosting.lead()
    append(partition, key=b"k")
    assert results(send(hosting, SeenCluster(hosting), 1))[0][0] == error


async def test_each_partition_succeeds_or_fails_independently(tmp_path):
    hosting = Hosting(tmp_path)
    lead_filled(hosting, 0)
    hosting.lead(partition=1, leader=OTHER, replicas=(OTHER, BROKER))
    response = send(hosting, SeenCluster(hosting), 1, 1, 1)
    assert results(response) == [
        ("NONE", 1),
        ("NOT_LEADER_OR_FOLLOWER", -1),
        ("UNKNOWN_TOPIC_OR_PARTITION", -1),
    ]


async def test_records_of_internal_topics_cannot_be_deleted(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead("__consumer_offsets")
    response = send(hosting, SeenCluster(hosting), 0, topic="__consumer_offsets")
    assert results(response) == [("INVALID_TOPIC_EXCEPTION", -1)]


def with_follower(tmp_path):
    hosting = Hosting(tmp_path)
    partition = lead_filled(hosting, replicas=(BROKER, OTHER))
    partition.update_follower_fetch_state(OTHER, fetch_offset=3, follower_start_offset=0)
    cluster = SeenCluster(hosting)
    cluster.brokers[OTHER] = Node(OTHER, "there", 9092, None)
    return hosting, partition, cluster


async def test_response_waits_until_all_replicas_start_at_the_offset(tmp_path):
    hosting, partition, cluster = with_follower(tmp_path)
    waiting = hosting.background.start(in_the_end(send(hosting, cluster, 2)))
    await asyncio.sleep(0)
    assert partition.log.log_start_offset == 2
    partition.update_follower_fetch_state(OTHER, fetch_offset=3, follower_start_offset=1)
    await asyncio.sleep(0)
    assert not waiting.done()
    partition.update_follower_fetch_state(OTHER, fetch_offset=3, follower_start_offset=2)
    assert results(await waiting) == [("NONE", 2)]
    assert not partition.fetch_watchers


async def test_timeout_returns_the_low_watermark_of_the_replicas(tmp_path):
    hosting, partition, cluster = with_follower(tmp_path)
    response = await send(hosting, cluster, 2, timeout_ms=1)
    assert results(response) == [("REQUEST_TIMED_OUT", 0)]
    assert not partition.fetch_watchers


async def test_replicas_on_dead_brokers_are_not_waited_for(tmp_path):
    hosting, _, cluster = with_follower(tmp_path)
    cluster.brokers.clear()
    assert results(send(hosting, cluster, 2)) == [("NONE", 2)]


async def test_leader_change_completes_the_wait_with_an_error(tmp_path):
    hosting, _, cluster = with_follower(tmp_path)
    waiting = hosting.background.start(in_the_end(send(hosting, cluster, 2)))
    await asyncio.sleep(0)
    hosting.lead(leader=OTHER, replicas=(OTHER, BROKER), epoch=1)
    assert results(await waiting) == [("NOT_LEADER_OR_FOLLOWER", -1)]


async def test_future_log_counts_as_a_replica(tmp_path):
    hosting = Hosting(tmp_path / "one", tmp_path / "two")
    partition = lead_filled(hosting)
    (target,) = [
        each for each in hosting.logs.directories if each is not partition.hosted_log.directory
    ]
    hosting.logs.create_future(partition.topic_partition, target, now_ms=NOW_MS)
    waiting = send(hosting, SeenCluster(hosting), 2, timeout_ms=1)
    assert inspect.isawaitable(waiting)
    assert results(await waiting) == [("REQUEST_TIMED_OUT", 0)]


async def test_request_error_is_returned_for_every_partition():
    response = delete_records.error_response(called(build_request(1, 2)), KafkaStorageError())
    assert results(response) == [("KAFKA_STORAGE_ERROR", -1), ("KAFKA_STORAGE_ERROR", -1)]


async def test_many_partitions_yield_to_the_event_loop(tmp_path, monkeypatch):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    hosting, _, cluster = with_follower(tmp_path)
    pending = send(hosting, cluster, 2, *[0] * (MANY - 1), timeout_ms=1)
    response, slice_count = await in_turns(pending)
    assert results(response)[0] == ("REQUEST_TIMED_OUT", 0)
    assert set(results(response)[1:]) == {("UNKNOWN_TOPIC_OR_PARTITION", -1)}
    assert slice_count > MANY / 2
