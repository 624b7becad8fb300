"""The states of a classic group, and the errors that its members get in each state.

Only tables: no log, no clock, no timers.  The diagram in docs/state-machines.md is generated from
VALID_TRANSITIONS.

Kafka: ClassicGroupState.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError


class ClassicGroupState(StrEnum):
    """The value is the state name in DescribeGroups and ListGroups."""

    EMPTY = "Empty"  # no members; offsets may exist
    PREPARING_REBALANCE = "PreparingRebalance"  # waiting for all members to join
    COMPLETING_REBALANCE = "CompletingRebalance"  # waiting for the leader's assignment
    STABLE = "Stable"  # every member has its assignment
    DEAD = "Dead"  # deleted, or coordinated by another broker


#: State -> the states that may follow it
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

#: The error for a member of the current generation.  NONE: the request is processed.
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
        # The next heartbeat reports the rebalance: members commit before they rejoin.
        ApiKey.OFFSET_COMMIT: ErrorCode.NONE,
    },
    ClassicGroupState.COMPLETING_REBALANCE: {
        ApiKey.JOIN_GROUP: ErrorCode.NONE,
        ApiKey.SYNC_GROUP: ErrorCode.NONE,
        ApiKey.HEARTBEAT: ErrorCode.NONE,
        # The member's partitions may already be assigned to another member.
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
    """A bug in this broker: the transition is not in VALID_TRANSITIONS."""


def check_api_allowed(state: ClassicGroupState, api: ApiKey) -> None:
    """Raise the error of the table, if there is one."""
    error = API_ERRORS[state][api]
    if error is not ErrorCode.NONE:
        raise KafkaError(error_code=error)
