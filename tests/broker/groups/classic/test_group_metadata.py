"""The metadata of a classic group: conversion to and from records."""

import pytest

from odradek.broker.groups.classic.group_metadata import GroupMetadata
from odradek.broker.groups.classic.state import ClassicGroupState
from odradek.broker.groups.classic.subscriptions import subscribed_topics
from odradek.broker.groups.records import group_value, read_group_value
from odradek.protocol.internal.coordinator_record import encode_version_prefixed
from odradek.protocol.internal.group_log import GroupMetadataValue
from tests.support.group_scene import subscription


def record_value(*members, protocol="range", leader="a", **fields):
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol=protocol,
        leader=leader,
        current_state_timestamp=77,
        members=[
            GroupMetadataValue.MemberMetadata(
                member_id=each,
                group_instance_id=f"static-{each}",
                client_id="c",
                client_host="/h",
                rebalance_timeout=9,
                session_timeout=8,
                subscription=subscription("events"),
                assignment=each.encode(),
            )
            for each in members
        ],
        **fields,
    )


def test_metadata_survives_a_round_trip():
    value = record_value("a", "b")
    metadata = GroupMetadata.from_record_value(value)
    assert metadata.to_record_value() == value
    assert read_group_value(group_value(value)) == value
    assert (metadata.state, metadata.leader, metadata.generation) == (
        ClassicGroupState.STABLE,
        "a",
        3,
    )
    assert metadata.static_members == {"static-a": "a", "static-b": "b"}
    assert metadata.subscribed_topics == {"events"}


def test_group_without_members_is_empty():
    metadata = GroupMetadata.from_record_value(record_value(protocol=None, leader=None))
    assert (metadata.state, metadata.leader, metadata.subscribed_topics) == (
        ClassicGroupState.EMPTY,
        None,
        frozenset(),
    )
    assert metadata.current_state_timestamp_ms == 77


@pytest.mark.parametrize("version", range(5))
def test_all_record_versions_are_read(version):
    metadata = GroupMetadata.from_record_value(
        read_group_value(encode_version_prefixed(record_value("a"), version))
    )
    (member,) = metadata.members.values()
    assert member.timeouts == ((8, 8) if version == 0 else (8, 9))
    assert member.instance_id == ("static-a" if version >= 3 else None)
    assert metadata.current_state_timestamp_ms == (77 if version >= 2 else -1)


def test_group_stored_without_a_leader_has_none():
    assert GroupMetadata.from_record_value(record_value("a", "b", leader=None)).leader is None


def test_subscribed_topics_are_the_union_of_all_members():
    subscriptions = [subscription("a", "b"), subscription("b", "c")]
    assert subscribed_topics(subscriptions) == {"a", "b", "c"}
    assert subscribed_topics([*subscriptions, b"\0"]) is None
    newer = b"\0\3" + subscription("d")[2:] + b"whatever else"
    assert subscribed_topics([newer]) == {"d"}
