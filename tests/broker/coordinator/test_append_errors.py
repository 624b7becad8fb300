"""What clients are told when the log cannot be written."""

import pytest

from odradek.broker.coordinator.log_failures import (
    OF_A_CHANGE,
    OF_A_COMMIT,
    OF_A_FETCH,
    OF_A_GROUP,
    OF_A_TRANSACTION,
    told,
)
from odradek.protocol.errors import (
    KafkaStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    RequestTimedOut,
    UnknownMemberId,
)


@pytest.mark.parametrize(
    ("failure", "of_a_commit", "of_a_group"),
    [
        (NotLeader(), "NOT_COORDINATOR", "NOT_COORDINATOR"),
        (KafkaStorageError(), "NOT_COORDINATOR", "NOT_COORDINATOR"),
        (NotEnoughReplicas(), "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_NOT_AVAILABLE"),
        (RequestTimedOut(), "REQUEST_TIMED_OUT", "REBALANCE_IN_PROGRESS"),
        (MessageTooLarge(), "INVALID_COMMIT_OFFSET_SIZE", "UNKNOWN_SERVER_ERROR"),
        (UnknownMemberId(), "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"),
    ],
)
def test_partitions_are_told_of_as_coordinators(failure, of_a_commit, of_a_group):
    assert told(failure, OF_A_COMMIT).error.name == of_a_commit
    assert told(failure, OF_A_GROUP).error.name == of_a_group


@pytest.mark.parametrize(
    "failure",
    [NotLeader(), KafkaStorageError(), NotEnoughReplicasAfterAppend(), RequestTimedOut()],
)
def test_who_asks_for_offsets_is_told_only_what_old_consumers_retry(failure):
    assert told(failure, OF_A_FETCH).error.name == "NOT_COORDINATOR"


def test_a_heartbeat_that_is_not_replicated_in_time_does_not_stop_the_client_for_good():
    assert told(RequestTimedOut(), OF_A_CHANGE).error.name == "COORDINATOR_NOT_AVAILABLE"


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (NotLeader(), "NOT_COORDINATOR"),
        (KafkaStorageError(), "NOT_COORDINATOR"),
        (NotEnoughReplicasAfterAppend(), "COORDINATOR_NOT_AVAILABLE"),
        (RequestTimedOut(), "COORDINATOR_NOT_AVAILABLE"),
        (MessageTooLarge(), "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_transactional_producers_are_told_of_coordinators_too(failure, error):
    assert told(failure, OF_A_TRANSACTION).error.name == error
