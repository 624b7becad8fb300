"""Tests of broker/groups/consumer/draft.py."""

from odradek.broker.groups.consumer.draft import Draft
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.member import CurrentAssignment, Member, MemberMetadata
from tests.support.consumer_group_scene import GROUP, parts
from tests.support.subscriptions import A, B, partitions


def test_a_draft_without_records_is_the_group_itself():
    group = ConsumerGroup(GROUP)
    assert Draft(group).group is group


def test_what_is_drafted_does_not_touch_the_group():
    group = ConsumerGroup(GROUP)
    draft = Draft(group)
    draft.put_metadata("m", MemberMetadata(client_id="c"))
    draft.put_epoch(3, 7)
    assert parts(group) == parts(ConsumerGroup(GROUP))
    assert draft.group.members["m"].metadata.client_id == "c"
    assert (draft.group.epoch, draft.group.metadata_hash) == (3, 7)


def test_applying_its_records_makes_the_group_what_was_drafted():
    group = ConsumerGroup(GROUP)
    draft = Draft(group)
    draft.put_metadata("m", MemberMetadata(instance_id="i"))
    draft.put_current("m", CurrentAssignment(1, 0, assigned=partitions(A, 0)))
    draft.put_target("m", partitions(A, 0, 7) | partitions(B, 3))
    draft.replace_member(draft.group.members["m"], Member("n", MemberMetadata(instance_id="i")))
    draft.put_metadata("gone", MemberMetadata())
    draft.remove_member("gone")
    for record in draft.records:
        group.apply(record)
    assert parts(group) == parts(draft.group)
    assert list(group.members) == ["n"]
