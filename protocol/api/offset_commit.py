"""OffsetCommit (key 8): store the committed offsets of a group.

    v0   offsets are stored in ZooKeeper, without membership
    v1   offsets are stored in the group's log, with the commit time; member id and generation
    v2   a retention time instead of the commit time
    v3   the response has a throttle time
    v4   the response is sent before throttling (KIP-219)
    v5   no retention time: the broker's setting applies (KIP-211)
    v6   leader epochs with the offsets (KIP-320)
    v7   the group instance id of static members (KIP-345)
    v8   first flexible version
    v9   members of KIP-848 groups too, by member epoch
    v10  unstable: topic ids instead of names (KIP-848)

Generation -1 with an empty ``member_id`` commits from outside the group, which must then be empty.
``retention_time_ms`` -1 is the broker's setting.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string, uuid
from odradek.protocol.types import ZERO_UUID, Uuid


class OffsetCommitRequest(Message, key=8, versions="0-10", flexible="8+", unstable="10"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32()
            committed_offset: int = int64()
            committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
            commit_timestamp: int = int64("1", default=-1)
            committed_metadata: str | None = string(nullable="0+")

        name: str = string("0-9", default="", ignorable=True)
        topic_id: Uuid = uuid("10+", default=ZERO_UUID, ignorable=True)
        partitions: list[Partition] = array(Partition)

    group_id: str = string()
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", default="", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[Topic] = array(Topic)


class OffsetCommitResponse(Message, key=8, versions="0-10", flexible="8+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32()
            error_code: int = int16()

        name: str = string("0-9", default="", ignorable=True)
        topic_id: Uuid = uuid("10+", default=ZERO_UUID, ignorable=True)
        partitions: list[Partition] = array(Partition)

    throttle_time_ms: int = int32("3+", default=0, ignorable=True)
    topics: list[Topic] = array(Topic)
