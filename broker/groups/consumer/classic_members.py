"""Classic members in a consumer group, while the group migrates.

To a classic member the group looks like a classic group with another member as the leader.

    JoinGroup   does what a heartbeat does for other members: it carries the subscription and the
                owned partitions, and reconciles the member by one step; the member epoch is
                returned as the generation
    SyncGroup   returns the current assignment
    Heartbeat   reports that the member must rejoin: for a new epoch, to revoke partitions, or since
                the partitions that it waits for are free

Owner: the event loop.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain

from odradek.broker.groups.classic.messages import (
    UNKNOWN_MEMBER_ID,
    JoinGroupResult,
    JoinRequest,
    SyncGroupResult,
)
from odradek.broker.groups.classic.subscriptions import CONSUMER_PROTOCOL_TYPE
from odradek.broker.groups.classic.sync import SyncRequest
from odradek.broker.groups.consumer import target_assignment_builder
from odradek.broker.groups.consumer.consumer_group_runtime import ConsumerGroupRuntime
from odradek.broker.groups.consumer.consumer_protocol_codec import (
    MemberSubscription,
    deserialize_subscription,
    serialize_assignment,
)
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.group_update import DecisionContext, GroupUpdate
from odradek.broker.groups.consumer.heartbeat import (
    check_group_not_full,
    check_instance_id,
    maybe_reconcile,
    replace_static_member,
    update_member_metadata,
)
from odradek.broker.groups.consumer.member import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMember,
    MemberMetadata,
    MemberState,
    Subscription,
)
from odradek.broker.groups.consumer.member_removal import find_member
from odradek.broker.groups.consumer.migration import classic_protocols_of, downgrade, may_downgrade
from odradek.protocol.errors import (
    DecodeError,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)

# JoinGroup


def join(group_runtime: ConsumerGroupRuntime, request: JoinRequest) -> JoinGroupResult:
    try:
        return _try_join(group_runtime, request)
    except KafkaError as error:
        return JoinGroupResult(member_id=request.member_id, error=error)


def _try_join(group_runtime: ConsumerGroupRuntime, request: JoinRequest) -> JoinGroupResult:
    context = group_runtime.decision_context
    member_id = request.member_id or request.generate_member_id(
        group_runtime.shard.context.new_uuid()
    )
    check_group_not_full(group_runtime.group, member_id, context)
    _check_protocols(group_runtime.group, request)
    if (
        request.member_id == UNKNOWN_MEMBER_ID
        and request.instance_id is None
        and request.requires_known_member_id
    ):
        group_runtime.add_pending_member_id(member_id)
        return JoinGroupResult(member_id=member_id, error=MemberIdRequired())
    is_new_member_id = (
        request.member_id == UNKNOWN_MEMBER_ID or member_id in group_runtime.pending_member_ids
    )
    update, epoch = decide_join(
        group_runtime.group, member_id, request, context, is_new_member_id=is_new_member_id
    )
    group_runtime.write(update)
    group_runtime.pending_member_ids.discard(member_id)
    member = group_runtime.group.members[member_id]
    group_runtime.reset_session_timer(member)
    group_runtime.schedule_rejoin_timeout(member, restart=True)
    if may_downgrade(group_runtime, leaving_member_ids=()):
        return _downgrade_and_join(
            group_runtime,
            member_id,
            supports_skipping_assignment=request.supports_skipping_assignment,
        )
    return JoinGroupResult(
        member_id=member_id,
        generation=epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol=request.protocols[0].name,
        waits_for_replication=True,
    )


def _downgrade_and_join(
    group_runtime: ConsumerGroupRuntime, member_id: str, *, supports_skipping_assignment: bool
) -> JoinGroupResult:
    """Downgrade the group: a static member rejoined as a classic member, the last that was not.

    All members have their target assignment.  The member becomes the leader if its client knows
    SkipAssignment, which tells a leader that there is nothing to assign.
    """
    metadata = downgrade(
        group_runtime,
        leaving_member_ids=(),
        leader=member_id if supports_skipping_assignment else None,
    ).metadata
    is_leader = metadata.leader == member_id
    result = metadata.build_join_result(metadata.members[member_id], skip_assignment=is_leader)
    return replace(result, waits_for_replication=True)


def decide_join(
    group: ConsumerGroup,
    member_id: str,
    request: JoinRequest,
    context: DecisionContext,
    *,
    is_new_member_id: bool,
) -> tuple[GroupUpdate, int]:
    """Return the update to write, and the member's epoch after it.  Raise KafkaError to reject.

    ``is_new_member_id`` says that the member id was generated for this join.
    """
    update = GroupUpdate(group)
    member = _get_or_create_member(update, member_id, request)
    try:
        subscription = deserialize_subscription(request.protocols[0].metadata, context.topics)
    except DecodeError as error:
        raise InconsistentGroupProtocol(f"Failed to parse the subscription: {error}") from error
    if not is_new_member_id:
        _check_no_owned_partitions_if_unknown(update.group, member_id, subscription)
    has_changed = update_member_metadata(
        update, member, _member_metadata(request, subscription), context
    )
    if has_changed or group.last_seen_topics is not context.topics:
        target_assignment_builder.maybe_bump_group_epoch(update, context, has_changed=has_changed)
    target_assignment_builder.update_target_assignment(update, context)
    return update, maybe_reconcile(update, member_id, subscription.owned_partitions).epoch


def _check_protocols(group: ConsumerGroup, request: JoinRequest) -> None:
    """Raise unless one of the request's protocols is supported by all classic members."""
    classic_members = [member for member in group.members.values() if member.is_classic]
    # As sets: a member may list a protocol twice.
    names = [
        {protocol.name for protocol in classic_protocols_of(member)} for member in classic_members
    ]
    supporter_counts = Counter(chain.from_iterable(names))
    is_common = any(
        supporter_counts[protocol.name] == len(classic_members) for protocol in request.protocols
    )
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not is_common:
        raise InconsistentGroupProtocol()


