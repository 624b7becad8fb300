"""The entry points of the consumer group APIs: find the group of a request and pass it on.

Owner: the event loop.
"""

from __future__ import annotations

import logging

from odradek.broker.coordinator.append_errors import STORE_GROUP_ERRORS, map_append_error
from odradek.broker.coordinator.batches import KeyValue
from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.messages import ClientIdentity
from odradek.broker.groups.consumer.assignors import parse_assignors
from odradek.broker.groups.consumer.consumer_group_runtime import ConsumerGroupRuntime
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.heartbeat import (
    CoordinatorResult,
    Heartbeat,
    HeartbeatResult,
    decide_heartbeat,
)
from odradek.broker.groups.consumer.heartbeat_request import (
    check_request,
    is_leaving,
    parse_heartbeat,
)
from odradek.broker.groups.consumer.member import JOIN_GROUP_MEMBER_EPOCH, LEAVE_GROUP_MEMBER_EPOCH
from odradek.broker.groups.consumer.member_removal import decide_leave, find_member
from odradek.broker.groups.consumer.migration import (
    check_upgrade,
    convert_to_consumer_group,
    retire_classic_group,
)
from odradek.broker.groups.consumer.records import serialize_record
from odradek.broker.groups.shard import GroupCoordinatorShard
from odradek.broker.settings.consumer_groups import ConsumerGroupSettings
from odradek.protocol.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest as Request
from odradek.protocol.errors import GroupIdNotFound, KafkaError, UnsupportedVersion

log = logging.getLogger("kafka.coordinator.group")


def check_heartbeat_request(
    settings: ConsumerGroupSettings, request: Request, *, version: int
) -> None:
    """Check the request independently of the group; raise KafkaError to reject it."""
    check_consumer_protocol_enabled(settings)
    check_request(request, version=version, assignors=parse_assignors(settings.assignors))


def check_consumer_protocol_enabled(settings: ConsumerGroupSettings) -> None:
    if not settings.is_enabled:
        raise UnsupportedVersion(
            "The consumer protocol is disabled by group.coordinator.rebalance.protocols."
        )


def heartbeat(
    shard: GroupCoordinatorShard, request: Request, client: ClientIdentity
) -> HeartbeatResult:
    """Process a heartbeat; raise KafkaError to reject it.

    The response is sent when the log is replicated up to its end.
    """
    group_runtime = _find_or_create_group(shard, request)
    member_heartbeat = parse_heartbeat(
        request,
        member_id=request.member_id or shard.context.new_uuid(),
        client_id=client.id,
        client_host=client.host,
    )
    if is_leaving(request):
        return _leave(group_runtime, member_heartbeat)
    if shard.groups.get(request.group_id) is group_runtime:
        return _heartbeat_existing(group_runtime, member_heartbeat)
    return _create_or_upgrade_group(shard, group_runtime, member_heartbeat)


def unresolved_regexes(shard: GroupCoordinatorShard, request: Request) -> set[str]:
    """Return the regexes that a heartbeat must resolve, if that takes too long to do inline."""
    topics, group = shard.context.topics_provider.current, shard.groups.get(request.group_id)
    regexes = {request.subscribed_topic_regex} if request.subscribed_topic_regex else set()
    if isinstance(group, ConsumerGroupRuntime) and group.group.last_seen_topics is not topics:
        regexes |= group.group.subscribed_regexes()
    return regexes if topics.exceeds_inline_limit(regexes) else set()


def find_consumer_group(shard: GroupCoordinatorShard, group_id: str) -> ConsumerGroupRuntime:
    """Return the consumer group; raise GroupIdNotFound if there is none."""
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroupRuntime):
        raise GroupIdNotFound(f"Consumer group {group_id} not found.")
    return group


def _find_or_create_group(shard: GroupCoordinatorShard, request: Request) -> ConsumerGroupRuntime:
    """Return the group of the request; a new group is not in the shard's groups yet."""
    is_joining = request.member_epoch == JOIN_GROUP_MEMBER_EPOCH
    if isinstance(shard.groups.get(request.group_id), ConsumerGroupRuntime) or not is_joining:
        return find_consumer_group(shard, request.group_id)
    return ConsumerGroupRuntime(shard, ConsumerGroup(request.group_id))


def _heartbeat_existing(
    group_runtime: ConsumerGroupRuntime, member_heartbeat: Heartbeat
) -> HeartbeatResult:
    context = group_runtime.decision_context
    decision = decide_heartbeat(group_runtime.group, member_heartbeat, context)
    group_runtime.write(decision.update)
    group_runtime.group.last_seen_topics = context.topics
    group_runtime.reset_session_timer(group_runtime.group.members[decision.result.member_id])
    group_runtime.cancel_rejoin_timeout(decision.result.member_id)
    return decision.result


def _leave(group_runtime: ConsumerGroupRuntime, member_heartbeat: Heartbeat) -> HeartbeatResult:
    if member_heartbeat.member_epoch == LEAVE_GROUP_MEMBER_EPOCH:
        member = find_member(
            group_runtime.group, member_heartbeat.member_id, member_heartbeat.instance_id
        )
        group_runtime.remove_members([member.id])
        return HeartbeatResult(member.id, member_heartbeat.member_epoch)
    decision = decide_leave(group_runtime.group, member_heartbeat, group_runtime.decision_context)
    group_runtime.write(decision.update)
    return decision.result


def _create_or_upgrade_group(
    shard: GroupCoordinatorShard, group_runtime: ConsumerGroupRuntime, member_heartbeat: Heartbeat
) -> HeartbeatResult:
    """Create the group, or upgrade a classic group, in one batch."""
    classic_group, context = shard.groups.get(group_runtime.id), group_runtime.decision_context
    leading_records: list[KeyValue] = []
    if isinstance(classic_group, ClassicGroup):
        leading_records = [(key, None) for key in classic_group.tombstone_keys()]
        if not classic_group.is_empty:
            check_upgrade(classic_group)
            group_runtime.group, conversion_records = convert_to_consumer_group(
                classic_group, context.topics
            )
            leading_records += [serialize_record(record) for record in conversion_records]
    decision: CoordinatorResult = decide_heartbeat(group_runtime.group, member_heartbeat, context)
    try:
        shard.log.append([*leading_records, *map(serialize_record, decision.update.records)])
    except KafkaError as error:
        raise map_append_error(error, STORE_GROUP_ERRORS) from error
    if isinstance(classic_group, ClassicGroup):
        log.info(
            "Upgraded group %r to the consumer protocol with %d members",
            group_runtime.id,
            len(group_runtime.group.members),
        )
        retire_classic_group(classic_group)
    shard.groups[group_runtime.id] = group_runtime
    group_runtime.apply_update(decision.update)
    group_runtime.group.last_seen_topics = context.topics
    group_runtime.on_loaded()
    return decision.result
