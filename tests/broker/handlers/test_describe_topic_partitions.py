"""Tests of broker/handlers/describe_topic_partitions.py."""

import pytest
from hypothesis import given
from hypothesis.strategies import dictionaries, integers, sampled_from

from odradek.broker import time_slice
from odradek.broker.handlers import describe_topic_partitions
from odradek.protocol.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidRequest
from odradek.protocol.types import ZERO_UUID
from tests.support.calls import answer, as_sent, called
from tests.support.metadata_updates import OUTSIDE, cluster, state, topic_id, update
from tests.support.turn_counting import MANY, in_turns

Cursor = DescribeTopicPartitionsRequest.Cursor
PARTITIONS_MAX = 2000


def build_request(*names, limit=PARTITIONS_MAX, cursor=None):
    return DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.Topic(name=each) for each in names],
        response_partition_limit=limit,
        cursor=cursor and Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def page(request, *, sizes=None, partitions_max=PARTITIONS_MAX, **options):
    sizes = {"t": 3, "s": 2} if sizes is None else sizes
    metadata_cache = cluster(
        update({name: map(state, range(size)) for name, size in sizes.items()})
    )
    return answer(
        describe_topic_partitions.handle, metadata_cache, partitions_max, request, **options
    )


def partitions_by_topic(response):
    return [
        (topic.name, [each.partition_index for each in topic.partitions])
        for topic in response.topics
    ]


def next_cursor(response):
    cursor = response.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


# Pages


def test_all_topics_are_sorted_by_name():
    response = page(build_request())
    assert partitions_by_topic(response) == [("s", [0, 1]), ("t", [0, 1, 2])]
    assert next_cursor(response) is None


def test_requested_topics_are_sorted_and_deduplicated():
    assert partitions_by_topic(page(build_request("t", "s", "t"))) == [
        ("s", [0, 1]),
        ("t", [0, 1, 2]),
    ]


@pytest.mark.parametrize(
    ("limit", "topics", "cursor"),
    [
        (1, [("s", [0])], ("s", 1)),
        (2, [("s", [0, 1])], ("t", 0)),
        (3, [("s", [0, 1]), ("t", [0])], ("t", 1)),
        (5, [("s", [0, 1]), ("t", [0, 1, 2])], None),
        (0, [("s", [0])], ("s", 1)),
        (-1, [("s", [0])], ("s", 1)),
    ],
)
def test_page_holds_at_most_the_limit_and_at_least_one_partition(limit, topics, cursor):
    response = page(build_request(limit=limit))
    assert partitions_by_topic(response) == topics
    assert next_cursor(response) == cursor


def test_broker_limit_caps_the_page():
    assert next_cursor(page(build_request(limit=5), partitions_max=3)) == ("t", 1)


def test_next_page_starts_at_the_cursor():
    assert partitions_by_topic(page(build_request(cursor=("s", 1)))) == [
        ("s", [1]),
        ("t", [0, 1, 2]),
    ]
    assert partitions_by_topic(page(build_request(cursor=("t", 2)))) == [("t", [2])]
    assert partitions_by_topic(page(build_request("s", "t", cursor=("t", 1)))) == [("t", [1, 2])]


def test_cursor_beyond_the_last_partition_returns_no_partitions():
    assert partitions_by_topic(page(build_request(cursor=("s", 9)))) == [
        ("s", []),
        ("t", [0, 1, 2]),
    ]


def test_topic_of_the_cursor_may_be_deleted():
    assert partitions_by_topic(page(build_request(cursor=("sss", 1)))) == [("t", [0, 1, 2])]


@given(dictionaries(sampled_from("abcd"), integers(1, 5)), integers(1, 7))
def test_all_pages_together_return_each_partition_once(sizes, limit):
    cursor, collected = None, []
    while True:
        response = page(build_request(limit=limit, cursor=cursor), sizes=sizes)
        collected += [
            (name, number) for name, numbers in partitions_by_topic(response) for number in numbers
        ]
        cursor = next_cursor(response)
        if cursor is None:
            break
    assert collected == [(name, number) for name in sorted(sizes) for number in range(sizes[name])]


# Topics


def test_topic_is_returned_with_its_partition_state():
    metadata_cache = cluster(update({"t": [state(leader=-1, isr=[1], offline=[2])]}))
    response = answer(
        describe_topic_partitions.handle, metadata_cache, PARTITIONS_MAX, build_request("t")
    )
    (topic,) = response.topics
    assert (topic.error_code, topic.topic_id, topic.is_internal) == (0, topic_id("t"), False)
    assert topic.topic_authorized_operations == 3576
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, -1, 5)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1, 2], [1])
    assert partition.offline_replicas == [2]
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


def test_leader_without_the_clients_listener_is_minus_1():
    response = page(build_request("s"), listener=OUTSIDE)
    assert {each.leader_id for each in response.topics[0].partitions} == {-1}


def test_internal_topic_is_flagged():
    assert page(build_request(), sizes={"__consumer_offsets": 1}).topics[0].is_internal


def test_unknown_and_invalid_topics_return_errors():
    response = page(build_request("t", "x", "a b"))
    assert [(each.name, ErrorCode.for_code(each.error_code).name) for each in response.topics] == [
        ("a b", "INVALID_TOPIC_EXCEPTION"),
        ("t", "NONE"),
        ("x", "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    assert response.topics[2].topic_authorized_operations == 3576


# Errors


@pytest.mark.parametrize("cursor", [("s", 0), ("t", -1)])
def test_cursor_must_name_a_requested_topic_and_a_valid_partition(cursor):
    with pytest.raises(InvalidRequest):
        page(build_request("t", "u", cursor=cursor))


def test_request_error_is_returned_for_every_topic():
    request = called(build_request("t", "u"))
    error = describe_topic_partitions.error_response(request, InvalidRequest())
    response = as_sent(error, version=0)
    assert [(each.name, each.error_code, each.topic_id) for each in response.topics] == [
        ("t", ErrorCode.INVALID_REQUEST.code, ZERO_UUID),
        ("u", ErrorCode.INVALID_REQUEST.code, ZERO_UUID),
    ]


async def test_many_partitions_yield_to_the_event_loop(monkeypatch):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    metadata_cache = cluster(update({"s": [state()], "t": map(state, range(MANY))}))
    pending = describe_topic_partitions.handle(
        metadata_cache, PARTITIONS_MAX, called(build_request())
    )
    response, slice_count = await in_turns(pending)
    assert partitions_by_topic(response) == [("s", [0]), ("t", list(range(MANY)))]
    assert slice_count > MANY / 2
