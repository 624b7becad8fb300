"""ConsumerGroupDescribe: state, members and assignments of groups of the consumer protocol.

Deleted topics are omitted, as in Kafka.  A large response is built in time slices.  It shows each
group as it was when the handler reached the group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from odradek.broker.groups.consumer.assignors import parse_assignors
from odradek.broker.groups.consumer.consumer_group_runtime import ConsumerGroupRuntime
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.member import ConsumerGroupMember
from odradek.broker.groups.consumer.partitions import Partitions, partitions_to_topics
from odradek.broker.groups.consumer.requests import (
    check_consumer_protocol_enabled,
    find_consumer_group,
)
from odradek.broker.groups.consumer.target_assignment_builder import preferred_assignor
from odradek.broker.groups.consumer.topics import TopicsSnapshot
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.handlers.error_messages import error_message
from odradek.broker.metadata import authorized_operations
from odradek.broker.request import Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.protocol.api.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    TopicPartitions,
)
from odradek.protocol.errors import KafkaError, code_of
from odradek.protocol.types import Uuid

DescribedGroup = ConsumerGroupDescribeResponse.Group
_CLASSIC, _CONSUMER = 0, 1


def handle(
    groups: GroupCoordinator, request: Request[ConsumerGroupDescribeRequest]
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    response = ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=[])
    group_ids = request.body.group_ids
    if sum(_entry_count(groups, group_id) for group_id in group_ids) > INLINE_ENTRIES_MAX:
        return _respond_sliced(groups, request, response)
    for group_id in group_ids:
        described, members = _describe_group(groups, group_id, request)
        described.members = [*members]
        response.groups.append(described)
    return response


async def _respond_sliced(
    groups: GroupCoordinator,
    request: Request[ConsumerGroupDescribeRequest],
    response: ConsumerGroupDescribeResponse,
) -> ConsumerGroupDescribeResponse:
    time_slice = TimeSlice()
    for group_id in request.body.group_ids:
        described, members = _describe_group(groups, group_id, request)
        described.members = await time_slice.collect(members)
        response.groups.append(described)
        if time_slice.is_used_up:
            await time_slice.yield_to_loop()
    return response


def _entry_count(groups: GroupCoordinator, group_id: str) -> int:
    """Estimate the cost of describing a group."""
    shard = groups.find_shard(group_id)
    runtime = None if shard is None else shard.groups.get(group_id)
    if not isinstance(runtime, ConsumerGroupRuntime):
        return 1
    return 1 + len(runtime.group.members) + len(runtime.group.partition_owners)


def _describe_group(
    groups: GroupCoordinator, group_id: str, request: Request[ConsumerGroupDescribeRequest]
) -> tuple[DescribedGroup, Iterable[DescribedGroup.Member]]:
    """Return the group without its members, and the members separately."""
    settings = groups.context.consumer_settings
    try:
        check_consumer_protocol_enabled(settings)
        runtime = find_consumer_group(groups.shard_for_nonempty_id(group_id), group_id)
    except KafkaError as error:
        return _group_error(group_id, error), ()
    assignor = preferred_assignor(runtime.group, parse_assignors(settings.assignors))
    described = _described_group(runtime.group, assignor)
    if request.body.include_authorized_operations:
        described.authorized_operations = authorized_operations.CONSUMER_GROUP_OPERATIONS
    return described, _describe_members(runtime.group, groups.context.topics_provider.current)


def _described_group(group: ConsumerGroup, assignor: str) -> DescribedGroup:
    return DescribedGroup(
        error_code=0,
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor,
        members=[],
    )


def _describe_members(
    group: ConsumerGroup, topics: TopicsSnapshot
) -> Iterable[DescribedGroup.Member]:
    """Take a snapshot of the members now and build their descriptions lazily."""
    snapshot = [
        (member, group.target_assignment_of(member.id)) for member in group.members.values()
    ]
    return (_describe_member(member, target, topics) for member, target in snapshot)


def _describe_member(
    member: ConsumerGroupMember, target: Partitions, topics: TopicsSnapshot
) -> DescribedGroup.Member:
    return DescribedGroup.Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.metadata.rack_id,
        member_epoch=member.epoch,
        client_id=member.metadata.client_id,
        client_host=member.metadata.client_host,
        subscribed_topic_names=sorted(member.subscription.topic_names),
        subscribed_topic_regex=member.subscription.topic_regex,
        assignment=_assignment(member.current_assignment.assigned, topics),
        target_assignment=_assignment(target, topics),
        member_type=_CLASSIC if member.is_classic else _CONSUMER,
    )


def _assignment(partitions: Partitions, topics: TopicsSnapshot) -> Assignment:
    def to_topic_partitions(*, topic_id: Uuid, partitions: list[int]) -> TopicPartitions:
        name = topics.topic_name(topic_id) or ""
        return TopicPartitions(topic_id=topic_id, topic_name=name, partitions=partitions)

    return Assignment(
        topic_partitions=[
            each
            for each in partitions_to_topics(partitions, to_topic_partitions)
            if each.topic_name
        ]
    )


def _group_error(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(
        error_code=code_of(error),
        error_message=error_message(error),
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def error_response(
    request: Request[ConsumerGroupDescribeRequest], error: KafkaError
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        throttle_time_ms=0,
        groups=[_group_error(group_id, error) for group_id in request.body.group_ids],
    )
