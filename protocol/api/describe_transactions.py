"""DescribeTransactions (key 65): state and partitions of transactional ids.

    v0  introduced by KIP-664

States are names: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort,
PrepareEpochFence.  ``transaction_start_time_ms`` is -1 in state Empty.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string


class DescribeTransactionsRequest(Message, key=65, versions="0", flexible="0+"):
    transactional_ids: list[str] = array(string)


class DescribeTransactionsResponse(Message, key=65, versions="0", flexible="0+"):
    class Transaction(Struct):
        class Topic(Struct):
            topic: str = string()
            partitions: list[int] = array(int32)

        error_code: int = int16()
        transactional_id: str = string()
        transaction_state: str = string()
        transaction_timeout_ms: int = int32()
        transaction_start_time_ms: int = int64()
        producer_id: int = int64()
        producer_epoch: int = int16()
        topics: list[Topic] = array(Topic)

    throttle_time_ms: int = int32()
    transaction_states: list[Transaction] = array(Transaction)
