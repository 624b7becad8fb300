"""Applies an UpdateMetadata request to a metadata snapshot.

    live_brokers        all live brokers, in every request
    topics              the changed topics, each with its changed partitions
    leader -2           the partition is or will be deleted; a topic is deleted with its last one
    type FULL           other topics are deleted (set by a KRaft controller, from version 8 on)
    after a reconnect   other topics were deleted meanwhile; see metadata_cache.py

An update copies the table of topics (0.2 ms for 10,000 topics, measured) and creates a new table of
partitions for each topic that it names; all others are shared with the previous snapshot.

Owner: none; pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from odradek.broker.metadata.metadata_snapshot import (
    AliveBrokers,
    MetadataSnapshot,
    Node,
    PartitionState,
    Topic,
)
from odradek.controller.leader_and_isr import LEADER_DURING_DELETE
from odradek.controller.store.payloads.broker import SecurityProtocol
from odradek.protocol.api.update_metadata import UpdateMetadataRequest
from odradek.protocol.types import ZERO_UUID, TopicPartition, Uuid

FULL_UPDATE = 2

LiveBroker = UpdateMetadataRequest.LiveBroker


@dataclass(frozen=True, slots=True)
class MetadataUpdate:
    """``changed_topics`` are the topics that were added, deleted or changed."""

    snapshot: MetadataSnapshot
    changed_topics: frozenset[str]
    deleted_partitions: tuple[TopicPartition, ...]


@dataclass(slots=True)
class _TopicUpdate:
    """The part of a request for one topic; without an id, the topic keeps its id."""

    topic_id: Uuid | None
    states: list[PartitionState] = field(default_factory=list)


def apply_update(
    before: MetadataSnapshot, request: UpdateMetadataRequest, *, is_after_reconnect: bool = False
) -> MetadataUpdate:
    """Return the new snapshot, the changed topics and the deleted partitions.

    Topics that are only missing in the first update after a reconnect do not count as deleted:
    the callers forget deleted partitions for good, as groups forget their offsets.
    """
    updates = _group_by_topic(request)
    is_full = request.type == FULL_UPDATE or is_after_reconnect
    if is_full:
        updates |= {name: _TopicUpdate(None) for name in before.topics if name not in updates}
    brokers = _alive_brokers(request.live_brokers)
    snapshot = replace(
        before,
        controller_id=request.controller_id,
        brokers=before.brokers if brokers == before.brokers else brokers,
    )
    if not updates:
        return MetadataUpdate(snapshot, frozenset(), ())
    after = {
        name: _update_topic(name, before.topics.get(name), update, is_full=is_full)
        for name, update in updates.items()
    }
    deleted = [
        partition
        for name, update in updates.items()
        for partition in _deleted_partitions(
            None if is_after_reconnect else before.topics.get(name), after[name], update.states
        )
    ]
    return MetadataUpdate(
        _with_topics(snapshot, after.values()), frozenset(updates), tuple(deleted)
    )


def _with_topics(before: MetadataSnapshot, changed: Collection[Topic]) -> MetadataSnapshot:
    """Replace the changed topics; those without partitions are removed."""
    topics = dict(before.topics)
    for topic in changed:
        if topic.partitions:
            topics[topic.name] = topic
        else:
            topics.pop(topic.name, None)
    return replace(before, topics=topics, topic_names=_topic_names(before, topics, changed))


def _topic_names(
    before: MetadataSnapshot, topics: Mapping[str, Topic], changed: Iterable[Topic]
) -> Mapping[Uuid, str]:
    """Return the same table if no topic was added, deleted or got a new id (the usual case)."""
    changed_ids = [
        (topic.name, old_id, new_id)
        for topic in changed
        if (old_id := _topic_id(before.topics.get(topic.name)))
        != (new_id := _topic_id(topics.get(topic.name)))
    ]
    if not changed_ids:
        return before.topic_names
    names = dict(before.topic_names)
    for _, old_id, _ in changed_ids:
        names.pop(old_id, None)
    names |= {new_id: name for name, _, new_id in changed_ids if new_id != ZERO_UUID}
    return names


def _topic_id(topic: Topic | None) -> Uuid:
    return ZERO_UUID if topic is None else topic.id


def _group_by_topic(request: UpdateMetadataRequest) -> dict[str, _TopicUpdate]:
    updates: dict[str, _TopicUpdate] = {}
    for state in request.ungrouped_partition_states:
        updates.setdefault(state.topic_name, _TopicUpdate(None)).states.append(state)
    for topic in request.topic_states:
        update = updates.setdefault(topic.topic_name, _TopicUpdate(topic.topic_id))
        update.topic_id = topic.topic_id
        update.states += topic.partition_states
    return updates


def _update_topic(name: str, old: Topic | None, update: _TopicUpdate, *, is_full: bool) -> Topic:
    partitions = {} if old is None or is_full else dict(old.partitions)
    for state in update.states:
        if state.leader == LEADER_DURING_DELETE:
            partitions.pop(state.partition_index, None)
        else:
            partitions[state.partition_index] = state
    topic_id = update.topic_id
    if topic_id is None:
        topic_id = ZERO_UUID if old is None else old.id
    return Topic(name, topic_id, dict(sorted(partitions.items())))


def _deleted_partitions(
    old: Topic | None, new: Topic, states: Iterable[PartitionState]
) -> Iterable[TopicPartition]:
    """Return also partitions that were unknown here: the caller may know them."""
    deleted = {state.partition_index for state in states if state.leader == LEADER_DURING_DELETE}
    known: Mapping[int, PartitionState] = {} if old is None else old.partitions
    return [
        TopicPartition(new.name, number)
        for number in sorted(deleted.union(known).difference(new.partitions))
    ]


def _alive_brokers(live: Iterable[LiveBroker]) -> AliveBrokers:
    brokers = sorted(live, key=lambda broker: broker.id)
    nodes: dict[str, dict[int, Node]] = {}
    for broker in brokers:
        for listener, host, port in _endpoints(broker):
            node = Node(broker.id, host, port, broker.rack or None)
            nodes.setdefault(listener, {})[broker.id] = node
    return AliveBrokers(frozenset(broker.id for broker in brokers), nodes)


def _endpoints(broker: LiveBroker) -> Iterable[tuple[str, str, int]]:
    """Before version 3 a listener has the name of its protocol; version 0 has one address."""
    if not broker.endpoints and broker.v0_host:
        return [(SecurityProtocol.PLAINTEXT.name, broker.v0_host, broker.v0_port)]
    return [
        (
            endpoint.listener or SecurityProtocol(endpoint.security_protocol).name,
            endpoint.host,
            endpoint.port,
        )
        for endpoint in broker.endpoints
    ]
