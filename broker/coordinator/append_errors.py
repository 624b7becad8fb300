"""What clients are told when the log of their coordinator cannot be written.

The tables are Kafka's: clients know what to do about coordinators, and nothing of partitions.

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
#: To whoever commits offsets.
OFFSET_COMMIT_ERRORS: Mapping[ErrorCode, ErrorCode] = _COMMON_ERRORS | {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
#: To the members of a group whose assignment cannot be stored.
STORE_GROUP_ERRORS: Mapping[ErrorCode, ErrorCode] = _COMMON_ERRORS | {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
#: To all others who change a group: members of the consumer protocol, whose clients stop for good
#: at what they do not expect, and those who leave or delete.
GROUP_UPDATE_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    **STORE_GROUP_ERRORS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
#: To whoever asks for offsets: consumers before 3.9 retry only this, and throw at anything else.
OFFSET_FETCH_ERRORS: Mapping[ErrorCode, ErrorCode] = dict.fromkeys(
    (*_COMMON_ERRORS, ErrorCode.REQUEST_TIMED_OUT), ErrorCode.NOT_COORDINATOR
)
#: To whoever asks for a step of a transaction.
TRANSACTION_ERRORS: Mapping[ErrorCode, ErrorCode] = _COMMON_ERRORS | {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def map_append_error(
    append_error: KafkaError, error_map: Mapping[ErrorCode, ErrorCode]
) -> KafkaError:
    """The failure as it is told to those whom ``table`` is about."""
    error = error_map.get(append_error.error_code)
    return append_error if error is None else KafkaError(append_error.message, error_code=error)
