"""Encodes and decodes the keys and values of ``__transaction_state``, in Kafka's format.

Kafka: TransactionLog.

A value has version 0 while ``transaction.version`` is 0, so that every Kafka from 0.11 on can read
it, and version 1 afterwards.  Both versions are read.  Version 0 loses the previous and the next
producer id, and the ``transaction.version`` of the client.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from functools import lru_cache

from odradek.broker.transactions.transaction_state import TransactionMetadata, TransactionState
from odradek.protocol.errors import DecodeError
from odradek.protocol.internal.coordinator_record import (
    decode_version_prefixed,
    encode_version_prefixed,
)
from odradek.protocol.internal.transaction_log import TransactionLogKey, TransactionLogValue
from odradek.protocol.types import TopicPartition, group_by_topic

TRANSACTION_KEY_VERSION = 0

_Topic = TransactionLogValue.TopicPartitions


# The same ids are written again and again.
@lru_cache(maxsize=16_384)
def transaction_key(transactional_id: str) -> bytes:
    return encode_version_prefixed(
        TransactionLogKey(transactional_id=transactional_id), TRANSACTION_KEY_VERSION
    )


def read_key(key: bytes) -> str:
    return decode_version_prefixed(TransactionLogKey, key).transactional_id


def transaction_value(txn: TransactionMetadata, *, transaction_version: int) -> bytes:
    """``transaction_version`` is the finalized ``transaction.version`` of the cluster."""
    value = TransactionLogValue(
        producer_id=txn.producer_id,
        previous_producer_id=txn.previous_producer_id,
        next_producer_id=txn.next_producer_id,
        producer_epoch=txn.producer_epoch,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_status=txn.state.value,
        transaction_partitions=None if txn.state is TransactionState.EMPTY else _topics(txn),
        transaction_last_update_timestamp_ms=txn.updated_ms,
        transaction_start_timestamp_ms=txn.started_ms,
        client_transaction_version=txn.client_transaction_version,
    )
    if transaction_version:
        return encode_version_prefixed(value, 1)
    value.previous_producer_id = value.next_producer_id = -1
    value.client_transaction_version = 0
    return encode_version_prefixed(value, 0)


def read_value(transactional_id: str, encoded: bytes) -> TransactionMetadata:
    """Raises DecodeError."""
    value = decode_version_prefixed(TransactionLogValue, encoded)
    try:
        state = TransactionState(value.transaction_status)
    except ValueError as error:
        raise DecodeError(
            f"transactionalId {transactional_id!r}: unknown state {value.transaction_status}"
        ) from error
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        timeout_ms=value.transaction_timeout_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        producer_epoch=value.producer_epoch,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        started_ms=value.transaction_start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_transaction_version=value.client_transaction_version,
    )


def _topics(txn: TransactionMetadata) -> list[_Topic]:
    topics = group_by_topic(sorted(txn.partitions))
    return [_Topic(topic=topic, partition_ids=numbers) for topic, numbers in topics.items()]
