"""Requests of tools to the controller, made through the tree.

/admin/reassign_partitions: the new replicas of partitions.  Kafka: ReassignPartitionsZNode.

    {"version":1,"partitions":[{"topic":"T","partition":0,"replicas":[1,2]}]}

/admin/preferred_replica_election: partitions whose preferred replica is to become the leader.
Kafka: PreferredReplicaElectionZNode.

    {"version":1,"partitions":[{"topic":"T","partition":0}]}

/admin/delete_topics/T has no value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.controller.store import paths
from odradek.controller.store.payloads.json_object import JsonObject, write_json
from odradek.controller.store.payloads.partitions import (
    decode_partition,
    decode_partitions,
    encode_partition,
    encode_partitions,
)
from odradek.protocol.types import TopicPartition

_KNOWN_FIELDS = frozenset(("version", "partitions"))


@dataclass(frozen=True, slots=True)
class ReassignPartitions:
    replicas: Mapping[TopicPartition, tuple[int, ...]]
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        partitions = [
            {**encode_partition(partition), "replicas": replicas}
            for partition, replicas in self.replicas.items()
        ]
        return write_json({"version": 1, "partitions": partitions}, self.extra)

    @classmethod
    def decode(cls, value: bytes, path: str = paths.REASSIGN_PARTITIONS) -> ReassignPartitions:
        """If a partition is named twice, the last entry counts."""
        fields = JsonObject.parse(value, path)
        replicas = {
            decode_partition(entry): entry.int32_list("replicas")
            for entry in fields.object_list("partitions")
        }
        return cls(replicas, fields.fields_except(_KNOWN_FIELDS))


@dataclass(frozen=True, slots=True)
class PreferredReplicaElection:
    partitions: tuple[TopicPartition, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        fields = {"version": 1, "partitions": encode_partitions(self.partitions)}
        return write_json(fields, self.extra)

    @classmethod
    def decode(
        cls, value: bytes, path: str = paths.PREFERRED_REPLICA_ELECTION
    ) -> PreferredReplicaElection:
        fields = JsonObject.parse(value, path)
        return cls(
            decode_partitions(fields.object_list("partitions")), fields.fields_except(_KNOWN_FIELDS)
        )
