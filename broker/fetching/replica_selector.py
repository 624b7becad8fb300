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

from odradek.broker.metadata.picture import Node
from odradek.broker.replicas.leader import LeaderRole


class Cluster(Protocol):
    """Where brokers are, for clients of a listener."""

    def nodes(self, listener: str, /) -> Mapping[int, Node]: ...


@dataclass(frozen=True, slots=True)
class Place:
    """From where a consumer reads: its rack, empty if it does not say, and how it comes here."""

    rack: str
    listener: str


class ClosestReplica:
    """What Kafka calls the rack-aware selector of replicas."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def than(self, leader: LeaderRole, place: Place, offset: int) -> int | None:
        """Closer than the leader; None if none is."""
        if not place.rack:
            return None
        nodes = self._cluster.nodes(place.listener)
        close = {broker for broker, node in nodes.items() if node.rack == place.rack}
        if leader.local_id in close:
            return None
        fit = [
            (progress.end_offset, progress.last_at_end_ms, replica)
            for replica, progress in leader.followers.items()
            if replica in close
            and replica in leader.in_sync
            and progress.start_offset <= offset <= progress.end_offset
        ]
        return max(fit)[-1] if fit else None
