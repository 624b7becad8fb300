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


class GroupState(StrEnum):
    """The names are what DescribeGroups and ListGroups tell."""

    EMPTY = "Empty"  # no members; there may be offsets
    PREPARING_REBALANCE = "PreparingRebalance"  # waiting for all members to join
    COMPLETING_REBALANCE = "CompletingRebalance"  # waiting for the leader's assignment
    STABLE = "Stable"  # every member has its part
    DEAD = "Dead"  # deleted, or coordinated by another


#: state -> the states it may move to
MOVES: Mapping[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset({GroupState.DEAD}),
}

#: What a member of the right generation is told.  NONE means: go on.
ANSWERS: Mapping[GroupState, Mapping[ApiKey, ErrorCode]] = {
    GroupState.EMPTY: {
        ApiKey.JOIN_GROUP: ErrorCode.UNKNOWN_MEMBER_ID,
        ApiKey.SYNC_GROUP: ErrorCode.UNKNOWN_MEMBER_ID,
        ApiKey.HEARTBEAT: ErrorCode.UNKNOWN_MEMBER_ID,
        ApiKey.OFFSET_COMMIT: ErrorCode.NONE,
    },
    GroupState.PREPARING_REBALANCE: {
        ApiKey.JOIN_GROUP: ErrorCode.NONE,
        ApiKey.SYNC_GROUP: ErrorCode.REBALANCE_IN_PROGRESS,
        ApiKey.HEARTBEAT: ErrorCode.REBALANCE_IN_PROGRESS,
        # The next heartbeat tells of the rebalance: members commit before they join again.
        ApiKey.OFFSET_COMMIT: ErrorCode.NONE,
    },
    GroupState.COMPLETING_REBALANCE: {
        ApiKey.JOIN_GROUP: ErrorCode.NONE,
        ApiKey.SYNC_GROUP: ErrorCode.NONE,
        ApiKey.HEARTBEAT: ErrorCode.NONE,
        # Its partitions may be another's already.
        ApiKey.OFFSET_COMMIT: ErrorCode.REBALANCE_IN_PROGRESS,
    },
    GroupState.STABLE: {
        ApiKey.JOIN_GROUP: ErrorCode.NONE,
        ApiKey.SYNC_GROUP: ErrorCode.NONE,
        ApiKey.HEARTBEAT: ErrorCode.NONE,
        ApiKey.OFFSET_COMMIT: ErrorCode.NONE,
    },
    GroupState.DEAD: dict.fromkeys(
        (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT),
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ),
}


class IllegalMove(Exception):
    """A bug of ours: the table does not have it."""


def check_answer(state: GroupState, api: ApiKey) -> None:
    """Refuse what the table refuses."""
    error = ANSWERS[state][api]
    if error is not ErrorCode.NONE:
        raise KafkaError(error=error)
