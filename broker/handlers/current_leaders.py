"""Where the leaders are that should have been asked (KIP-951).

A client that came to the wrong broker is spared the question of who leads: the line of the
partition says it, and the end of the response how each of those brokers is reached.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from odradek.broker.metadata.picture import Node, PartitionState
from odradek.broker.replicas.partition import NO_LEADER_EPOCH, Partition

NOBODY = -1

Endpoint = TypeVar("Endpoint")


class Cluster(Protocol):
    """The part of the cluster's picture that hints need."""

    def partition(self, topic: str, partition: int, /) -> PartitionState | None: ...

    def nodes(self, listener: str) -> Mapping[int, Node]: ...


class Leader(NamedTuple):
    """NOBODY, if it is not known."""

    id: int
    epoch: int


class LeaderHints:
    """Those of one response, to a client of one listener."""

    def __init__(self, cluster: Cluster, listener: str) -> None:
        self._cluster = cluster
        self._reachable = cluster.nodes(listener)
        self._nodes: dict[int, Node] = {}

    def leader_of(self, topic: str, index: int, partition: Partition | None) -> Leader:
        """As the controller told us, if the partition is here, or else as it told everybody."""
        leader = self._known(topic, index, partition)
        node = self._reachable.get(leader.id)
        if node is not None:
            self._nodes[node.id] = node
        return leader

    def _known(self, topic: str, index: int, partition: Partition | None) -> Leader:
        if partition is not None:
            return Leader(partition.leader_id, partition.leader_epoch)
        state = self._cluster.partition(topic, index)
        if state is None:
            return Leader(NOBODY, NO_LEADER_EPOCH)
        return Leader(state.leader, state.leader_epoch)

    def endpoints(self, kind: Callable[..., Endpoint]) -> list[Endpoint]:
        """Each of the leaders once, as an entry of the response."""
        return [
            kind(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in self._nodes.values()
        ]
