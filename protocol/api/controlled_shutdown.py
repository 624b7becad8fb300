"""ControlledShutdown (key 7): a broker asks the controller to move its leaders before it stops.

    v0  the request header is v0, without client id
    v1  the ordinary request header
    v2  the broker's epoch (KIP-380)
    v3  first flexible version

``remaining_partitions`` are those the broker still leads; it retries until there are none.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string


class ControlledShutdownRequest(Message, key=7, versions="0-3", flexible="3+"):
    broker_id: int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)


class ControlledShutdownResponse(Message, key=7, versions="0-3", flexible="3+"):
    class RemainingPartition(Struct):
        topic_name: str = string()
        partition_index: int = int32()

    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)
