"""Tests of broker/groups/consumer/group.py and records.py: a group as its records describe it."""

import pytest

from odradek.broker.groups.consumer import records
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.member import (
    ClassicMemberMetadata,
    ClassicProtocol,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    Subscription,
)
from odradek.broker.groups.consumer.records import (
    ResolvedRegularExpression,
    deserialize_record,
    serialize_record,
)
from odradek.protocol.internal import consumer_group_log as log
from tests.support.consumer_group_scene import GROUP, parts, replayed
from tests.support.subscriptions import A, B, partitions

METADATA = MemberMetadata(
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/h",
    subscription=Subscription(frozenset({"a", "b"}), "c.*"),
    rebalance_timeout_ms=5_000,
    assignor="range",
    classic_metadata=ClassicMemberMetadata(10_000, (ClassicProtocol("range", b"\0\1"),)),
)
CURRENT = CurrentAssignment(
    3, 2, MemberState.UNREVOKED_PARTITIONS, partitions(A, 0, 1), partitions(B, 2)
)


def load_group(*group_records):
    return replayed(map(serialize_record, group_records))


def test_all_record_types_survive_a_round_trip():
    group = load_group(
        records.new_group_epoch_record(GROUP, 4, -5),
        records.new_member_subscription_record(GROUP, "m", METADATA),
        records.new_target_assignment_epoch_record(GROUP, 3),
        records.new_target_assignment_record(GROUP, "m", partitions(A, 0, 1)),
        records.new_current_assignment_record(GROUP, "m", CURRENT),
        records.new_regular_expression_record(
            GROUP, "c.*", ResolvedRegularExpression(frozenset({"c1"}), 77)
        ),
    )
    assert (group.epoch, group.metadata_hash, group.assignment_epoch) == (4, -5, 3)
    assert group.members["m"].metadata == METADATA
    assert group.members["m"].current_assignment == CURRENT
    assert group.target_assignment == {"m": partitions(A, 0, 1)}
    assert group.resolved_regexes == {"c.*": ResolvedRegularExpression(frozenset({"c1"}), 77)}
    assert group.static_members == {"i": "m"}
    assert group.partition_owners == dict.fromkeys(CURRENT.held, "m")
    assert group.subscribed_topics() == {"a", "b", "c1"}


def test_subscribed_topics_are_updated_by_each_record():
    group = load_group()
    other = MemberMetadata(subscription=Subscription(frozenset({"b", "d"})))
    resolved = ResolvedRegularExpression(frozenset({"c1"}), 77)
    for record, expected in [
        (records.new_member_subscription_record(GROUP, "m", METADATA), {"a", "b"}),
        (records.new_member_subscription_record(GROUP, "n", other), {"a", "b", "d"}),
        (records.new_regular_expression_record(GROUP, "c.*", resolved), {"a", "b", "c1", "d"}),
        (records.new_member_tombstones(GROUP, "n")[-1], {"a", "b", "c1"}),
        (records.new_regular_expression_record(GROUP, "c.*", None), {"a", "b"}),
    ]:
        group.apply(record)
        assert group.subscribed_topics() == expected


def test_metadata_hash_is_encoded_as_kafka_4_1_does():
    _, value = serialize_record(records.new_group_epoch_record(GROUP, 1, 0x7B1E6BE792088E98))
    assert value == bytes.fromhex("0000000000010100087b1e6be792088e98")
    assert serialize_record(records.new_group_epoch_record(GROUP, 1, 0))[1] == bytes.fromhex(
        "00000000000100"
    )


def test_member_tombstones_remove_the_member():
    group = load_group(
        records.new_member_subscription_record(GROUP, "m", METADATA),
        records.new_target_assignment_record(GROUP, "m", partitions(A, 0)),
        records.new_current_assignment_record(GROUP, "m", CURRENT),
        *records.new_member_tombstones(GROUP, "m"),
    )
    assert parts(group) == parts(ConsumerGroup(GROUP))


def test_group_tombstones_remove_the_group():
    group = load_group(
        records.new_group_epoch_record(GROUP, 4, 5),
        records.new_target_assignment_epoch_record(GROUP, 4),
        records.new_member_subscription_record(GROUP, "m", METADATA),
        records.new_regular_expression_record(
            GROUP, "c.*", ResolvedRegularExpression(frozenset(), 0)
        ),
        *records.new_group_tombstones(GROUP, ["m"], ["c.*"]),
    )
    assert parts(group) == parts(ConsumerGroup(GROUP))


@pytest.mark.parametrize(
    "deletion",
    [
        *records.new_group_tombstones(GROUP, ["m"], ["x"]),
        records.new_partition_metadata_tombstone(GROUP),
    ],
    ids=lambda each: type(each.key).__name__,
)
def test_tombstones_of_unknown_keys_change_nothing(deletion):
    assert parts(load_group(deletion)) == parts(ConsumerGroup(GROUP))


def test_assignment_record_can_precede_the_member_record_in_a_compacted_log():
    group = load_group(
        records.new_current_assignment_record(GROUP, "m", CURRENT),
        records.new_member_subscription_record(GROUP, "m", METADATA),
    )
    assert group.members["m"].current_assignment == CURRENT
    assert group.members["m"].metadata == METADATA


def test_partition_stays_with_its_newer_owner_when_the_older_is_removed():
    group = load_group(
        records.new_current_assignment_record(GROUP, "m1", CURRENT),
        records.new_current_assignment_record(GROUP, "m2", CURRENT),
        *records.new_member_tombstones(GROUP, "m1"),
    )
    assert set(group.partition_owners.values()) == {"m2"}


def test_instance_id_stays_with_its_newer_member_when_the_older_is_removed():
    group = load_group(
        records.new_member_subscription_record(GROUP, "m1", METADATA),
        records.new_member_subscription_record(GROUP, "m2", METADATA),
        *records.new_member_tombstones(GROUP, "m1"),
    )
    assert group.static_members == {"i": "m2"}


def test_partition_metadata_of_brokers_before_4_1_is_noted():
    value = log.ConsumerGroupPartitionMetadataValue(topics=[])
    record = records.CoordinatorRecord(log.ConsumerGroupPartitionMetadataKey(group_id=GROUP), value)
    assert load_group(record).has_partition_metadata
    assert not load_group(
        record, records.new_partition_metadata_tombstone(GROUP)
    ).has_partition_metadata


def test_copy_is_independent():
    group = load_group(records.new_member_subscription_record(GROUP, "m", METADATA))
    before = parts(group.copy())
    copy = group.copy()
    for record in records.new_member_tombstones(GROUP, "m"):
        copy.apply(deserialize_record(*serialize_record(record)))
    assert parts(group) == before
    assert not copy.members
