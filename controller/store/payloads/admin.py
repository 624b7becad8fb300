"""What tools ask of the controller through the tree.

/admin/reassign_partitions: replicas shall be on these brokers

    {"version":1,"partitions":[{"topic":"T","partition":0,"replicas":[1,2]}]}

/admin/preferred_replica_election: the first replica shall lead

    {"version":1,"partitions":[{"topic":"T","partition":0}]}

/admin/delete_topics/T has no value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.controller.store import paths
from odradek.controller.store.payloads.fields import Fields, write_json
from odradek.controller.store.payloads.partitions import (
    partition_in,
    partition_object,
    partition_objects,
    partitions_in,
)
from odradek.protocol.types import TopicPartition

_KNOWN = frozenset(("version", "partitions"))


@dataclass(frozen=True, slots=True)
class ReassignPartitions:
    replicas: Mapping[TopicPartition, tuple[int, ...]]
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        partitions = [
            {**partition_object(partition), "replicas": replicas}
            for partition, replicas in self.replicas.items()
        ]
        return write_json({"version": 1, "partitions": partitions}, self.extra)

    @classmethod
    def decode(cls, value: bytes, node: str = paths.REASSIGN_PARTITIONS) -> ReassignPartitions:
        """Of a partition that is named twice the last word counts."""
        fields = Fields.parse(value, node)
        replicas = {
            partition_in(each): each.int32s("replicas") for each in fields.objects("partitions")
        }
        return cls(replicas, fields.beyond(_KNOWN))


@dataclass(frozen=True, slots=True)
class PreferredReplicaElection:
    partitions: tuple[TopicPartition, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        fields = {"version": 1, "partitions": partition_objects(self.partitions)}
        return write_json(fields, self.extra)

    @classmethod
    def decode(
        cls, value: bytes, node: str = paths.PREFERRED_REPLICA_ELECTION
    ) -> PreferredReplicaElection:
        fields = Fields.parse(value, node)
        return cls(partitions_in(fields.objects("partitions")), fields.beyond(_KNOWN))
