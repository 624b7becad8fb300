"""Maps errors of appends to a coordinator's log to the errors that clients receive.

The tables are Kafka's.  Clients handle coordinator errors, and they know nothing of the partitions.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError

_COMMON_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
#: For OffsetCommit.
OFFSET_COMMIT_ERRORS: Mapping[ErrorCode, ErrorCode] = _COMMON_ERRORS | {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
#: For the members of a group whose assignment cannot be stored.
STORE_GROUP_ERRORS: Mapping[ErrorCode, ErrorCode] = _COMMON_ERRORS | {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
#: For all other changes of a group: heartbeats of the consumer protocol, whose clients fail
#: permanently on an unexpected error, LeaveGroup and DeleteGroups.
GROUP_UPDATE_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    **STORE_GROUP_ERRORS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
#: For OffsetFetch: consumers before 3.9 retry only NOT_COORDINATOR and throw on any other error.
OFFSET_FETCH_ERRORS: Mapping[ErrorCode, ErrorCode] = dict.fromkeys(
    (*_COMMON_ERRORS, ErrorCode.REQUEST_TIMED_OUT), ErrorCode.NOT_COORDINATOR
)
#: For all requests that change a transaction.
TRANSACTION_ERRORS: Mapping[ErrorCode, ErrorCode] = _COMMON_ERRORS | {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def map_append_error(
    append_error: KafkaError, error_map: Mapping[ErrorCode, ErrorCode]
) -> KafkaError:
    """Return the error for the client: ``append_error`` itself if ``error_map`` has no entry."""
    error = error_map.get(append_error.error_code)
    return append_error if error is None else KafkaError(append_error.message, error_code=error)
