"""Which connection fetches which partition: some for each leader, as ``num.replica.fetchers`` says.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from odradek.broker.metadata.picture import Node
from odradek.broker.network.broker_clients import Client
from odradek.broker.replicas.fetcher import Fetcher, Ground
from odradek.broker.replicas.partition import Partition
from odradek.broker.settings.replication import ReplicationSettings
from odradek.protocol.types import TopicPartition

#: A leader's id, and the number of a connection to it.
_Key = tuple[int, int]


class Cluster(Protocol):
    """Where brokers are."""

    def nodes(self, listener: str, /) -> Mapping[int, Node]: ...


class Fetchers:
    """All that this broker follows is fetched by one of these."""

    def __init__(
        self,
        ground: Ground,
        cluster: Cluster,
        *,
        listener: str,
        connect: Callable[[Node], Client],
        start: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        self._ground = ground
        self._cluster = cluster
        self._listener = listener
        self._connect = connect
        self._start = start
        self._count = ground.settings().fetchers
        self._running: dict[_Key, Fetcher] = {}
        self._assigned: dict[TopicPartition, _Key] = {}
        #: Whose leader is not known to be anywhere.
        self._homeless: dict[TopicPartition, Partition] = {}
        self._is_closed = False

    def follow(self, partition: Partition) -> None:
        """From the leader that it has now."""
        where = partition.topic_partition
        self.forget(where)
        if self._is_closed:
            return
        node = self._cluster.nodes(self._listener).get(partition.leader_id)
        if node is None:
            self._homeless[where] = partition
            return
        key = (node.id, (31 * hash(where.topic) + where.partition) % max(1, self._count))
        self._assigned[where] = key
        self._fetcher(key, node).follow(partition)

    def forget(self, partition: TopicPartition) -> None:
        self._homeless.pop(partition, None)
        key = self._assigned.pop(partition, None)
        if key is None:
            return
        fetcher = self._running[key]
        fetcher.forget(partition)
        if fetcher.is_idle:
            self._stop(key)

    def picture_changed(self) -> None:
        """Leaders that were not known may be there; those that moved are found where they are."""
        nodes = self._cluster.nodes(self._listener)
        for key, fetcher in [*self._running.items()]:
            node = nodes.get(key[0])
            if node is not None and node != fetcher.leader:
                partitions = fetcher.partitions()
                self._stop(key)
                for partition in partitions:
                    self._assigned.pop(partition.topic_partition, None)
                    self.follow(partition)
        # Not before: a fetcher of where the leader was must not be taken for one of where it is.
        for partition in [*self._homeless.values()]:
            if partition.leader_id in nodes:
                self.follow(partition)

    def settings_changed(self, settings: ReplicationSettings) -> None:
        """There may be more or fewer connections for each leader."""
        if settings.fetchers != self._count:
            self._count = settings.fetchers
            followed = [each for one in self._running.values() for each in one.partitions()]
            for partition in followed:
                self.follow(partition)

    def _fetcher(self, key: _Key, node: Node) -> Fetcher:
        known = self._running.get(key)
        if known is not None:
            assert known.leader == node, (known.leader, node)
            return known
        fetcher = Fetcher(node, self._connect(node), self._ground)
        self._running[key] = fetcher
        self._start(fetcher.run(), f"fetches from broker {node.id}")
        return fetcher

    def _stop(self, key: _Key) -> None:
        self._running.pop(key).close()

    def close(self) -> None:
        """Whoever is told of roles or failed disks after that is told in vain."""
        self._is_closed = True
        self._assigned.clear()
        self._homeless.clear()
        for key in [*self._running]:
            self._stop(key)
