"""InitProducerId (key 22): a producer obtains its id and epoch, and fences its predecessors.

    v0  introduced by KIP-98
    v1  the response is sent before throttling (KIP-219)
    v2  first flexible version
    v3  a producer with an id and epoch can continue with the next epoch (KIP-360)
    v4  PRODUCER_FENCED where v3 returned INVALID_PRODUCER_EPOCH (KIP-588)
    v5  may return TRANSACTION_ABORTABLE (KIP-890)
    v6  unstable: two-phase commit (KIP-939)

With a null ``transactional_id`` the producer is only idempotent.
"""

from odradek.protocol.schema import Message, boolean, int16, int32, int64, string


class InitProducerIdRequest(Message, key=22, versions="0-6", flexible="2+", unstable="6"):
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable_2pc: bool = boolean("6+", default=False)
    keep_prepared_txn: bool = boolean("6+", default=False)


class InitProducerIdResponse(Message, key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
