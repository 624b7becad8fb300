"""Tests of broker/handlers/describe_topic_partitions.py."""

import pytest
from hypothesis import given
from hypothesis.strategies import dictionaries, integers, sampled_from

from odradek.broker import turns
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


def asked(*names, limit=PARTITIONS_MAX, cursor=None):
    return DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.Topic(name=each) for each in names],
        response_partition_limit=limit,
        cursor=cursor and Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def page(request, *, sizes=None, partitions_max=PARTITIONS_MAX, **options):
    sizes = {"t": 3, "s": 2} if sizes is None else sizes
    known = cluster(update({name: map(state, range(size)) for name, size in sizes.items()}))
    return answer(describe_topic_partitions.handle, known, partitions_max, request, **options)


def shown(answered):
    return [
        (topic.name, [each.partition_index for each in topic.partitions])
        for topic in answered.topics
    ]


def next_cursor(answered):
    cursor = answered.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


# Pages


def test_all_topics_are_in_the_order_of_their_names():
    answered = page(asked())
    assert shown(answered) == [("s", [0, 1]), ("t", [0, 1, 2])]
    assert next_cursor(answered) is None


def test_topics_that_are_named_are_in_that_order_too_and_once():
    assert shown(page(asked("t", "s", "t"))) == [("s", [0, 1]), ("t", [0, 1, 2])]


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
def test_a_page_has_no_more_partitions_than_it_may_but_at_least_one(limit, topics, cursor):
    answered = page(asked(limit=limit))
    assert shown(answered) == topics
    assert next_cursor(answered) == cursor


def test_this_broker_has_a_limit_of_its_own():
    assert next_cursor(page(asked(limit=5), partitions_max=3)) == ("t", 1)


def test_the_next_page_begins_at_the_cursor():
    assert shown(page(asked(cursor=("s", 1)))) == [("s", [1]), ("t", [0, 1, 2])]
    assert shown(page(asked(cursor=("t", 2)))) == [("t", [2])]
    assert shown(page(asked("s", "t", cursor=("t", 1)))) == [("t", [1, 2])]


def test_a_cursor_behind_the_last_partition_leaves_none():
    assert shown(page(asked(cursor=("s", 9)))) == [("s", []), ("t", [0, 1, 2])]


def test_the_topic_of_the_cursor_may_be_gone_by_now():
    assert shown(page(asked(cursor=("sss", 1)))) == [("t", [0, 1, 2])]


@given(dictionaries(sampled_from("abcd"), integers(1, 5)), integers(1, 7))
def test_all_pages_together_show_everything_once(sizes, limit):
    cursor, seen = None, []
    while True:
        answered = page(asked(limit=limit, cursor=cursor), sizes=sizes)
        seen += [(name, number) for name, numbers in shown(answered) for number in numbers]
        cursor = next_cursor(answered)
        if cursor is None:
            break
    assert seen == [(name, number) for name in sorted(sizes) for number in range(sizes[name])]


# Topics


def test_a_topic_is_shown_as_it_is():
    known = cluster(update({"t": [state(leader=-1, isr=[1], offline=[2])]}))
    answered = answer(describe_topic_partitions.handle, known, PARTITIONS_MAX, asked("t"))
    (topic,) = answered.topics
    assert (topic.error_code, topic.topic_id, topic.is_internal) == (0, topic_id("t"), False)
    assert topic.topic_authorized_operations == 3576
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, -1, 5)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1, 2], [1])
    assert partition.offline_replicas == [2]
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


def test_a_leader_without_the_clients_listener_is_none():
    answered = page(asked("s"), listener=OUTSIDE)
    assert {each.leader_id for each in answered.topics[0].partitions} == {-1}


def test_internal_topics_are():
    assert page(asked(), sizes={"__consumer_offsets": 1}).topics[0].is_internal


def test_a_topic_that_is_not_there_is_told_so():
    answered = page(asked("t", "x", "a b"))
    assert [(each.name, ErrorCode.of(each.error_code).name) for each in answered.topics] == [
        ("a b", "INVALID_TOPIC_EXCEPTION"),
        ("t", "NONE"),
        ("x", "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    assert answered.topics[2].topic_authorized_operations == 3576


# Refusals


@pytest.mark.parametrize("cursor", [("s", 0), ("t", -1)])
def test_a_cursor_must_be_of_a_topic_that_is_asked_for_and_of_a_partition(cursor):
    with pytest.raises(InvalidRequest):
        page(asked("t", "u", cursor=cursor))


def test_all_topics_are_refused_together():
    call = called(asked("t", "u"))
    refusal = describe_topic_partitions.refused(call, InvalidRequest())
    answered = as_sent(refusal, version=0)
    assert [(each.name, each.error_code, each.topic_id) for each in answered.topics] == [
        ("t", ErrorCode.INVALID_REQUEST.code, ZERO_UUID),
        ("u", ErrorCode.INVALID_REQUEST.code, ZERO_UUID),
    ]


async def test_of_many_partitions_it_is_answered_in_turns(monkeypatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    known = cluster(update({"s": [state()], "t": map(state, range(MANY))}))
    answering = describe_topic_partitions.handle(known, PARTITIONS_MAX, called(asked()))
    answered, turn_count = await in_turns(answering)
    assert shown(answered) == [("s", [0]), ("t", list(range(MANY)))]
    assert turn_count > MANY / 2
