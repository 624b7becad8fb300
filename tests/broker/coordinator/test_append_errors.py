"""The errors that clients get when the coordinator cannot append to its log."""

import pytest

from odradek.broker.coordinator.append_errors import (
    GROUP_UPDATE_ERRORS,
    OFFSET_COMMIT_ERRORS,
    OFFSET_FETCH_ERRORS,
    STORE_GROUP_ERRORS,
    TRANSACTION_ERRORS,
    map_append_error,
)
from odradek.protocol.errors import (
    KafkaStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownMemberId,
)


@pytest.mark.parametrize(
    ("error", "commit_error", "group_error"),
    [
        (NotLeaderOrFollower(), "NOT_COORDINATOR", "NOT_COORDINATOR"),
        (KafkaStorageError(), "NOT_COORDINATOR", "NOT_COORDINATOR"),
        (NotEnoughReplicas(), "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_NOT_AVAILABLE"),
        (RequestTimedOut(), "REQUEST_TIMED_OUT", "REBALANCE_IN_PROGRESS"),
        (MessageTooLarge(), "INVALID_COMMIT_OFFSET_SIZE", "UNKNOWN_SERVER_ERROR"),
        (UnknownMemberId(), "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"),
    ],
)
def test_append_errors_become_coordinator_errors(error, commit_error, group_error):
    assert map_append_error(error, OFFSET_COMMIT_ERRORS).error_code.name == commit_error
    assert map_append_error(error, STORE_GROUP_ERRORS).error_code.name == group_error


@pytest.mark.parametrize(
    "error",
    [NotLeaderOrFollower(), KafkaStorageError(), NotEnoughReplicasAfterAppend(), RequestTimedOut()],
)
def test_offset_fetch_gets_only_errors_that_old_consumers_retry(error):
    assert map_append_error(error, OFFSET_FETCH_ERRORS).error_code.name == "NOT_COORDINATOR"


def test_heartbeat_replication_timeout_is_retriable():
    assert (
        map_append_error(RequestTimedOut(), GROUP_UPDATE_ERRORS).error_code.name
        == "COORDINATOR_NOT_AVAILABLE"
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NotLeaderOrFollower(), "NOT_COORDINATOR"),
        (KafkaStorageError(), "NOT_COORDINATOR"),
        (NotEnoughReplicasAfterAppend(), "COORDINATOR_NOT_AVAILABLE"),
        (RequestTimedOut(), "COORDINATOR_NOT_AVAILABLE"),
        (MessageTooLarge(), "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_append_errors_of_transactions_become_coordinator_errors(error, expected):
    assert map_append_error(error, TRANSACTION_ERRORS).error_code.name == expected
