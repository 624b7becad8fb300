"""Which replica stands closest to a consumer?  (KIP-392)

A consumer says in which rack it is, and the leader sends it to a follower there, if one is in sync
and has what it asks for: of several the one that has most.  The follower serves it up to the high
watermark that it knows of.  A consumer that the follower has nothing for comes back to the leader.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.replicas.leader_state import LeaderState


class ClusterMetadata(Protocol):
    """Where brokers are, for clients of a listener."""

    def nodes(self, listener: str, /) -> Mapping[int, Node]: ...


@dataclass(frozen=True, slots=True)
class ClientMetadata:
    """From where a consumer reads: its rack, empty if it does not say, and how it comes here."""

    rack_id: str
    listener: str


class RackAwareReplicaSelector:
    """What Kafka calls the rack-aware selector of replicas."""

    def __init__(self, metadata_cache: ClusterMetadata) -> None:
        self._metadata_cache = metadata_cache

    def select(
        self, leader_state: LeaderState, client_metadata: ClientMetadata, offset: int
    ) -> int | None:
        """Closer than the leader; None if none is."""
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
