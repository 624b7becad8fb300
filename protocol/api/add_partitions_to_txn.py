"""AddPartitionsToTxn (key 24): add partitions to a transaction before writing to them.

    v0  introduced by KIP-98
    v1  the response is sent before throttling (KIP-219)
    v2  PRODUCER_FENCED where v1 returned INVALID_PRODUCER_EPOCH (KIP-588)
    v3  first flexible version
    v4  for brokers only: several transactions at once, optionally verify only (KIP-890)
    v5  may return TRANSACTION_ABORTABLE (KIP-890)

Clients use v0-3, with a single transaction in the ``v3_and_below`` fields.  ``verify_only`` checks
whether the transaction contains the partitions and adds none.
"""

from odradek.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string


class AddPartitionsToTxnTopic(Struct):
    name: str = string()
    partitions: list[int] = array(int32)


class AddPartitionsToTxnRequest(Message, key=24, versions="0-5", flexible="3+"):
    class Transaction(Struct):
        transactional_id: str = string("4+")
        producer_id: int = int64("4+")
        producer_epoch: int = int16("4+")
        verify_only: bool = boolean("4+", default=False)
        topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")

    transactions: list[Transaction] = array(Transaction, "4+", default=[])
    v3_and_below_transactional_id: str = string("0-3", default="")
    v3_and_below_producer_id: int = int64("0-3", default=0)
    v3_and_below_producer_epoch: int = int16("0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(
        AddPartitionsToTxnTopic, "0-3", default=[]
    )


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = int32()
    partition_error_code: int = int16()


class AddPartitionsToTxnTopicResult(Struct):
    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult
    )


class AddPartitionsToTxnResponse(Message, key=24, versions="0-5", flexible="3+"):
    class TransactionResult(Struct):
        transactional_id: str = string("4+")
        topic_results: list[AddPartitionsToTxnTopicResult] = array(
            AddPartitionsToTxnTopicResult, "4+"
        )

    throttle_time_ms: int = int32()
    error_code: int = int16("4+", default=0, ignorable=True)
    results_by_transaction: list[TransactionResult] = array(TransactionResult, "4+", default=[])
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "0-3", default=[]
    )
