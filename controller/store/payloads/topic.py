"""The assignment of a topic, and the leader and ISR of a partition.

/brokers/topics/T.  Kafka: TopicZNode.

    {"partitions":{"0":[1,2,3]},"topic_id":"...","adding_replicas":{"0":[3]},
     "removing_replicas":{"0":[1]},"version":3}

    v1  partitions
    v2  adding_replicas and removing_replicas: a reassignment is in progress (KIP-455)
    v3  topic_id (KIP-516)

/brokers/topics/T/partitions/P/state.  Kafka: TopicPartitionStateZNode.

    {"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}

    leader_recovery_state (1: recovering) is written, before leader_epoch, only if it is not 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store.paths import parse_partition_id
from odradek.controller.store.payloads.json_object import JsonObject, write_json
from odradek.controller.store.payloads.key_order import order_like_scala_mutable_map
from odradek.protocol.types import Uuid


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """The id and the replicas of a topic.  A topic without an id was created before Kafka 2.8."""

    partitions: Mapping[int, ReplicaAssignment]
    topic_id: Uuid | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        assignments = {str(number): assigned for number, assigned in self.partitions.items()}
        adding = {
            number: assigned.adding_replicas
            for number, assigned in assignments.items()
            if assigned.adding_replicas
        }
        removing = {
            number: assigned.removing_replicas
            for number, assigned in assignments.items()
            if assigned.removing_replicas
        }
        fields: dict[str, Any] = {
            "partitions": order_like_scala_mutable_map(
                {number: assigned.replicas for number, assigned in assignments.items()}
            )
        }
        if self.topic_id is not None:
            fields["topic_id"] = str(self.topic_id)
        fields["adding_replicas"] = order_like_scala_mutable_map(adding)
        fields["removing_replicas"] = order_like_scala_mutable_map(removing)
        fields["version"] = 3
        return write_json(fields, self.extra)

    @classmethod
    def decode(cls, value: bytes, path: str = "a topic") -> TopicAssignment:
        fields = JsonObject.parse(value, path)
        replicas = fields.int32_list_map("partitions")
        adding = fields.int32_list_map("adding_replicas")
        removing = fields.int32_list_map("removing_replicas")
        return cls(
            partitions={
                _parse_partition_id(number, fields): ReplicaAssignment(
                    assigned, adding.get(number, ()), removing.get(number, ())
                )
                for number, assigned in replicas.items()
            },
            topic_id=_decode_topic_id(fields) if fields.has("topic_id") else None,
            extra=fields.fields_except(_TOPIC_FIELDS),
        )


def _parse_partition_id(name: str, fields: JsonObject) -> int:
    number = parse_partition_id(name)
    if number is None:
        fields.raise_corrupt(f"invalid partition number {name!r}")
    return number


def _decode_topic_id(fields: JsonObject) -> Uuid:
    text = fields.text("topic_id")
    try:
        topic_id = Uuid.parse(text)
    except ValueError as error:
        fields.raise_corrupt(f"topic_id: {error}")
    # The last character has unused bits, which no writer sets.
    if str(topic_id) != text:
        fields.raise_corrupt(f"invalid topic_id {text!r}")
    return topic_id


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """The state of a partition.  The znode's version guards every change.

    A leader is recovering while it repairs the loss of an unclean election (KIP-704).
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    is_recovering: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        fields: dict[str, Any] = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
        }
        if self.is_recovering:
            fields["leader_recovery_state"] = 1
        fields["leader_epoch"] = self.leader_epoch
        fields["isr"] = self.isr
        return write_json(fields, self.extra)

    @classmethod
    def decode(cls, value: bytes, path: str = "a partition's state") -> LeaderAndIsr:
        fields = JsonObject.parse(value, path)
        recovery = fields.int32("leader_recovery_state", default=0)
        if recovery not in (0, 1):
            fields.raise_corrupt(f"unknown leader_recovery_state {recovery}")
        return cls(
            leader=fields.int32("leader"),
            leader_epoch=fields.int32("leader_epoch"),
            isr=fields.int32_list("isr"),
            controller_epoch=fields.int32("controller_epoch"),
            is_recovering=recovery == 1,
            extra=fields.fields_except(_PARTITION_STATE_FIELDS),
        )


_TOPIC_FIELDS = frozenset(
    ("version", "partitions", "topic_id", "adding_replicas", "removing_replicas")
)
_PARTITION_STATE_FIELDS = frozenset(
    ("version", "controller_epoch", "leader", "leader_epoch", "isr", "leader_recovery_state")
)
