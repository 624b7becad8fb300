"""ElectLeaders (key 43): the controller elects new leaders for partitions.

    v0  introduced by KIP-183, for preferred leaders only
    v1  unclean elections; an error code for the whole request (KIP-460)
    v2  first flexible version

``election_type``: 0 the preferred replica, 1 unclean: any live replica if none is in sync.  Null
``topic_partitions`` select all.
"""

from odradek.protocol.schema import Message, Struct, array, int8, int16, int32, string


class ElectLeadersRequest(Message, key=43, versions="0-2", flexible="2+"):
    class TopicPartitions(Struct):
        topic: str = string()
        partitions: list[int] = array(int32)

    election_type: int = int8("1+", default=0)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms: int = int32(default=60000)


class ElectLeadersResponse(Message, key=43, versions="0-2", flexible="2+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_id: int = int32()
            error_code: int = int16()
            error_message: str | None = string(nullable="0+")

        topic: str = string()
        partition_result: list[Partition] = array(Partition)

    throttle_time_ms: int = int32()
    error_code: int = int16("1+", default=0)
    replica_election_results: list[Topic] = array(Topic)
