"""ConsumerGroupDescribe: state, members and assignments of groups of the consumer protocol.

Topics that are gone are not shown, as in Kafka.
"""

from __future__ import annotations

from odradek.broker.call import Call
from odradek.broker.groups.consumer.assignors import assignors_of
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.member import Member
from odradek.broker.groups.consumer.partitions import Partitions, to_topics
from odradek.broker.groups.consumer.requests import check_enabled, find
from odradek.broker.groups.consumer.target import preferred_assignor
from odradek.broker.groups.consumer.topics import Topics
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.handlers.refusals import words
from odradek.broker.metadata import authorized_operations
from odradek.protocol.api.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    TopicPartitions,
)
from odradek.protocol.errors import KafkaError, code_of
from odradek.protocol.types import Uuid

Shown = ConsumerGroupDescribeResponse.Group
_CLASSIC, _CONSUMER = 0, 1


def handle(
    groups: GroupCoordinator, call: Call[ConsumerGroupDescribeRequest]
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        throttle_time_ms=0,
        groups=[
            _described(groups, group_id, call) for group_id in dict.fromkeys(call.request.group_ids)
        ],
    )


def _described(
    groups: GroupCoordinator, group_id: str, call: Call[ConsumerGroupDescribeRequest]
) -> Shown:
    settings = groups.world.consumer_settings
    try:
        check_enabled(settings)
        live = find(groups.shard_of_members(group_id), group_id)
    except KafkaError as failure:
        return _nobody(group_id, failure)
    assignor = preferred_assignor(live.group, assignors_of(settings.assignors))
    shown = _shown(live.group, groups.world.topics.now, assignor)
    if call.request.include_authorized_operations:
        shown.authorized_operations = authorized_operations.ON_A_GROUP
    return shown


def _shown(group: ConsumerGroup, topics: Topics, assignor: str) -> Shown:
    return Shown(
        error_code=0,
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor,
        members=[
            _member(member, group.target_of(member.id), topics) for member in group.members.values()
        ],
    )


def _member(member: Member, target: Partitions, topics: Topics) -> Shown.Member:
    return Shown.Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.metadata.rack_id,
        member_epoch=member.epoch,
        client_id=member.metadata.client_id,
        client_host=member.metadata.client_host,
        subscribed_topic_names=sorted(member.subscription.names),
        subscribed_topic_regex=member.subscription.expression,
        assignment=_assignment(member.current.assigned, topics),
        target_assignment=_assignment(target, topics),
        member_type=_CLASSIC if member.is_classic else _CONSUMER,
    )


def _assignment(partitions: Partitions, topics: Topics) -> Assignment:
    def named(*, topic_id: Uuid, partitions: list[int]) -> TopicPartitions:
        name = topics.name_of(topic_id) or ""
        return TopicPartitions(topic_id=topic_id, topic_name=name, partitions=partitions)

    return Assignment(
        topic_partitions=[each for each in to_topics(partitions, named) if each.topic_name]
    )


def _nobody(group_id: str, failure: KafkaError) -> Shown:
    return Shown(
        error_code=code_of(failure),
        error_message=words(failure),
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def refused(
    call: Call[ConsumerGroupDescribeRequest], failure: KafkaError
) -> ConsumerGroupDescribeResponse:
    """All of it, for one reason."""
    return ConsumerGroupDescribeResponse(
        throttle_time_ms=0,
        groups=[_nobody(group_id, failure) for group_id in call.request.group_ids],
    )
