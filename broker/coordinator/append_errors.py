"""What clients are told when the log of their coordinator cannot be written.

The tables are Kafka's: clients know what to do about coordinators, and nothing of partitions.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError

_ALWAYS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
#: To whoever commits offsets.
OF_A_COMMIT: Mapping[ErrorCode, ErrorCode] = _ALWAYS | {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
#: To the members of a group whose assignment cannot be stored.
OF_A_GROUP: Mapping[ErrorCode, ErrorCode] = _ALWAYS | {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
#: To all others who change a group: members of the consumer protocol, whose clients stop for good
#: at what they do not expect, and those who leave or delete.
OF_A_CHANGE: Mapping[ErrorCode, ErrorCode] = {
    **OF_A_GROUP,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
#: To whoever asks for offsets: consumers before 3.9 retry only this, and throw at anything else.
OF_A_FETCH: Mapping[ErrorCode, ErrorCode] = dict.fromkeys(
    (*_ALWAYS, ErrorCode.REQUEST_TIMED_OUT), ErrorCode.NOT_COORDINATOR
)
#: To whoever asks for a step of a transaction.
OF_A_TRANSACTION: Mapping[ErrorCode, ErrorCode] = _ALWAYS | {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def told(failure: KafkaError, table: Mapping[ErrorCode, ErrorCode]) -> KafkaError:
    """The failure as it is told to those whom ``table`` is about."""
    error = table.get(failure.error)
    return failure if error is None else KafkaError(failure.message, error=error)
