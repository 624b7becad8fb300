"""Replica selector: selects the preferred read replica of a consumer (KIP-392).

A consumer states its rack, and the leader redirects it to a follower in that rack, if one is in the
ISR and has the fetch offset.  Of several it selects the one with the highest log end offset.  The
follower serves the consumer up to the high watermark that it knows.  If the follower has nothing
for the consumer, the consumer returns to the leader.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.replicas.leader_state import LeaderState


class ClusterMetadata(Protocol):
    """The part of the metadata cache that selection uses: brokers by listener."""

    def nodes(self, listener: str, /) -> Mapping[int, Node]: ...


@dataclass(frozen=True, slots=True)
class ClientMetadata:
    """The rack of a consumer, empty if unknown, and the listener that it uses."""

    rack_id: str
    listener: str


class RackAwareReplicaSelector:
    """Kafka: RackAwareReplicaSelector."""

    def __init__(self, metadata_cache: ClusterMetadata) -> None:
        self._metadata_cache = metadata_cache

    def select(
        self, leader_state: LeaderState, client_metadata: ClientMetadata, offset: int
    ) -> int | None:
        """Return a follower in the consumer's rack; None if the leader should serve."""
        if not client_metadata.rack_id:
            return None
        nodes = self._metadata_cache.nodes(client_metadata.listener)
        same_rack = {
            broker for broker, node in nodes.items() if node.rack == client_metadata.rack_id
        }
        if leader_state.local_broker_id in same_rack:
            return None
        candidates = [
            (replica_state.log_end_offset, replica_state.last_caught_up_time_ms, replica)
            for replica, replica_state in leader_state.followers.items()
            if replica in same_rack
            and replica in leader_state.isr
            and replica_state.log_start_offset <= offset <= replica_state.log_end_offset
        ]
        return max(candidates)[-1] if candidates else None
