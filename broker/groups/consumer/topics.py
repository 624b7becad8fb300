"""A snapshot of the cluster's topics for groups: by name, by id, by regular expression.

A group checks its topics when it sees a new snapshot.  To find that its own topics are unchanged,
it needs one look-up for each subscribed topic, and groups with equal subscriptions share the
result.  Topic hashes are cached in the topics of the metadata snapshot; the topics that match a
regex are cached until a topic is created or deleted.

A topic hash contains the racks of the brokers.  A broker that restarts keeps its rack here, as it
does in Kafka's registry; otherwise all groups would rebalance.  A broker that was already offline
when this broker started has no rack here.

Topics without an id, which brokers older than 2.8 create, cannot be assigned and are left out.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from odradek.broker.groups.consumer.metadata_hash import compute_group_hash, compute_topic_hash
from odradek.broker.groups.consumer.topic_regex_cache import TopicRegexCache
from odradek.broker.metadata.metadata_snapshot import MetadataSnapshot, Topic
from odradek.broker.time_slice import TimeSlice
from odradek.protocol.types import Uuid

#: An estimate: more than the number of subscriptions of groups that check at the same time.
MAX_CACHED_SUBSCRIPTIONS = 100


Value = TypeVar("Value")


class _BrokerRacks(NamedTuple):
    """The broker racks, on which topic hashes depend beside the topic."""

    racks: frozenset[tuple[int, str]]


class TopicsProvider:
    """Provides the topics of the current metadata snapshot, as one object per snapshot."""

    def __init__(self, snapshot: Callable[[], MetadataSnapshot]) -> None:
        self._snapshot = snapshot
        self._topics = TopicsSnapshot(snapshot())

    @property
    def current(self) -> TopicsSnapshot:
        self._topics = self._topics.with_snapshot(self._snapshot())
        return self._topics

    async def match_sliced(self, regexes: Iterable[str]) -> None:
        """Match in time slices; ``matching_topics`` is fast afterwards until topics are created."""
        time_slice = TimeSlice()
        for regex in regexes:
            await self.current.match_sliced(regex, time_slice)

    @property
    def regex_cache(self) -> TopicRegexCache:
        """The cache of the regexes that groups use."""
        return self._topics.regex_cache


class TopicsSnapshot:
    """The topics of one metadata snapshot."""

    def __init__(
        self, snapshot: MetadataSnapshot, *, previous: TopicsSnapshot | None = None
    ) -> None:
        self.snapshot = snapshot
        self._names_by_id = snapshot.topic_names
        self.regex_cache: TopicRegexCache = (
            TopicRegexCache() if previous is None else previous.regex_cache
        )
        #: The same object as in the previous snapshot if the names are unchanged.
        self._topics_by_name = snapshot.topics
        if previous is not None and previous._topics_by_name.keys() == snapshot.topics.keys():
            self._topics_by_name = previous._topics_by_name
        else:
            self.regex_cache.on_topic_names_changed(self._topics_by_name)
        self._broker_racks = _broker_racks(snapshot, previous)
        #: By subscribed topic names.
        self._partition_counts: dict[frozenset[str], Mapping[Uuid, int]] = {}
        self._hashes: dict[frozenset[str], int] = {}

    def with_snapshot(self, snapshot: MetadataSnapshot) -> TopicsSnapshot:
        """Return the topics of ``snapshot``; self if it is the same."""
        return self if snapshot is self.snapshot else TopicsSnapshot(snapshot, previous=self)

    def topic_id(self, name: str) -> Uuid | None:
        topic = self._topic(name)
        return None if topic is None else topic.id

    def topic_name(self, topic_id: Uuid) -> str | None:
        return self._names_by_id.get(topic_id)

    def partition_counts(self, topic_names: frozenset[str]) -> Mapping[Uuid, int]:
        """Return the partition counts of the topics that exist, by topic id."""
        counts = self._partition_counts.get(topic_names)
        if counts is None:
            topics = [topic for topic in map(self._topic, topic_names) if topic is not None]
            counts = {topic.id: topic.known_partition_count for topic in topics}
            _cache(self._partition_counts, topic_names, counts)
        return counts

    def compute_metadata_hash(self, topic_names: frozenset[str]) -> int:
        """Return the metadata hash of a group that subscribes to these topics."""
        metadata_hash = self._hashes.get(topic_names)
        if metadata_hash is None:
            topics = [topic for topic in map(self._topic, topic_names) if topic is not None]
            metadata_hash = compute_group_hash({topic.name: self._hash(topic) for topic in topics})
            _cache(self._hashes, topic_names, metadata_hash)
        return metadata_hash

    # Regular expressions

    def matching_topics(self, regex: str) -> frozenset[str]:
        """Raise InvalidRegularExpression."""
        return self.regex_cache.matching_topics(regex, self._topics_by_name)

    def exceeds_inline_limit(self, regexes: Iterable[str]) -> bool:
        """Whether resolving all these regexes takes too long to do inline."""
        return self.regex_cache.exceeds_inline_limit(regexes, self._topics_by_name)

    async def match_sliced(self, regex: str, time_slice: TimeSlice) -> None:
        await self.regex_cache.match_sliced(regex, self._topics_by_name, time_slice)

    def _topic(self, name: str) -> Topic | None:
        topic = self.snapshot.topics.get(name)
        return topic if topic is not None and topic.id in self._names_by_id else None

    def _hash(self, topic: Topic) -> int:
        topic_hash: int | None = topic.cached_responses.get(self._broker_racks)
        if topic_hash is None:
            racks = dict(self._broker_racks.racks)
            topic_hash = compute_topic_hash(
                topic.name,
                topic.id,
                [
                    [racks[replica] for replica in partition.replicas if replica in racks]
                    for partition in topic.partitions.values()
                ],
            )
            topic.cached_responses[self._broker_racks] = topic_hash
        return topic_hash


def _cache(cache: dict[frozenset[str], Value], topic_names: frozenset[str], value: Value) -> None:
    if len(cache) >= MAX_CACHED_SUBSCRIPTIONS:
        cache.clear()
    cache[topic_names] = value


def _broker_racks(snapshot: MetadataSnapshot, previous: TopicsSnapshot | None) -> _BrokerRacks:
    if previous is not None and previous.snapshot.brokers is snapshot.brokers:
        return previous._broker_racks
    nodes = [node for nodes in snapshot.brokers.nodes.values() for node in nodes.values()]
    racks = {node.id: node.rack for node in nodes if node.rack}
    alive = {node.id for node in nodes}
    previous_racks = () if previous is None else previous._broker_racks.racks
    return _BrokerRacks(
        frozenset(
            [
                *racks.items(),
                *(broker_rack for broker_rack in previous_racks if broker_rack[0] not in alive),
            ]
        )
    )
