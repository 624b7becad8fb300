"""Keys and values in ``__transaction_state``: the state of transactional ids.

The partition is determined by the hash of the transactional id.  Every key and value begins with an
int16 version, which is not part of the messages below; a null value is a tombstone.

    TransactionLogKey    v0  written
    TransactionLogValue  v0  written while transaction.version is 0
                         v1  first flexible version; previous and next producer id and the client's
                             transaction version as tagged fields (KIP-890); written from
                             transaction.version 1 on

All versions are read.  ``transaction_status`` is a key of TRANSACTION_STATE_NAMES;
``transaction_partitions`` is null in state Empty.
"""

from collections.abc import Mapping

from odradek.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string

#: The state names that clients receive, by their stored numbers.
TRANSACTION_STATE_NAMES: Mapping[int, str] = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}


class TransactionLogKey(Message, versions="0"):
    transactional_id: str = string("0")


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    class TopicPartitions(Struct):
        topic: str = string()
        partition_ids: list[int] = array(int32)

    producer_id: int = int64()
    previous_producer_id: int = int64("1+", tag=0, default=-1)
    next_producer_id: int = int64("1+", tag=1, default=-1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16("1+", tag=3, default=-1)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tag=2, default=0)
