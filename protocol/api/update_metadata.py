"""UpdateMetadata (key 6): the controller sends the cluster metadata to brokers.

    v1  several endpoints per broker (KIP-2)
    v2  racks (KIP-36)
    v3  listener names (KIP-103)
    v4  offline replicas (KIP-112)
    v5  partitions grouped by topic; the broker's epoch is checked (KIP-380)
    v6  first flexible version
    v7  topic ids (KIP-516)
    v8  the sender may be a KRaft controller (KIP-866)

``leader``: -1 none, -2 the topic is being deleted.  ``security_protocol``: 0 PLAINTEXT, 1 SSL, 2
SASL_PLAINTEXT, 3 SASL_SSL.  ``type``: 0 unknown, 1 incremental, 2 full.
"""

from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)
from odradek.protocol.types import ZERO_UUID, Uuid


class UpdateMetadataPartitionState(Struct):
    topic_name: str = string("0-4", default="", ignorable=True)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    zk_version: int = int32()
    replicas: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, "4+", default=[], ignorable=True)


class UpdateMetadataRequest(Message, key=6, versions="0-8", flexible="6+"):
    class TopicState(Struct):
        topic_name: str = string("5+")
        topic_id: Uuid = uuid("7+", default=ZERO_UUID, ignorable=True)
        partition_states: list[UpdateMetadataPartitionState] = array(
            UpdateMetadataPartitionState, "5+"
        )

    class LiveBroker(Struct):
        class Endpoint(Struct):
            port: int = int32("1+")
            host: str = string("1+")
            listener: str = string("3+", default="", ignorable=True)
            security_protocol: int = int16("1+")

        id: int = int32()
        v0_host: str = string("0", default="", ignorable=True)
        v0_port: int = int32("0", default=0, ignorable=True)
        endpoints: list[Endpoint] = array(Endpoint, "1+", default=[], ignorable=True)
        rack: str | None = string("2+", nullable="0+", default="", ignorable=True)

    controller_id: int = int32()
    is_kraft_controller: bool = boolean("8+", default=False)
    type: int = int8("8+", tag=0, default=0)
    controller_epoch: int = int32()
    broker_epoch: int = int64("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, "0-4", default=[]
    )
    topic_states: list[TopicState] = array(TopicState, "5+", default=[])
    live_brokers: list[LiveBroker] = array(LiveBroker)


class UpdateMetadataResponse(Message, key=6, versions="0-8", flexible="6+"):
    error_code: int = int16()
