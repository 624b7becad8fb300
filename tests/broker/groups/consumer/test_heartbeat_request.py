"""Tests of broker/groups/consumer/heartbeat_request.py."""

import pytest

from odradek.broker.groups.consumer.assignors import Assignors
from odradek.broker.groups.consumer.heartbeat_request import (
    check_request,
    heartbeat_of,
    is_leaving,
)
from odradek.protocol.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.errors import InvalidRequest, UnsupportedAssignor
from tests.support.subscriptions import A, partitions


def request(**said):
    joining = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 5_000,
        "subscribed_topic_names": ["a"],
        "topic_partitions": [],
    }
    return ConsumerGroupHeartbeatRequest(**joining | said)


def checked(*, version=1, **said):
    check_request(request(**said), version=version, assignors=Assignors())


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"subscribed_topic_names": []},
        {"subscribed_topic_names": None, "subscribed_topic_regex": "a"},
        {"server_assignor": "range"},
        {"member_epoch": 1, "rebalance_timeout_ms": -1, "topic_partitions": None},
        {"member_epoch": -1, "topic_partitions": None},
        {"member_epoch": -2, "instance_id": "i"},
        {"member_id": "", "version": 0},
    ],
)
def test_these_make_sense(said):
    checked(**said)


@pytest.mark.parametrize(
    "said",
    [
        {"group_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"member_id": ""},
        {"member_id": "", "member_epoch": 1, "version": 0},
        {"member_epoch": -3},
        {"member_epoch": -2},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"subscribed_topic_names": None},
    ],
)
def test_these_make_none(said):
    with pytest.raises(InvalidRequest):
        checked(**said)


def test_who_joins_owns_nothing():
    owned = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=A, partitions=[0])
    with pytest.raises(InvalidRequest):
        checked(topic_partitions=[owned])


def test_an_assignor_that_there_is_not_is_refused():
    with pytest.raises(UnsupportedAssignor, match="none of uniform, range"):
        checked(server_assignor="sticky")


def test_what_is_not_said_is_none():
    beat = heartbeat_of(
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3),
        member_id="m",
        client_id="c",
        client_host="h",
    )
    assert (beat.names, beat.owned, beat.rebalance_timeout_ms, beat.expression) == (None,) * 4
    assert not beat.is_full


def test_what_is_owned_is_a_set_of_partitions():
    owned = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=A, partitions=[0, 2])
    beat = heartbeat_of(
        request(topic_partitions=[owned]), member_id="m", client_id="c", client_host="h"
    )
    assert beat.owned == partitions(A, 0, 2)


def test_minus_one_and_minus_two_leave():
    assert [is_leaving(request(member_epoch=each)) for each in (-2, -1, 0, 1)] == [
        True,
        True,
        False,
        False,
    ]
