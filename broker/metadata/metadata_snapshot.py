"""Metadata snapshot: the brokers, topics and partitions of the cluster at one moment.

Kafka: MetadataSnapshot of ZkMetadataCache.

A snapshot never changes.  An UpdateMetadata request creates another one, which shares all unchanged
objects with it.  A caller may keep a snapshot as long as it likes, and always sees consistent data.

Invariant: the partitions of a topic are ordered by number, and there is at least one.
Invariant: an unchanged topic is the same object; so are the brokers if none of them changed.

Owner: none; immutable, except for the cached responses of a topic.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from odradek.controller.leader_and_isr import NO_LEADER
from odradek.protocol.api.update_metadata import UpdateMetadataPartitionState
from odradek.protocol.types import Uuid

NO_CONTROLLER = -1

#: As received in the request; never modified.
PartitionState = UpdateMetadataPartitionState


class Node(NamedTuple):
    """A broker as clients of one listener reach it."""

    id: int
    host: str
    port: int
    rack: str | None


_NO_NODES: Mapping[int, Node] = {}


@dataclass(frozen=True, slots=True)
class AliveBrokers:
    """Live brokers; ``nodes`` by listener and id, since a broker may lack a listener."""

    ids: frozenset[int] = frozenset()
    nodes: Mapping[str, Mapping[int, Node]] = field(default_factory=dict)

    def nodes_for_listener(self, listener: str) -> Mapping[int, Node]:
        return self.nodes.get(listener, _NO_NODES)


@dataclass(frozen=True, slots=True, eq=False)
class Topic:
    """``id`` is ZERO_UUID if the inter-broker protocol is older than topic ids."""

    name: str
    id: Uuid
    partitions: Mapping[int, PartitionState]
    #: Its Metadata responses, by the options they depend on; see topic_metadata.py.
    cached_responses: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    @property
    def known_partition_count(self) -> int:
        """The lowest possible count: partitions that never had a leader are not in updates."""
        return max(self.partitions) + 1

    def has_leader(self, partition: int) -> bool:
        state = self.partitions.get(partition)
        return state is not None and state.leader != NO_LEADER


@dataclass(frozen=True, slots=True)
class MetadataSnapshot:
    """``topic_names`` has the topics with an id."""

    controller_id: int = NO_CONTROLLER
    brokers: AliveBrokers = field(default_factory=AliveBrokers)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    topic_names: Mapping[Uuid, str] = field(default_factory=dict)
