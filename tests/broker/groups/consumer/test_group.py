"""Tests of broker/groups/consumer/group.py and records.py: what the log says of a group."""

import pytest

from odradek.broker.groups.consumer import records
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.member import (
    ClassicMember,
    ClassicProtocol,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    Subscription,
)
from odradek.broker.groups.consumer.records import Resolved, as_stored, from_stored
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
    classic=ClassicMember(10_000, (ClassicProtocol("range", b"\0\1"),)),
)
CURRENT = CurrentAssignment(
    3, 2, MemberState.UNREVOKED_PARTITIONS, partitions(A, 0, 1), partitions(B, 2)
)


def loaded(*written):
    return replayed(map(as_stored, written))


def test_every_kind_of_record_is_read_as_it_was_written():
    group = loaded(
        records.group_epoch(GROUP, 4, -5),
        records.member_metadata(GROUP, "m", METADATA),
        records.target_epoch(GROUP, 3),
        records.target_member(GROUP, "m", partitions(A, 0, 1)),
        records.current_assignment(GROUP, "m", CURRENT),
        records.expression(GROUP, "c.*", Resolved(frozenset({"c1"}), 77)),
    )
    assert (group.epoch, group.metadata_hash, group.assignment_epoch) == (4, -5, 3)
    assert group.members["m"].metadata == METADATA
    assert group.members["m"].current == CURRENT
    assert group.target == {"m": partitions(A, 0, 1)}
    assert group.expressions == {"c.*": Resolved(frozenset({"c1"}), 77)}
    assert group.static_members == {"i": "m"}
    assert group.holders == dict.fromkeys(CURRENT.held, "m")
    assert group.subscribed_topics() == {"a", "b", "c1"}


def test_what_is_subscribed_to_is_known_after_each_record():
    group = loaded()
    other = MemberMetadata(subscription=Subscription(frozenset({"b", "d"})))
    resolved = Resolved(frozenset({"c1"}), 77)
    for record, expected in [
        (records.member_metadata(GROUP, "m", METADATA), {"a", "b"}),
        (records.member_metadata(GROUP, "n", other), {"a", "b", "d"}),
        (records.expression(GROUP, "c.*", resolved), {"a", "b", "c1", "d"}),
        (records.without_member(GROUP, "n")[-1], {"a", "b", "c1"}),
        (records.expression(GROUP, "c.*", None), {"a", "b"}),
    ]:
        group.apply(record)
        assert group.subscribed_topics() == expected


def test_the_hash_is_where_kafka_4_1_has_it():
    _, value = as_stored(records.group_epoch(GROUP, 1, 0x7B1E6BE792088E98))
    assert value == bytes.fromhex("0000000000010100087b1e6be792088e98")
    assert as_stored(records.group_epoch(GROUP, 1, 0))[1] == bytes.fromhex("00000000000100")


def test_deleting_a_member_leaves_nothing_of_it():
    group = loaded(
        records.member_metadata(GROUP, "m", METADATA),
        records.target_member(GROUP, "m", partitions(A, 0)),
        records.current_assignment(GROUP, "m", CURRENT),
        *records.without_member(GROUP, "m"),
    )
    assert parts(group) == parts(ConsumerGroup(GROUP))


def test_deleting_a_group_leaves_nothing_of_it():
    group = loaded(
        records.group_epoch(GROUP, 4, 5),
        records.target_epoch(GROUP, 4),
        records.member_metadata(GROUP, "m", METADATA),
        records.expression(GROUP, "c.*", Resolved(frozenset(), 0)),
        *records.without_group(GROUP, ["m"], ["c.*"]),
    )
    assert parts(group) == parts(ConsumerGroup(GROUP))


@pytest.mark.parametrize(
    "deletion",
    [
        *records.without_group(GROUP, ["m"], ["x"]),
        records.without_partition_metadata(GROUP),
    ],
    ids=lambda each: type(each.key).__name__,
)
def test_deletions_of_what_is_not_there_change_nothing(deletion):
    assert parts(loaded(deletion)) == parts(ConsumerGroup(GROUP))


def test_a_compacted_log_may_tell_of_what_a_member_has_before_it_tells_of_the_member():
    group = loaded(
        records.current_assignment(GROUP, "m", CURRENT),
        records.member_metadata(GROUP, "m", METADATA),
    )
    assert group.members["m"].current == CURRENT
    assert group.members["m"].metadata == METADATA


def test_a_partition_that_another_holds_by_now_stays_with_that_one():
    group = loaded(
        records.current_assignment(GROUP, "m1", CURRENT),
        records.current_assignment(GROUP, "m2", CURRENT),
        *records.without_member(GROUP, "m1"),
    )
    assert set(group.holders.values()) == {"m2"}


def test_an_instance_that_another_member_is_by_now_stays_with_that_one():
    group = loaded(
        records.member_metadata(GROUP, "m1", METADATA),
        records.member_metadata(GROUP, "m2", METADATA),
        *records.without_member(GROUP, "m1"),
    )
    assert group.static_members == {"i": "m2"}


def test_topics_as_brokers_before_4_1_wrote_them_are_noted():
    value = log.ConsumerGroupPartitionMetadataValue(topics=[])
    record = records.Record(log.ConsumerGroupPartitionMetadataKey(group_id=GROUP), value)
    assert loaded(record).has_partition_metadata
    assert not loaded(record, records.without_partition_metadata(GROUP)).has_partition_metadata


def test_a_copy_shares_no_change():
    group = loaded(records.member_metadata(GROUP, "m", METADATA))
    before = parts(group.copy())
    twin = group.copy()
    for record in records.without_member(GROUP, "m"):
        twin.apply(from_stored(*as_stored(record)))
    assert parts(group) == before
    assert not twin.members
