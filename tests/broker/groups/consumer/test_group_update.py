"""Tests of broker/groups/consumer/group_update.py."""

from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.group_update import GroupUpdate
from odradek.broker.groups.consumer.member import (
    ConsumerGroupMember,
    CurrentAssignment,
    MemberMetadata,
)
from tests.support.consumer_group_scene import GROUP, parts
from tests.support.subscriptions import A, B, partitions


def test_update_without_records_is_the_group_itself():
    group = ConsumerGroup(GROUP)
    assert GroupUpdate(group).group is group


def test_update_does_not_change_the_group():
    group = ConsumerGroup(GROUP)
    group_update = GroupUpdate(group)
    group_update.put_member_metadata("m", MemberMetadata(client_id="c"))
    group_update.put_group_epoch(3, 7)
    assert parts(group) == parts(ConsumerGroup(GROUP))
    assert group_update.group.members["m"].metadata.client_id == "c"
    assert (group_update.group.epoch, group_update.group.metadata_hash) == (3, 7)


def test_applying_the_records_of_an_update_gives_the_updated_group():
    group = ConsumerGroup(GROUP)
    group_update = GroupUpdate(group)
    group_update.put_member_metadata("m", MemberMetadata(instance_id="i"))
    group_update.put_current_assignment("m", CurrentAssignment(1, 0, assigned=partitions(A, 0)))
    group_update.put_target_assignment("m", partitions(A, 0, 7) | partitions(B, 3))
    group_update.replace_member(
        group_update.group.members["m"], ConsumerGroupMember("n", MemberMetadata(instance_id="i"))
    )
    group_update.put_member_metadata("gone", MemberMetadata())
    group_update.remove_member("gone")
    for record in group_update.records:
        group.apply(record)
    assert parts(group) == parts(group_update.group)
    assert list(group.members) == ["n"]
