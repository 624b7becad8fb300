"""WriteTxnMarkers (key 27): the coordinator appends transaction markers to the partitions' logs.

    v0  introduced by KIP-98
    v1  first flexible version

``transaction_result``: true commits, false aborts.
"""

from odradek.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string


class WriteTxnMarkersRequest(Message, key=27, versions="0-1", flexible="1+"):
    class Marker(Struct):
        class Topic(Struct):
            name: str = string()
            partition_indexes: list[int] = array(int32)

        producer_id: int = int64()
        producer_epoch: int = int16()
        transaction_result: bool = boolean()
        topics: list[Topic] = array(Topic)
        coordinator_epoch: int = int32()

    markers: list[Marker] = array(Marker)


class WriteTxnMarkersResponse(Message, key=27, versions="0-1", flexible="1+"):
    class Marker(Struct):
        class Topic(Struct):
            class Partition(Struct):
                partition_index: int = int32()
                error_code: int = int16()

            name: str = string()
            partitions: list[Partition] = array(Partition)

        producer_id: int = int64()
        topics: list[Topic] = array(Topic)

    markers: list[Marker] = array(Marker)
