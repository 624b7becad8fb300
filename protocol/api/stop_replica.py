"""StopReplica (key 5): the controller stops replicas on a broker, and optionally deletes them.

    v1  partitions grouped by topic; the broker's epoch is checked (KIP-380)
    v2  first flexible version
    v3  each partition has its leader epoch and a delete flag; may return FENCED_LEADER_EPOCH
        (KIP-570)
    v4  the sender may be a KRaft controller (KIP-866)

``leader_epoch``: -1 unknown, -2 the topic is being deleted; neither is checked.
"""

from odradek.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string


class StopReplicaRequest(Message, key=5, versions="0-4", flexible="2+"):
    class PartitionV0(Struct):
        topic_name: str = string("0")
        partition_index: int = int32("0")

    class TopicV1(Struct):
        name: str = string("1-2")
        partition_indexes: list[int] = array(int32, "1-2")

    class TopicState(Struct):
        class PartitionState(Struct):
            partition_index: int = int32("3+")
            leader_epoch: int = int32("3+", default=-1)
            delete_partition: bool = boolean("3+")

        topic_name: str = string("3+")
        partition_states: list[PartitionState] = array(PartitionState, "3+")

    controller_id: int = int32()
    is_kraft_controller: bool = boolean("4+", default=False)
    controller_epoch: int = int32()
    broker_epoch: int = int64("1+", default=-1, ignorable=True)
    delete_partitions: bool = boolean("0-2", default=False)
    ungrouped_partitions: list[PartitionV0] = array(PartitionV0, "0", default=[])
    topics: list[TopicV1] = array(TopicV1, "1-2", default=[])
    topic_states: list[TopicState] = array(TopicState, "3+", default=[])


class StopReplicaResponse(Message, key=5, versions="0-4", flexible="2+"):
    class PartitionError(Struct):
        topic_name: str = string()
        partition_index: int = int32()
        error_code: int = int16()

    error_code: int = int16()
    partition_errors: list[PartitionError] = array(PartitionError)
