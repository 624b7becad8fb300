"""CreateTopics (key 19): create topics with given partitions, replicas and configuration.

    v0  introduced by KIP-4
    v1  validate-only requests; errors have a message
    v2  the response has a throttle time
    v3  the response is sent before throttling (KIP-219)
    v4  -1 partitions or replicas are the broker's defaults (KIP-464)
    v5  first flexible version; the response describes the new topic (KIP-525)
    v6  may return THROTTLING_QUOTA_EXCEEDED (KIP-599)
    v7  the response has the topic's id (KIP-516)

With ``assignments``, partitions and replication factor must both be -1.  ``config_source``: as in
``describe_configs.py``.  ``topic_config_error_code`` is the reason why the configs are not shown.
"""

from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    uuid,
)
from odradek.protocol.types import ZERO_UUID, Uuid


class CreateTopicsRequest(Message, key=19, versions="0-7", flexible="5+"):
    class Topic(Struct):
        class Assignment(Struct):
            partition_index: int = int32()
            broker_ids: list[int] = array(int32)

        class Config(Struct):
            name: str = string()
            value: str | None = string(nullable="0+")

        name: str = string()
        num_partitions: int = int32()
        replication_factor: int = int16()
        assignments: list[Assignment] = array(Assignment)
        configs: list[Config] = array(Config)

    topics: list[Topic] = array(Topic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean("1+", default=False)


class CreateTopicsResponse(Message, key=19, versions="0-7", flexible="5+"):
    class Topic(Struct):
        class Config(Struct):
            name: str = string("5+")
            value: str | None = string("5+", nullable="5+")
            read_only: bool = boolean("5+")
            config_source: int = int8("5+", default=-1, ignorable=True)
            is_sensitive: bool = boolean("5+")

        name: str = string()
        topic_id: Uuid = uuid("7+", default=ZERO_UUID, ignorable=True)
        error_code: int = int16()
        error_message: str | None = string("1+", nullable="0+", default="", ignorable=True)
        topic_config_error_code: int = int16("5+", tag=0, default=0, ignorable=True)
        num_partitions: int = int32("5+", default=-1, ignorable=True)
        replication_factor: int = int16("5+", default=-1, ignorable=True)
        configs: list[Config] | None = array(
            Config, "5+", nullable="5+", default=[], ignorable=True
        )

    throttle_time_ms: int = int32("2+", default=0, ignorable=True)
    topics: list[Topic] = array(Topic)
