"""Tests of broker/groups/consumer/heartbeat_request.py."""

import pytest

from odradek.broker.groups.consumer.assignors import Assignors
from odradek.broker.groups.consumer.heartbeat_request import (
    check_request,
    is_leaving,
    parse_heartbeat,
)
from odradek.protocol.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.errors import InvalidRequest, UnsupportedAssignor
from tests.support.subscriptions import A, partitions


def request(**fields):
    joining = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 5_000,
        "subscribed_topic_names": ["a"],
        "topic_partitions": [],
    }
    return ConsumerGroupHeartbeatRequest(**joining | fields)


def check(*, version=1, **fields):
    check_request(request(**fields), version=version, assignors=Assignors())


@pytest.mark.parametrize(
    "fields",
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
def test_valid_requests_are_accepted(fields):
    check(**fields)


@pytest.mark.parametrize(
    "fields",
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
def test_invalid_requests_are_rejected(fields):
    with pytest.raises(InvalidRequest):
        check(**fields)


def test_joining_member_must_not_own_partitions():
    owned = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=A, partitions=[0])
    with pytest.raises(InvalidRequest):
        check(topic_partitions=[owned])


def test_unknown_assignor_is_rejected():
    with pytest.raises(UnsupportedAssignor, match="Supported assignors: uniform, range"):
        check(server_assignor="sticky")


def test_missing_fields_are_none():
    heartbeat = parse_heartbeat(
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3),
        member_id="m",
        client_id="c",
        client_host="h",
    )
    assert (
        heartbeat.subscribed_topic_names,
        heartbeat.owned_partitions,
        heartbeat.rebalance_timeout_ms,
        heartbeat.subscribed_topic_regex,
    ) == (None,) * 4
    assert not heartbeat.is_full_request


def test_owned_partitions_are_parsed_as_a_set():
    owned = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=A, partitions=[0, 2])
    heartbeat = parse_heartbeat(
        request(topic_partitions=[owned]), member_id="m", client_id="c", client_host="h"
    )
    assert heartbeat.owned_partitions == partitions(A, 0, 2)


def test_epochs_minus_one_and_minus_two_mean_leaving():
    assert [is_leaving(request(member_epoch=each)) for each in (-2, -1, 0, 1)] == [
        True,
        True,
        False,
        False,
    ]
