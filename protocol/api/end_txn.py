"""EndTxn (key 26): a producer commits or aborts its transaction.

    v0  introduced by KIP-98
    v1  the response is sent before throttling (KIP-219)
    v2  PRODUCER_FENCED where v1 returned INVALID_PRODUCER_EPOCH (KIP-588)
    v3  first flexible version
    v4  may return TRANSACTION_ABORTABLE (KIP-890)
    v5  every transaction has its own epoch: the response contains the next (KIP-890)

``committed``: true commits, false aborts.
"""

from odradek.protocol.schema import Message, boolean, int16, int32, int64, string


class EndTxnRequest(Message, key=26, versions="0-5", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Message, key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
