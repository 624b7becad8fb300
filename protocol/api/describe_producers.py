"""DescribeProducers (key 61): the idempotent and transactional producers of a partition.

    v0  introduced by KIP-664

``producer_epoch`` is an int32 here and an int16 everywhere else.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string


class DescribeProducersRequest(Message, key=61, versions="0", flexible="0+"):
    class Topic(Struct):
        name: str = string()
        partition_indexes: list[int] = array(int32)

    topics: list[Topic] = array(Topic)


class DescribeProducersResponse(Message, key=61, versions="0", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            class Producer(Struct):
                producer_id: int = int64()
                producer_epoch: int = int32()
                last_sequence: int = int32(default=-1)
                last_timestamp: int = int64(default=-1)
                coordinator_epoch: int = int32()
                current_txn_start_offset: int = int64(default=-1)

            partition_index: int = int32()
            error_code: int = int16()
            error_message: str | None = string(nullable="0+", default=None)
            active_producers: list[Producer] = array(Producer)

        name: str = string()
        partitions: list[Partition] = array(Partition)

    throttle_time_ms: int = int32()
    topics: list[Topic] = array(Topic)
