"""Assigns followed partitions to fetchers: ``num.replica.fetchers`` connections for each leader.

Kafka: ReplicaFetcherManager.

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

#: The leader's broker id and the index of a fetcher for it.
_FetcherKey = tuple[int, int]


class ClusterMetadata(Protocol):
    """The part of the metadata cache that has the addresses of brokers."""

    def nodes(self, listener: str, /) -> Mapping[int, Node]: ...


class ReplicaFetcherManager:
    """All fetchers of this broker."""

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
        #: Partitions whose leader has no known address.
        self._awaiting_leader: dict[TopicPartition, Partition] = {}
        self._is_closed = False

    def add_partition(self, partition: Partition) -> None:
        """Fetch the partition from its present leader."""
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
        """Start fetching from leaders that are known now; reconnect to those that moved."""
        nodes = self._metadata_cache.nodes(self._listener)
        for key, fetcher in [*self._fetchers.items()]:
            node = nodes.get(key[0])
            if node is not None and node != fetcher.leader:
                partitions = fetcher.partitions()
                self._stop_fetcher(key)
                for partition in partitions:
                    self._fetcher_keys.pop(partition.topic_partition, None)
                    self.add_partition(partition)
        # Last, or a partition could join the fetcher of the leader's old address.
        for partition in [*self._awaiting_leader.values()]:
            if partition.leader_id in nodes:
                self.add_partition(partition)

    def on_settings_change(self, settings: ReplicationSettings) -> None:
        """Redistribute the partitions if the number of fetchers for each leader has changed."""
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
        """Stop all fetchers; later role changes and disk failures have no effect."""
        self._is_closed = True
        self._fetcher_keys.clear()
        self._awaiting_leader.clear()
        for key in [*self._fetchers]:
            self._stop_fetcher(key)
