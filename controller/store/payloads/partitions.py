"""Partitions in a list of JSON objects, as three payloads have them.

[{"topic":"T","partition":0}]
"""

from collections.abc import Sequence
from typing import Any

from odradek.controller.store.payloads.fields import Fields
from odradek.protocol.types import TopicPartition


def partition_object(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


def partition_in(fields: Fields) -> TopicPartition:
    return TopicPartition(fields.text("topic"), fields.int32("partition"))


def partition_objects(partitions: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    return [partition_object(each) for each in partitions]


def partitions_in(objects: Sequence[Fields]) -> tuple[TopicPartition, ...]:
    """In their order, each once."""
    return tuple(dict.fromkeys(map(partition_in, objects)))
