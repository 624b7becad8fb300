"""The life of a classic group, and what its members are told in each part of it.

Tables and nothing else: no log, no clock, no timers.  The diagram in docs/architecture.md is
printed from MOVES.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError


class ClassicGroupState(StrEnum):
    """The names are what DescribeGroups and ListGroups tell."""

    EMPTY = "Empty"  # no members; there may be offsets
    PREPARING_REBALANCE = "PreparingRebalance"  # waiting for all members to join
    COMPLETING_REBALANCE = "CompletingRebalance"  # waiting for the leader's assignment
    STABLE = "Stable"  # every member has its part
    DEAD = "Dead"  # deleted, or coordinated by another


#: state -> the states it may move to
VALID_TRANSITIONS: Mapping[ClassicGroupState, frozenset[ClassicGroupState]] = {
    ClassicGroupState.EMPTY: frozenset(
        {ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}
    ),
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        {ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY, ClassicGroupState.DEAD}
    ),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset(
        {ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}
    ),
    ClassicGroupState.STABLE: frozenset(
        {ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}
    ),
    ClassicGroupState.DEAD: frozenset({ClassicGroupState.DEAD}),
}

#: What a member of the right generation is told.  NONE means: go on.
API_ERRORS: Mapping[ClassicGroupState, Mapping[ApiKey, ErrorCode]] = {
    ClassicGroupState.EMPTY: {
        ApiKey.JOIN_GROUP: ErrorCode.UNKNOWN_MEMBER_ID,
        ApiKey.SYNC_GROUP: ErrorCode.UNKNOWN_MEMBER_ID,
        ApiKey.HEARTBEAT: ErrorCode.UNKNOWN_MEMBER_ID,
        ApiKey.OFFSET_COMMIT: ErrorCode.NONE,
    },
    ClassicGroupState.PREPARING_REBALANCE: {
        ApiKey.JOIN_GROUP: ErrorCode.NONE,
        ApiKey.SYNC_GROUP: ErrorCode.REBALANCE_IN_PROGRESS,
        ApiKey.HEARTBEAT: ErrorCode.REBALANCE_IN_PROGRESS,
        # The next heartbeat tells of the rebalance: members commit before they join again.
        ApiKey.OFFSET_COMMIT: ErrorCode.NONE,
    },
    ClassicGroupState.COMPLETING_REBALANCE: {
        ApiKey.JOIN_GROUP: ErrorCode.NONE,
        ApiKey.SYNC_GROUP: ErrorCode.NONE,
        ApiKey.HEARTBEAT: ErrorCode.NONE,
        # Its partitions may be another's already.
        ApiKey.OFFSET_COMMIT: ErrorCode.REBALANCE_IN_PROGRESS,
    },
    ClassicGroupState.STABLE: {
        ApiKey.JOIN_GROUP: ErrorCode.NONE,
        ApiKey.SYNC_GROUP: ErrorCode.NONE,
        ApiKey.HEARTBEAT: ErrorCode.NONE,
        ApiKey.OFFSET_COMMIT: ErrorCode.NONE,
    },
    ClassicGroupState.DEAD: dict.fromkeys(
        (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT),
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ),
}


class IllegalTransition(Exception):
    """A bug of ours: the table does not have it."""


def check_api_allowed(state: ClassicGroupState, api: ApiKey) -> None:
    """Refuse what the table refuses."""
    error = API_ERRORS[state][api]
    if error is not ErrorCode.NONE:
        raise KafkaError(error_code=error)
