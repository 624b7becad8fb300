"""Lists of partitions as JSON objects, as three payloads contain them.

[{"topic":"T","partition":0}]
"""

from collections.abc import Sequence
from typing import Any

from odradek.controller.store.payloads.json_object import JsonObject
from odradek.protocol.types import TopicPartition


def encode_partition(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


def decode_partition(fields: JsonObject) -> TopicPartition:
    return TopicPartition(fields.text("topic"), fields.int32("partition"))


def encode_partitions(partitions: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    return [encode_partition(partition) for partition in partitions]


def decode_partitions(objects: Sequence[JsonObject]) -> tuple[TopicPartition, ...]:
    """Return the partitions in order, without duplicates."""
    return tuple(dict.fromkeys(map(decode_partition, objects)))
