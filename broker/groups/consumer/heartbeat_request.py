"""Validates and parses ConsumerGroupHeartbeat requests, independently of the group.

Owner: none; pure functions.
"""

from __future__ import annotations

from odradek.broker.groups.consumer.assignors import Assignors
from odradek.broker.groups.consumer.heartbeat import Heartbeat
from odradek.broker.groups.consumer.member import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
)
from odradek.broker.groups.consumer.partitions import partitions_from_topics
from odradek.protocol.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.errors import InvalidRequest, UnsupportedAssignor

#: The first version in which clients generate their member ids (KIP-1082).
CONSUMER_GENERATED_MEMBER_ID_REQUIRED_VERSION = 1
UNCHANGED = -1


def parse_heartbeat(
    request: ConsumerGroupHeartbeatRequest, *, member_id: str, client_id: str, client_host: str
) -> Heartbeat:
    """``member_id`` is the id of the request, or one that was generated for it."""
    timeout_ms = request.rebalance_timeout_ms
    return Heartbeat(
        member_id=member_id,
        member_epoch=request.member_epoch,
        client_id=client_id,
        client_host=client_host,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=None if timeout_ms == UNCHANGED else timeout_ms,
        subscribed_topic_names=_names(request.subscribed_topic_names),
        subscribed_topic_regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned_partitions=None
        if request.topic_partitions is None
        else partitions_from_topics(request.topic_partitions),
    )


def check_request(
    request: ConsumerGroupHeartbeatRequest, *, version: int, assignors: Assignors
) -> None:
    """Raise InvalidRequest or UnsupportedAssignor."""
    _reject_if(not request.group_id, "GroupId can't be empty.")
    _reject_if(request.instance_id == "", "InstanceId can't be empty.")
    _reject_if(request.rack_id == "", "RackId can't be empty.")
    _reject_if(
        request.member_epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH,
        f"MemberEpoch is {request.member_epoch}, but must be at least -2.",
    )
    is_generated_here = (
        version < CONSUMER_GENERATED_MEMBER_ID_REQUIRED_VERSION
        and request.member_epoch == JOIN_GROUP_MEMBER_EPOCH
    )
    _reject_if(not request.member_id and not is_generated_here, "MemberId can't be empty.")
    if request.member_epoch == JOIN_GROUP_MEMBER_EPOCH:
        _check_joining(request)
    if request.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        _reject_if(request.instance_id is None, "InstanceId can't be null.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignor(
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors.names)}."
        )


def is_leaving(request: ConsumerGroupHeartbeatRequest) -> bool:
    return request.member_epoch in (LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH)


def _check_joining(request: ConsumerGroupHeartbeatRequest) -> None:
    _reject_if(
        request.rebalance_timeout_ms == UNCHANGED,
        "RebalanceTimeoutMs must be provided in first request.",
    )
    _reject_if(request.topic_partitions != [], "TopicPartitions must be empty when (re-)joining.")
    _reject_if(
        request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be set in first request.",
    )


def _names(names: list[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


def _reject_if(is_invalid: bool, reason: str) -> None:
    if is_invalid:
        raise InvalidRequest(reason)
