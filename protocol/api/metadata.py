"""Metadata (key 3): the brokers, and the leaders and replicas of topics.

    v0   an empty list of topics selects all
    v1   null selects all topics, an empty list none; racks, controller, internal topics
    v2   the cluster's id (KIP-78)
    v3   the response has a throttle time
    v4   a client may disable the automatic creation of topics
    v5   offline replicas (KIP-112)
    v6   the response is sent before throttling (KIP-219); LISTENER_NOT_FOUND where v5 returned
         LEADER_NOT_AVAILABLE
    v7   leader epochs (KIP-320)
    v8   authorized operations on request (KIP-430)
    v9   first flexible version
    v10  topic ids in the response; in the request they must be zero (KIP-516)
    v11  no authorized operations on the cluster: DescribeCluster has them (KIP-700)
    v12  topics can be requested by id (KIP-516)
    v13  an error code for the whole request: REBOOTSTRAP_REQUIRED (KIP-1102)

``leader_id`` and ``controller_id`` are -1 when there is none.  Authorized operations: as in
``describe_acls.py``.  From v12 on ``name`` is null if a requested id is unknown.
"""

from odradek.protocol.schema import Message, Struct, array, boolean, int16, int32, string, uuid
from odradek.protocol.types import ZERO_UUID, Uuid


class MetadataRequest(Message, key=3, versions="0-13", flexible="9+"):
    class Topic(Struct):
        topic_id: Uuid = uuid("10+", default=ZERO_UUID, ignorable=True)
        name: str | None = string(nullable="10+")

    topics: list[Topic] | None = array(Topic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10", default=False)
    include_topic_authorized_operations: bool = boolean("8+", default=False)


class MetadataResponse(Message, key=3, versions="0-13", flexible="9+"):
    class Broker(Struct):
        node_id: int = int32()
        host: str = string()
        port: int = int32()
        rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)

    class Topic(Struct):
        class Partition(Struct):
            error_code: int = int16()
            partition_index: int = int32()
            leader_id: int = int32()
            leader_epoch: int = int32("7+", default=-1, ignorable=True)
            replica_nodes: list[int] = array(int32)
            isr_nodes: list[int] = array(int32)
            offline_replicas: list[int] = array(int32, "5+", default=[], ignorable=True)

        error_code: int = int16()
        name: str | None = string(nullable="12+")
        topic_id: Uuid = uuid("10+", default=ZERO_UUID, ignorable=True)
        is_internal: bool = boolean("1+", default=False, ignorable=True)
        partitions: list[Partition] = array(Partition)
        topic_authorized_operations: int = int32("8+", default=-2147483648)

    throttle_time_ms: int = int32("3+", default=0, ignorable=True)
    brokers: list[Broker] = array(Broker)
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[Topic] = array(Topic)
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)
    error_code: int = int16("13+", default=0, ignorable=True)
