"""DeleteRecords: logs begin later, and the answer waits until all replicas do."""

import asyncio
import inspect

import pytest

from odradek.broker import turns
from odradek.broker.handlers import delete_records
from odradek.broker.metadata.picture import Node
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


def request(*offsets, topic="events", timeout_ms=60_000):
    """One offset for each partition, from 0 on."""
    asked = [
        Topic.Partition(partition_index=index, offset=offset)
        for index, offset in enumerate(offsets)
    ]
    topics = [Topic(name=topic, partitions=asked)]
    return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def asked_for(hosting, cluster, *offsets, **fields):
    call = called(request(*offsets, **fields))
    return delete_records.handle(hosting.replicas, hosting.logs, cluster, call)


def lines(response):
    assert encode(response, 2)
    return [
        (ErrorCode.of(line.error_code).name, line.low_watermark)
        for line in response.topics[0].partitions
    ]


def filled(hosting, partition=0, **state):
    led = hosting.lead(partition=partition, **state)
    append(led, b"a", b"b")
    append(led, b"c")
    return led


async def test_a_log_begins_at_the_offset_or_at_its_high_watermark(tmp_path):
    hosting = Hosting(tmp_path)
    partitions = [filled(hosting, index) for index in range(3)]
    response = asked_for(hosting, SeenCluster(hosting), 1, -1, 0)
    assert lines(response) == [("NONE", 1), ("NONE", 3), ("NONE", 0)]
    assert [each.log.start_offset for each in partitions] == [1, 3, 0]


async def test_what_was_deleted_before_is_not_deleted_again(tmp_path):
    hosting = Hosting(tmp_path)
    filled(hosting)
    cluster = SeenCluster(hosting)
    asked_for(hosting, cluster, 2)
    assert lines(asked_for(hosting, cluster, 1)) == [("NONE", 2)]


@pytest.mark.parametrize("offset", [4, -2])
async def test_offsets_beyond_the_high_watermark_or_below_zero_are_refused(tmp_path, offset):
    hosting = Hosting(tmp_path)
    partition = filled(hosting)
    response = asked_for(hosting, SeenCluster(hosting), offset)
    assert lines(response) == [("OFFSET_OUT_OF_RANGE", -1)]
    assert partition.log.start_offset == 0


@pytest.mark.parametrize(
    ("policy", "error"),
    [(("compact",), "POLICY_VIOLATION"), (("compact", "delete"), "NONE"), (("delete",), "NONE")],
)
async def test_records_that_only_compaction_removes_stay(tmp_path, policy, error):
    hosting = Hosting(tmp_path, cleanup_policy=policy)
    partition = hosting.lead()
    append(partition, key=b"k")
    assert lines(asked_for(hosting, SeenCluster(hosting), 1))[0][0] == error


async def test_each_partition_succeeds_or_fails_alone(tmp_path):
    hosting = Hosting(tmp_path)
    filled(hosting, 0)
    hosting.lead(partition=1, leader=OTHER, replicas=(OTHER, BROKER))
    response = asked_for(hosting, SeenCluster(hosting), 1, 1, 1)
    assert lines(response) == [
        ("NONE", 1),
        ("NOT_LEADER_OR_FOLLOWER", -1),
        ("UNKNOWN_TOPIC_OR_PARTITION", -1),
    ]


async def test_internal_topics_are_not_for_clients_to_empty(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead("__consumer_offsets")
    response = asked_for(hosting, SeenCluster(hosting), 0, topic="__consumer_offsets")
    assert lines(response) == [("INVALID_TOPIC_EXCEPTION", -1)]


def with_follower(tmp_path):
    hosting = Hosting(tmp_path)
    partition = filled(hosting, replicas=(BROKER, OTHER))
    partition.follower_fetched(OTHER, offset=3, start_offset=0)
    cluster = SeenCluster(hosting)
    cluster.brokers[OTHER] = Node(OTHER, "there", 9092, None)
    return hosting, partition, cluster


async def test_the_answer_waits_until_all_replicas_begin_there(tmp_path):
    hosting, partition, cluster = with_follower(tmp_path)
    waiting = hosting.background.start(in_the_end(asked_for(hosting, cluster, 2)))
    await asyncio.sleep(0)
    assert partition.log.start_offset == 2
    partition.follower_fetched(OTHER, offset=3, start_offset=1)
    await asyncio.sleep(0)
    assert not waiting.done()
    partition.follower_fetched(OTHER, offset=3, start_offset=2)
    assert lines(await waiting) == [("NONE", 2)]
    assert not partition.waiting


async def test_when_the_time_is_over_it_is_told_how_far_they_are(tmp_path):
    hosting, partition, cluster = with_follower(tmp_path)
    response = await asked_for(hosting, cluster, 2, timeout_ms=1)
    assert lines(response) == [("REQUEST_TIMED_OUT", 0)]
    assert not partition.waiting


async def test_brokers_that_are_down_are_not_waited_for(tmp_path):
    hosting, _, cluster = with_follower(tmp_path)
    cluster.brokers.clear()
    assert lines(asked_for(hosting, cluster, 2)) == [("NONE", 2)]


async def test_a_change_of_leader_ends_the_waiting(tmp_path):
    hosting, _, cluster = with_follower(tmp_path)
    waiting = hosting.background.start(in_the_end(asked_for(hosting, cluster, 2)))
    await asyncio.sleep(0)
    hosting.lead(leader=OTHER, replicas=(OTHER, BROKER), epoch=1)
    assert lines(await waiting) == [("NOT_LEADER_OR_FOLLOWER", -1)]


async def test_a_copy_on_its_way_to_another_directory_counts_too(tmp_path):
    hosting = Hosting(tmp_path / "one", tmp_path / "two")
    partition = filled(hosting)
    (target,) = [
        each for each in hosting.logs.directories if each is not partition.hosted.directory
    ]
    hosting.logs.create_future(partition.topic_partition, target, now_ms=NOW_MS)
    waiting = asked_for(hosting, SeenCluster(hosting), 2, timeout_ms=1)
    assert inspect.isawaitable(waiting)
    assert lines(await waiting) == [("REQUEST_TIMED_OUT", 0)]


async def test_a_refusal_of_all_reaches_every_line():
    response = delete_records.refused(called(request(1, 2)), KafkaStorageError())
    assert lines(response) == [("KAFKA_STORAGE_ERROR", -1), ("KAFKA_STORAGE_ERROR", -1)]


async def test_of_many_partitions_it_is_done_in_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    hosting, _, cluster = with_follower(tmp_path)
    asking = asked_for(hosting, cluster, 2, *[0] * (MANY - 1), timeout_ms=1)
    answered, turn_count = await in_turns(asking)
    assert lines(answered)[0] == ("REQUEST_TIMED_OUT", 0)
    assert set(lines(answered)[1:]) == {("UNKNOWN_TOPIC_OR_PARTITION", -1)}
    assert turn_count > MANY / 2
