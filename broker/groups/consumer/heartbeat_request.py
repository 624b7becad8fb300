"""ConsumerGroupHeartbeat requests: what makes one senseless, whatever the group; and their meaning.

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

CONSUMER_GENERATED_MEMBER_ID_REQUIRED_VERSION = 1  # the version from which on they do (KIP-1082)
UNCHANGED = -1


def parse_heartbeat(
    request: ConsumerGroupHeartbeatRequest, *, member_id: str, client_id: str, client_host: str
) -> Heartbeat:
    """``member_id`` is the request's, or one that was made for it."""
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
    """Raises InvalidRequest, UnsupportedAssignor."""
    _reject_if(not request.group_id, "A group has an id.")
    _reject_if(request.instance_id == "", "An instance id is not empty.")
    _reject_if(request.rack_id == "", "A rack id is not empty.")
    _reject_if(
        request.member_epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH,
        f"MemberEpoch is {request.member_epoch}, but must be at least -2.",
    )
    is_generated_here = (
        version < CONSUMER_GENERATED_MEMBER_ID_REQUIRED_VERSION
        and request.member_epoch == JOIN_GROUP_MEMBER_EPOCH
    )
    _reject_if(not request.member_id and not is_generated_here, "A member has an id.")
    if request.member_epoch == JOIN_GROUP_MEMBER_EPOCH:
        _check_joining(request)
    if request.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        _reject_if(request.instance_id is None, "Only members with an instance id come back.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignor(
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors.names)}."
        )


def is_leaving(request: ConsumerGroupHeartbeatRequest) -> bool:
    return request.member_epoch in (LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH)


def _check_joining(request: ConsumerGroupHeartbeatRequest) -> None:
    _reject_if(request.rebalance_timeout_ms == UNCHANGED, "Who joins tells its rebalance timeout.")
    _reject_if(request.topic_partitions != [], "Who joins has no partitions, and says so.")
    _reject_if(
        request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
        "Who joins subscribes to names or to a regular expression.",
    )


def _names(names: list[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


def _reject_if(is_invalid: bool, reason: str) -> None:
    if is_invalid:
        raise InvalidRequest(reason)
