"""Records of ``__transaction_state``: each has the complete state of a transactional id.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from functools import lru_cache

from odradek.protocol.internal.coordinator_record import (
    TRANSACTION_RECORD_TYPES,
    decode_version_prefixed,
)
from odradek.protocol.internal.transaction_log import (
    TRANSACTION_STATE_NAMES,
    TransactionLogKey,
    TransactionLogValue,
)
from odradek.protocol.schema import Message
from odradek.spark_jobs.internal_topics.record_cells import (
    ParsedKey,
    RecordCells,
    find_record_type,
    key_cells,
    to_microseconds,
    unknown_key,
)


@lru_cache(maxsize=16_384)
def parse_key(key: bytes) -> ParsedKey:
    """Raise DecodeError if the key is malformed."""
    record_type = find_record_type(key, TRANSACTION_RECORD_TYPES)
    if record_type is None:
        return unknown_key(key)
    decoded = decode_version_prefixed(TransactionLogKey, key)
    return ParsedKey(
        key_cells(record_type, transactionalId=decoded.transactional_id), record_type.value
    )


def parse_value(_: type[Message], value: bytes) -> RecordCells:
    """Raise DecodeError if the value is malformed.  An unknown state has its number as name."""
    decoded = decode_version_prefixed(TransactionLogValue, value)
    return {
        "state": TRANSACTION_STATE_NAMES.get(
            decoded.transaction_status, str(decoded.transaction_status)
        ),
        "producerId": decoded.producer_id,
        "producerEpoch": decoded.producer_epoch,
        "previousProducerId": _producer_id_or_none(decoded.previous_producer_id),
        "nextProducerId": _producer_id_or_none(decoded.next_producer_id),
        "timeoutMs": decoded.transaction_timeout_ms,
        "partitions": [
            {"topic": topic.topic, "partition": partition}
            for topic in decoded.transaction_partitions or ()
            for partition in topic.partition_ids
        ],
        "startTimestamp": to_microseconds(decoded.transaction_start_timestamp_ms),
        "lastUpdateTimestamp": to_microseconds(decoded.transaction_last_update_timestamp_ms),
        "clientTransactionVersion": decoded.client_transaction_version,
    }


def _producer_id_or_none(producer_id: int) -> int | None:
    return None if producer_id < 0 else producer_id
