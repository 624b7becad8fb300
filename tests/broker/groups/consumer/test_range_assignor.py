"""Tests of broker/groups/consumer/range_assignor.py."""

from odradek.broker.groups.consumer.range_assignor import assign
from tests.support.subscriptions import A, B, partitions, subscriber


def test_each_topic_is_split_into_consecutive_ranges():
    assert assign({"m0": subscriber(A), "m1": subscriber(A)}, {A: 5}) == {
        "m0": partitions(A, 0, 1, 2),
        "m1": partitions(A, 3, 4),
    }


def test_topics_with_the_same_partition_count_are_split_alike():
    members = {"m0": subscriber(A, B), "m1": subscriber(A, B)}
    assert assign(members, {A: 2, B: 2}) == {
        "m0": partitions(A, 0) | partitions(B, 0),
        "m1": partitions(A, 1) | partitions(B, 1),
    }


def test_static_members_are_ordered_by_instance_id():
    members = {
        "x": subscriber(A, instance_id="i2"),
        "y": subscriber(A, instance_id="i1"),
        "a": subscriber(A),
    }
    assert assign(members, {A: 3}) == {
        "y": partitions(A, 0),
        "x": partitions(A, 1),
        "a": partitions(A, 2),
    }


def test_only_subscribers_get_partitions_of_a_topic():
    assert assign({"m0": subscriber(A), "m1": subscriber(A, B)}, {A: 2, B: 2}) == {
        "m0": partitions(A, 0),
        "m1": partitions(A, 1) | partitions(B, 0, 1),
    }


def test_surplus_members_get_no_partitions():
    members = {f"m{number}": subscriber(A) for number in range(3)}
    assert assign(members, {A: 1})["m2"] == frozenset()


def test_empty_groups_and_subscriptions_get_empty_assignments():
    assert assign({}, {}) == {}
    assert assign({"m0": subscriber()}, {}) == {"m0": frozenset()}
