"""OffsetFetch (key 9): read the offsets that groups have committed.

    v0   reads the offsets stored in ZooKeeper
    v1   reads the offsets stored in the group's log
    v2   null ``topics`` select all; an error code for the whole group (KIP-88)
    v3   the response has a throttle time
    v4   the response is sent before throttling (KIP-219)
    v5   leader epochs with the offsets (KIP-320)
    v6   first flexible version
    v7   on request, UNSTABLE_OFFSET_COMMIT while a transaction may still change them (KIP-447)
    v8   several groups at once (KIP-709)
    v9   member id and epoch of KIP-848 groups
    v10  unstable: topic ids instead of names (KIP-848)

``committed_offset`` is -1 if no offset is committed.
"""

from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    uuid,
)
from odradek.protocol.types import ZERO_UUID, Uuid


class OffsetFetchRequest(Message, key=9, versions="0-10", flexible="6+", unstable="10"):
    class Topic(Struct):
        name: str = string("0-7")
        partition_indexes: list[int] = array(int32, "0-7")

    class Group(Struct):
        class Topic(Struct):
            name: str = string("8-9", default="", ignorable=True)
            topic_id: Uuid = uuid("10+", default=ZERO_UUID, ignorable=True)
            partition_indexes: list[int] = array(int32, "8+")

        group_id: str = string("8+")
        member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)
        member_epoch: int = int32("9+", default=-1, ignorable=True)
        topics: list[Topic] | None = array(Topic, "8+", nullable="8+")

    group_id: str = string("0-7", default="")
    topics: list[Topic] | None = array(Topic, "0-7", nullable="2-7", default=[])
    groups: list[Group] = array(Group, "8+", default=[])
    require_stable: bool = boolean("7+", default=False)


class OffsetFetchResponse(Message, key=9, versions="0-10", flexible="6+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0-7")
            committed_offset: int = int64("0-7")
            committed_leader_epoch: int = int32("5-7", default=-1, ignorable=True)
            metadata: str | None = string("0-7", nullable="0-7")
            error_code: int = int16("0-7")

        name: str = string("0-7")
        partitions: list[Partition] = array(Partition, "0-7")

    class Group(Struct):
        class Topic(Struct):
            class Partition(Struct):
                partition_index: int = int32("8+")
                committed_offset: int = int64("8+")
                committed_leader_epoch: int = int32("8+", default=-1, ignorable=True)
                metadata: str | None = string("8+", nullable="8+")
                error_code: int = int16("8+")

            name: str = string("8-9", default="", ignorable=True)
            topic_id: Uuid = uuid("10+", default=ZERO_UUID, ignorable=True)
            partitions: list[Partition] = array(Partition, "8+")

        group_id: str = string("8+")
        topics: list[Topic] = array(Topic, "8+")
        error_code: int = int16("8+", default=0)

    throttle_time_ms: int = int32("3+", default=0, ignorable=True)
    topics: list[Topic] = array(Topic, "0-7", default=[])
    error_code: int = int16("2-7", default=0, ignorable=True)
    groups: list[Group] = array(Group, "8+", default=[])
