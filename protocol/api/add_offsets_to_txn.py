"""AddOffsetsToTxn (key 25): a producer adds a group's offsets to its transaction.

    v0  introduced by KIP-98
    v1  the response is sent before throttling (KIP-219)
    v2  PRODUCER_FENCED where v1 returned INVALID_PRODUCER_EPOCH (KIP-588)
    v3  first flexible version
    v4  may return TRANSACTION_ABORTABLE (KIP-890)

The producer sends the offsets themselves with TxnOffsetCommit.
"""

from odradek.protocol.schema import Message, int16, int32, int64, string


class AddOffsetsToTxnRequest(Message, key=25, versions="0-4", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Message, key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
