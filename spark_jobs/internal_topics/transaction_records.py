"""The records of ``__transaction_state``: each says all that is known of a transactional id.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from functools import lru_cache

from odradek.protocol.internal.log_record import TRANSACTION_LOG, decode_part
from odradek.protocol.internal.transaction_log import (
    STATUSES,
    TransactionLogKey,
    TransactionLogValue,
)
from odradek.protocol.schema import Message
from odradek.spark_jobs.contents.cells import Cells, ReadKey, kind_of, microseconds, named, unknown


@lru_cache(maxsize=16_384)
def read_key(key: bytes) -> ReadKey:
    """Raises DecodeError."""
    kind = kind_of(key, TRANSACTION_LOG)
    if kind is None:
        return unknown(key)
    read = decode_part(TransactionLogKey, key)
    return ReadKey(named(kind, transactionalId=read.transactional_id), kind.value)


def value_cells(_: type[Message], value: bytes) -> Cells:
    """Raises DecodeError.  A state that is not known is told by its number."""
    read = decode_part(TransactionLogValue, value)
    return {
        "state": STATUSES.get(read.transaction_status, str(read.transaction_status)),
        "producerId": read.producer_id,
        "producerEpoch": read.producer_epoch,
        "previousProducerId": _or_none(read.previous_producer_id),
        "nextProducerId": _or_none(read.next_producer_id),
        "timeoutMs": read.transaction_timeout_ms,
        "partitions": [
            {"topic": topic.topic, "partition": partition}
            for topic in read.transaction_partitions or ()
            for partition in topic.partition_ids
        ],
        "startTimestamp": microseconds(read.transaction_start_timestamp_ms),
        "lastUpdateTimestamp": microseconds(read.transaction_last_update_timestamp_ms),
        "clientTransactionVersion": read.client_transaction_version,
    }


def _or_none(producer_id: int) -> int | None:
    return None if producer_id < 0 else producer_id