def _get_or_create_member(
    update: GroupUpdate, member_id: str, request: JoinRequest
) -> ConsumerGroupMember:
    if request.instance_id is None:
        return update.group.members.get(member_id) or ConsumerGroupMember(member_id)
    static_member = update.group.static_member(request.instance_id)
    if request.member_id != UNKNOWN_MEMBER_ID:
        return check_instance_id(static_member, member_id, request.instance_id)
    return (
        ConsumerGroupMember(member_id)
        if static_member is None
        else replace_static_member(update, static_member, member_id)
    )


def _check_no_owned_partitions_if_unknown(
    group: ConsumerGroup, member_id: str, subscription: MemberSubscription
) -> None:
    """Reject an unknown member that owns partitions: it was removed, and others may own them now.

    A new member owns nothing.  A member is rejected only once, since this check is skipped for a
    new member id: some clients still send their old partitions when they join with a new id, and
    Kafka accepts all of them.
    """
    if subscription.owned_partitions and member_id not in group.members:
        raise UnknownMemberId(f"Member {member_id} is no longer in group {group.id}.")


def _member_metadata(request: JoinRequest, subscription: MemberSubscription) -> MemberMetadata:
    return MemberMetadata(
        instance_id=request.instance_id,
        rack_id=subscription.rack_id,
        client_id=request.client.id,
        client_host=request.client.host,
        subscription=Subscription(subscription.topic_names),
        rebalance_timeout_ms=request.timeouts.rebalance_timeout_ms,
        classic_metadata=ClassicMemberMetadata(
            request.timeouts.session_timeout_ms,
            tuple(
                ClassicProtocol(protocol.name, protocol.metadata) for protocol in request.protocols
            ),
        ),
    )


# SyncGroup, Heartbeat, LeaveGroup


def sync(group_runtime: ConsumerGroupRuntime, request: SyncRequest) -> SyncGroupResult:
    """Raise KafkaError if the group rejects the request."""
    member = _classic_member(
        group_runtime, request.member_id, request.instance_id, request.generation
    )
    if (
        group_runtime.group.epoch > member.epoch
        and member.current_assignment.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        group_runtime.schedule_rejoin_timeout(member, restart=False)
        raise RebalanceInProgress()
    # Kafka checks the protocol first.  A member that joined before an upgrade got the protocol that
    # its group had selected, which need not be the one it prefers; the check above makes it rejoin.
    # If its protocol were rejected first, its client would give up.
    preferred = classic_protocols_of(member)[0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol not in (
        None,
        preferred.name,
    ):
        raise InconsistentGroupProtocol()
    group_runtime.cancel_rejoin_timeout(member.id)
    group_runtime.reset_session_timer(member)
    return SyncGroupResult(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol=preferred.name,
        assignment=serialize_assignment(
            member.current_assignment.assigned,
            group_runtime.shard.context.topics_provider.current,
            subscription_blob=preferred.metadata,
        ),
        waits_for_replication=True,
    )


def heartbeat(
    group_runtime: ConsumerGroupRuntime, member_id: str, instance_id: str | None, generation: int
) -> None:
    """Raise KafkaError if the group rejects the heartbeat or the member must rejoin."""
    member = _classic_member(group_runtime, member_id, instance_id, generation)
    group_runtime.reset_session_timer(member)
    if must_rejoin(group_runtime.group, member):
        group_runtime.schedule_rejoin_timeout(member, restart=False)
        raise RebalanceInProgress()


def must_rejoin(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    match member.current_assignment.state:
        case _ if member.epoch < group.epoch:
            return True
        case MemberState.UNREVOKED_PARTITIONS:
            return True
        case MemberState.UNRELEASED_PARTITIONS:
            missing = group.target_assignment_of(member.id) - member.current_assignment.assigned
            return all(map(group.is_free_for(member.id), missing))
        case _:
            return False


def leave(group_runtime: ConsumerGroupRuntime, member_id: str, instance_id: str | None) -> None:
    """Remove the member; raise KafkaError if it is unknown or fenced."""
    if member_id == UNKNOWN_MEMBER_ID and instance_id is not None:
        static_member = group_runtime.group.static_member(instance_id)
        if static_member is None:
            raise UnknownMemberId()
        member_id = static_member.id
    member = find_member(group_runtime.group, member_id, instance_id)
    group_runtime.remove_members([member.id])


def _classic_member(
    group_runtime: ConsumerGroupRuntime, member_id: str, instance_id: str | None, generation: int
) -> ConsumerGroupMember:
    member = find_member(group_runtime.group, member_id, instance_id)
    if not member.is_classic:
        raise UnknownMemberId(f"Member {member_id} does not use the classic protocol.")
    if generation != member.epoch:
        raise IllegalGeneration()
    return member
