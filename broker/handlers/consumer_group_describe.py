"""ConsumerGroupDescribe: state, members and assignments of groups of the consumer protocol.

Topics that are gone are not shown, as in Kafka.  What is much is shown in turns, each group as it
was when its turn began.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from odradek.broker.call import Call
from odradek.broker.groups.consumer.assignors import assignors_of
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.live_group import LiveGroup
from odradek.broker.groups.consumer.member import Member
from odradek.broker.groups.consumer.partitions import Partitions, to_topics
from odradek.broker.groups.consumer.requests import check_enabled, find
from odradek.broker.groups.consumer.target import preferred_assignor
from odradek.broker.groups.consumer.topics import Topics
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.handlers.refusals import words
from odradek.broker.metadata import authorized_operations
from odradek.broker.turns import FEW, Turn
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
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    response = ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=[])
    asked = call.request.group_ids
    if sum(_size(groups, each) for each in asked) > FEW:
        return _answer_in_turns(groups, call, response)
    for group_id in asked:
        shown, members = _described(groups, group_id, call)
        shown.members = [*members]
        response.groups.append(shown)
    return response


async def _answer_in_turns(
    groups: GroupCoordinator,
    call: Call[ConsumerGroupDescribeRequest],
    response: ConsumerGroupDescribeResponse,
) -> ConsumerGroupDescribeResponse:
    turn = Turn()
    for group_id in call.request.group_ids:
        shown, members = _described(groups, group_id, call)
        shown.members = await turn.listed(members)
        response.groups.append(shown)
        if turn.is_over:
            await turn.next()
    return response


def _size(groups: GroupCoordinator, group_id: str) -> int:
    """How much there is to show."""
    shard = groups.find_shard(group_id)
    live = None if shard is None else shard.groups.get(group_id)
    if not isinstance(live, LiveGroup):
        return 1
    return 1 + len(live.group.members) + len(live.group.holders)


def _described(
    groups: GroupCoordinator, group_id: str, call: Call[ConsumerGroupDescribeRequest]
) -> tuple[Shown, Iterable[Shown.Member]]:
    """Without its members, and those."""
    settings = groups.world.consumer_settings
    try:
        check_enabled(settings)
        live = find(groups.shard_of_members(group_id), group_id)
    except KafkaError as failure:
        return _nobody(group_id, failure), ()
    assignor = preferred_assignor(live.group, assignors_of(settings.assignors))
    shown = _shown(live.group, assignor)
    if call.request.include_authorized_operations:
        shown.authorized_operations = authorized_operations.ON_A_CONSUMER_GROUP
    return shown, _members(live.group, groups.world.topics.now)


def _shown(group: ConsumerGroup, assignor: str) -> Shown:
    return Shown(
        error_code=0,
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor,
        members=[],
    )


def _members(group: ConsumerGroup, topics: Topics) -> Iterable[Shown.Member]:
    """As they are now, whenever they are looked at."""
    now = [(member, group.target_of(member.id)) for member in group.members.values()]
    return (_member(member, target, topics) for member, target in now)


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
