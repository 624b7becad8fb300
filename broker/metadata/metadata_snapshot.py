"""The cluster as its controller last told of it: brokers, topics and partitions at one moment.

A picture is never changed: an UpdateMetadata makes another, which shares with it whatever has
stayed as it was.  So whoever holds one may look at it as long as they like, and sees no mixture.

Invariant: the partitions of a topic are in the order of their numbers, and there is at least one.
Invariant: whoever has not changed is the same object; brokers too, if none came, went or moved.

Owner: none; immutable, but for what is remembered of how a topic was shown.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from odradek.controller.leader_and_isr import NO_LEADER
from odradek.protocol.api.update_metadata import UpdateMetadataPartitionState
from odradek.protocol.types import Uuid

NO_CONTROLLER = -1

#: As it came in the request; read, never changed.
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
    """Those that are alive; ``nodes`` by listener and id, since not all may have every listener."""

    ids: frozenset[int] = frozenset()
    nodes: Mapping[str, Mapping[int, Node]] = field(default_factory=dict)

    def nodes_for_listener(self, listener: str) -> Mapping[int, Node]:
        return self.nodes.get(listener, _NO_NODES)


@dataclass(frozen=True, slots=True, eq=False)
class Topic:
    """``id`` is ZERO_UUID where brokers speak a protocol older than topic ids."""

    name: str
    id: Uuid
    partitions: Mapping[int, PartitionState]
    #: How it was shown, by what it depends on; see topic_view.py.
    cached_responses: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    @property
    def known_partition_count(self) -> int:
        """How many it has at least: nobody is told of those that never had a leader."""
        return max(self.partitions) + 1

    def has_leader(self, partition: int) -> bool:
        state = self.partitions.get(partition)
        return state is not None and state.leader != NO_LEADER


@dataclass(frozen=True, slots=True)
class MetadataSnapshot:
    """``names`` are those of the topics that have an id."""

    controller_id: int = NO_CONTROLLER
    brokers: AliveBrokers = field(default_factory=AliveBrokers)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    topic_names: Mapping[Uuid, str] = field(default_factory=dict)
