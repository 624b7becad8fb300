"""The current leaders in Produce and Fetch responses (KIP-951).

A client that sent its request to the wrong broker needs no Metadata request: the response of the
partition names the current leader, and the end of the response lists the endpoints of the leaders.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from odradek.broker.metadata.metadata_snapshot import Node, PartitionState
from odradek.broker.replicas.partition import NO_LEADER_EPOCH, Partition

UNKNOWN_LEADER_ID = -1

Endpoint = TypeVar("Endpoint")


class LeaderMetadata(Protocol):
    """The part of the metadata cache that this module needs."""

    def partition(self, topic: str, partition: int, /) -> PartitionState | None: ...

    def nodes(self, listener: str) -> Mapping[int, Node]: ...


class Leader(NamedTuple):
    """The leader of a partition; ``id`` is UNKNOWN_LEADER_ID if it is not known."""

    id: int
    epoch: int


class CurrentLeaders:
    """The current leaders of one response, with their endpoints on the client's listener."""

    def __init__(self, metadata_cache: LeaderMetadata, listener: str) -> None:
        self._metadata_cache = metadata_cache
        self._alive_nodes = metadata_cache.nodes(listener)
        self._leader_nodes: dict[int, Node] = {}

    def current_leader(self, topic: str, index: int, partition: Partition | None) -> Leader:
        """Return the leader that the hosted partition knows, else the one in the metadata cache."""
        leader = self._find_leader(topic, index, partition)
        node = self._alive_nodes.get(leader.id)
        if node is not None:
            self._leader_nodes[node.id] = node
        return leader

    def _find_leader(self, topic: str, index: int, partition: Partition | None) -> Leader:
        if partition is not None:
            return Leader(partition.leader_id, partition.leader_epoch)
        state = self._metadata_cache.partition(topic, index)
        if state is None:
            return Leader(UNKNOWN_LEADER_ID, NO_LEADER_EPOCH)
        return Leader(state.leader, state.leader_epoch)

    def node_endpoints(self, endpoint_type: Callable[..., Endpoint]) -> list[Endpoint]:
        """Return one response entry for each distinct leader."""
        return [
            endpoint_type(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in self._leader_nodes.values()
        ]
