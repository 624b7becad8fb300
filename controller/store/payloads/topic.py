"""A topic: its id, where its partitions' replicas are, and who leads each partition.

/brokers/topics/T

    {"partitions":{"0":[1,2,3]},"topic_id":"...","adding_replicas":{"0":[3]},
     "removing_replicas":{"0":[1]},"version":3}

    v1  partitions
    v2  adding_replicas and removing_replicas: a reassignment is under way (KIP-455)
    v3  topic_id (KIP-516)

/brokers/topics/T/partitions/P/state

    {"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}

    leader_recovery_state (1: recovering) is written, before leader_epoch, only if it is not 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.controller.assignment import Assignment
from odradek.controller.store.paths import partition_number
from odradek.controller.store.payloads.fields import Fields, write_json
from odradek.controller.store.payloads.key_order import like_mutable_map
from odradek.protocol.types import Uuid


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """A topic without an id was made before Kafka 2.8."""

    partitions: Mapping[int, Assignment]
    topic_id: Uuid | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        each = {str(number): assignment for number, assignment in self.partitions.items()}
        adding = {number: at.adding for number, at in each.items() if at.adding}
        removing = {number: at.removing for number, at in each.items() if at.removing}
        fields: dict[str, Any] = {
            "partitions": like_mutable_map({number: at.replicas for number, at in each.items()})
        }
        if self.topic_id is not None:
            fields["topic_id"] = str(self.topic_id)
        fields["adding_replicas"] = like_mutable_map(adding)
        fields["removing_replicas"] = like_mutable_map(removing)
        fields["version"] = 3
        return write_json(fields, self.extra)

    @classmethod
    def decode(cls, value: bytes, node: str = "a topic") -> TopicAssignment:
        fields = Fields.parse(value, node)
        replicas = fields.int32s_map("partitions")
        adding = fields.int32s_map("adding_replicas")
        removing = fields.int32s_map("removing_replicas")
        return cls(
            partitions={
                _number(number, fields): Assignment(
                    there, adding.get(number, ()), removing.get(number, ())
                )
                for number, there in replicas.items()
            },
            topic_id=_topic_id(fields) if fields.has("topic_id") else None,
            extra=fields.beyond(_OF_A_TOPIC),
        )


def _number(name: str, fields: Fields) -> int:
    number = partition_number(name)
    if number is None:
        fields.refuse(f"not a partition: {name!r}")
    return number


def _topic_id(fields: Fields) -> Uuid:
    text = fields.text("topic_id")
    try:
        topic_id = Uuid.parse(text)
    except ValueError as error:
        fields.refuse(f"topic_id: {error}")
    # The last character has bits to spare, which no writer sets.
    if str(topic_id) != text:
        fields.refuse(f"not a topic's id: {text!r}")
    return topic_id


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """A partition's state.  The node's own version guards every change of it.

    A leader is recovering while it makes good what an unclean election lost (KIP-704).
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
    def decode(cls, value: bytes, node: str = "a partition's state") -> LeaderAndIsr:
        fields = Fields.parse(value, node)
        recovery = fields.int32("leader_recovery_state", default=0)
        if recovery not in (0, 1):
            fields.refuse(f"leader_recovery_state is unknown: {recovery}")
        return cls(
            leader=fields.int32("leader"),
            leader_epoch=fields.int32("leader_epoch"),
            isr=fields.int32s("isr"),
            controller_epoch=fields.int32("controller_epoch"),
            is_recovering=recovery == 1,
            extra=fields.beyond(_OF_A_PARTITION),
        )


_OF_A_TOPIC = frozenset(
    ("version", "partitions", "topic_id", "adding_replicas", "removing_replicas")
)
_OF_A_PARTITION = frozenset(
    ("version", "controller_epoch", "leader", "leader_epoch", "isr", "leader_recovery_state")
)
