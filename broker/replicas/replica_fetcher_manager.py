"""Which connection fetches which partition: some for each leader, as ``num.replica.fetchers`` says.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.network.broker_clients import Client
from odradek.broker.replicas.partition import Partition
from odradek.broker.replicas.replica_fetcher import FetcherContext, ReplicaFetcher
from odradek.broker.settings.replication import ReplicationSettings
from odradek.protocol.types import TopicPartition

#: A leader's id, and the number of a connection to it.
_FetcherKey = tuple[int, int]


class ClusterMetadata(Protocol):
    """Where brokers are."""

    def nodes(self, listener: str, /) -> Mapping[int, Node]: ...


class ReplicaFetcherManager:
    """All that this broker follows is fetched by one of these."""

    def __init__(
        self,
        context: FetcherContext,
        metadata_cache: ClusterMetadata,
        *,
        listener: str,
        create_client: Callable[[Node], Client],
        start_task: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        self._context = context
        self._metadata_cache = metadata_cache
        self._listener = listener
        self._create_client = create_client
        self._start_task = start_task
        self._fetchers_per_broker = context.settings().num_replica_fetchers
        self._fetchers: dict[_FetcherKey, ReplicaFetcher] = {}
        self._fetcher_keys: dict[TopicPartition, _FetcherKey] = {}
        #: Whose leader is not known to be anywhere.
        self._awaiting_leader: dict[TopicPartition, Partition] = {}
        self._is_closed = False

    def add_partition(self, partition: Partition) -> None:
        """From the leader that it has now."""
        topic_partition = partition.topic_partition
        self.remove_partition(topic_partition)
        if self._is_closed:
            return
        node = self._metadata_cache.nodes(self._listener).get(partition.leader_id)
        if node is None:
            self._awaiting_leader[topic_partition] = partition
            return
        key = (
            node.id,
            (31 * hash(topic_partition.topic) + topic_partition.partition)
            % max(1, self._fetchers_per_broker),
        )
        self._fetcher_keys[topic_partition] = key
        self._get_or_create_fetcher(key, node).add_partition(partition)

    def remove_partition(self, partition: TopicPartition) -> None:
        self._awaiting_leader.pop(partition, None)
        key = self._fetcher_keys.pop(partition, None)
        if key is None:
            return
        fetcher = self._fetchers[key]
        fetcher.remove_partition(partition)
        if fetcher.is_idle:
            self._stop_fetcher(key)

    def on_metadata_change(self) -> None:
        """Leaders that were not known may be there; those that moved are found where they are."""
        nodes = self._metadata_cache.nodes(self._listener)
        for key, fetcher in [*self._fetchers.items()]:
            node = nodes.get(key[0])
            if node is not None and node != fetcher.leader:
                partitions = fetcher.partitions()
                self._stop_fetcher(key)
                for partition in partitions:
                    self._fetcher_keys.pop(partition.topic_partition, None)
                    self.add_partition(partition)
        # Not before: a fetcher of where the leader was must not be taken for one of where it is.
        for partition in [*self._awaiting_leader.values()]:
            if partition.leader_id in nodes:
                self.add_partition(partition)

    def on_settings_change(self, settings: ReplicationSettings) -> None:
        """There may be more or fewer connections for each leader."""
        if settings.num_replica_fetchers != self._fetchers_per_broker:
            self._fetchers_per_broker = settings.num_replica_fetchers
            partitions = [
                partition
                for fetcher in self._fetchers.values()
                for partition in fetcher.partitions()
            ]
            for partition in partitions:
                self.add_partition(partition)

    def _get_or_create_fetcher(self, key: _FetcherKey, node: Node) -> ReplicaFetcher:
        existing = self._fetchers.get(key)
        if existing is not None:
            assert existing.leader == node, (existing.leader, node)
            return existing
        fetcher = ReplicaFetcher(node, self._create_client(node), self._context)
        self._fetchers[key] = fetcher
        self._start_task(fetcher.run(), f"fetches from broker {node.id}")
        return fetcher

    def _stop_fetcher(self, key: _FetcherKey) -> None:
        self._fetchers.pop(key).close()

    def close(self) -> None:
        """Whoever is told of roles or failed disks after that is told in vain."""
        self._is_closed = True
        self._fetcher_keys.clear()
        self._awaiting_leader.clear()
        for key in [*self._fetchers]:
            self._stop_fetcher(key)
