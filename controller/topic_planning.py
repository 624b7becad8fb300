"""Validation of CreateTopics and CreatePartitions entries, and the resulting writes.

    plan_topic            an entry of CreateTopics -> NewTopic
    plan_new_partitions   an entry of CreatePartitions -> NewPartitions

Each function raises the KafkaError that Kafka returns.  It checks in Kafka's order, because an
entry may contain several errors.  It also rejects what Kafka accepts although it cannot work: a
partition without replicas, a negative broker id or partition.  As in Kafka, an assignment of a new
topic may name an unknown broker, because that broker may start later.

This module does no I/O; TopicAdmin reads and writes.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from odradek.config.settings import Settings
from odradek.controller.config_alterations import (
    ZNODE_BYTES_MAX,
    encode_config,
    validate_topic_config,
)
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.replica_placement import (
    BrokerRacks,
    PlacementStart,
    assign_replicas_to_brokers,
    check_counts,
)
from odradek.controller.store.payloads.config import EntityConfig
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.controller.topic_names import (
    CLUSTER_METADATA_TOPIC,
    check_topic_name,
    has_collision_chars,
    unify_collision_chars,
)
from odradek.protocol.api.create_partitions import CreatePartitionsRequest
from odradek.protocol.api.create_topics import CreateTopicsRequest
from odradek.protocol.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    ReassignmentInProgress,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from odradek.protocol.types import Uuid
from odradek.storage.settings import TopicSettings

CreatableTopic = CreateTopicsRequest.Topic
CreatePartitionsTopic = CreatePartitionsRequest.Topic
ReplicasByPartition = Mapping[int, tuple[int, ...]]

#: The number of partitions that an error message lists.
SHOWN_NUMBERS_MAX = 20
#: In an entry: use the default of the broker's settings.
BROKER_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """The defaults for values that a request does not set."""

    num_partitions: int = 1
    replication_factor: int = 1
    #: The broker settings that are the defaults of topic settings.
    server_settings: Sequence[Settings] = ()


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The state of the cluster on which topics are planned."""

    racks: BrokerRacks
    topics: Collection[str] = ()
    topics_to_be_deleted: Collection[str] = ()
    #: All topics by their names in metrics; empty if no requested name can collide.
    topics_by_metric_name: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A valid topic to be created; ``settings`` are returned to the client."""

    name: str
    assignment: TopicAssignment
    settings: TopicSettings
    encoded_topic: bytes  # the payload of the topic's znode
    encoded_config: bytes

    @property
    def replication_factor(self) -> int:
        return len(self.assignment.partitions[0].replicas)


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """Valid partitions to be added, if the topic's znode still has this version."""

    entry: CreatePartitionsTopic
    encoded_topic: bytes  # the payload of the topic's znode
    added_replicas: ReplicasByPartition
    version: int


# Creation


def name_errors(names: Sequence[str]) -> dict[str, KafkaError]:
    """Return the errors of one CreateTopics request that depend on the names alone."""
    errors = duplicate_name_errors(names)
    if CLUSTER_METADATA_TOPIC in names:
        errors[CLUSTER_METADATA_TOPIC] = InvalidRequest(
            f"Topic {CLUSTER_METADATA_TOPIC} is reserved and cannot be created."
        )
    return errors


def plan_topic(
    entry: CreatableTopic,
    snapshot: ClusterSnapshot,
    defaults: TopicDefaults,
    *,
    random: Random,
    topic_id: Uuid | None,
) -> NewTopic:
    if entry.name in snapshot.topics and entry.name not in snapshot.topics_to_be_deleted:
        raise TopicAlreadyExists(f"Topic '{entry.name}' already exists.")
    config = _requested_config(entry)
    replicas = _requested_replicas(entry) or _assign_replicas(
        entry, snapshot.racks, defaults, random
    )
    _check_name_available(entry.name, snapshot)
    _check_replicas(replicas)
    settings = validate_topic_config(config, server_settings=defaults.server_settings)
    assignments = {number: ReplicaAssignment(broker_ids) for number, broker_ids in replicas.items()}
    topic = TopicAssignment(assignments, topic_id)
    node = _encode_topic(topic)
    # Both payloads are written in one multi, so they share its size limit.
    config_node = encode_config(EntityConfig(config), bytes_max=ZNODE_BYTES_MAX - len(node))
    return NewTopic(entry.name, topic, settings, node, config_node)


def _requested_config(entry: CreatableTopic) -> dict[str, str]:
    """Return the requested configuration; if a key is given twice, the last value counts."""
    config = {each.name: each.value for each in entry.configs}
    empty = sorted({each.name for each in entry.configs if each.value is None})
    if empty:
        raise InvalidConfig(f"Topic settings must have a value, but have null: {', '.join(empty)}.")
    return {name: text for name, text in config.items() if text is not None}


def _requested_replicas(entry: CreatableTopic) -> dict[int, tuple[int, ...]]:
    if not entry.assignments:
        return {}
    if entry.num_partitions != BROKER_DEFAULT or entry.replication_factor != BROKER_DEFAULT:
        raise InvalidRequest(
            "The number of partitions and the replication factor must be "
            f"{BROKER_DEFAULT} if replicas are assigned."
        )
    return {each.partition_index: tuple(each.broker_ids) for each in entry.assignments}


def _assign_replicas(
    entry: CreatableTopic, racks: BrokerRacks, defaults: TopicDefaults, random: Random
) -> dict[int, tuple[int, ...]]:
    partitions, factor = entry.num_partitions, entry.replication_factor
    if partitions == BROKER_DEFAULT:
        partitions = defaults.num_partitions
    if factor == BROKER_DEFAULT:
        factor = defaults.replication_factor
    check_counts(racks, partition_count=partitions, replication_factor=factor)
    _check_partition_limit(partitions, replication_factor=factor)
    start = PlacementStart.draw(random, racks)
    return assign_replicas_to_brokers(
        racks, start, partition_count=partitions, replication_factor=factor
    )


def _check_name_available(name: str, snapshot: ClusterSnapshot) -> None:
    check_topic_name(name)
    if name in snapshot.topics_to_be_deleted:
        raise TopicAlreadyExists(f"Topic '{name}' is being deleted.")
    if has_collision_chars(name):
        other = snapshot.topics_by_metric_name.get(unify_collision_chars(name))
        if other == name:
            raise TopicAlreadyExists(f"Topic '{name}' already exists.")
        if other is not None:
            raise InvalidTopic(
                f"Topic '{name}' collides with existing topic '{other}': both have the same name "
                "in metrics."
            )


def _check_replicas(replicas: ReplicasByPartition) -> None:
    if len({len(broker_ids) for broker_ids in replicas.values()}) > 1:
        raise InvalidReplicaAssignment("All partitions must have the same number of replicas.")
    for partition, broker_ids in replicas.items():
        _check_distinct(partition, broker_ids)
        if min(broker_ids) < 0:
            raise InvalidReplicaAssignment(
                f"Partition {partition} has a negative broker id: {broker_ids}"
            )
    if sorted(replicas) != list(range(len(replicas))):
        raise InvalidReplicaAssignment(
            "Partitions must be numbered from 0 without gaps, but are "
            f"{_abbreviate(sorted(replicas))}."
        )


def _check_distinct(partition: int, replicas: Sequence[int]) -> None:
    if not replicas:
        raise InvalidReplicaAssignment(f"Partition {partition} has no replicas.")
    if len(set(replicas)) < len(replicas):
        raise InvalidReplicaAssignment(
            f"Partition {partition} has duplicate broker ids: {replicas}"
        )


# New partitions


def plan_new_partitions(
    entry: CreatePartitionsTopic,
    topic: TopicAssignment | None,
    snapshot: ClusterSnapshot,
    *,
    version: int,
) -> NewPartitions:
    """``topic`` is the topic's znode in this version; None if the topic does not exist."""
    if entry.name in snapshot.topics_to_be_deleted:
        raise InvalidTopic(f"Topic '{entry.name}' is being deleted.")
    if topic is None or not topic.partitions:
        raise UnknownTopicOrPartition(f"Topic '{entry.name}' does not exist.")
    if any(assignment.is_being_reassigned for assignment in topic.partitions.values()):
        raise ReassignmentInProgress(f"Partitions of topic '{entry.name}' are being reassigned.")
    _check_partition_increase(entry, topic)
    if entry.assignments is None:
        added = _assign_new_partitions(entry, topic, snapshot.racks)
    else:
        added = _requested_new_partitions(entry, topic, snapshot.racks)
    assignments = {number: ReplicaAssignment(broker_ids) for number, broker_ids in added.items()}
    extended = replace(topic, partitions={**topic.partitions, **assignments})
    return NewPartitions(entry, _encode_topic(extended), added, version)


def _check_partition_increase(entry: CreatePartitionsTopic, topic: TopicAssignment) -> None:
    current_count = len(topic.partitions)
    if sorted(topic.partitions) != list(range(current_count)):
        raise KafkaError(
            f"Topic '{entry.name}' lacks partitions; it has {_abbreviate(sorted(topic.partitions))}"
        )
    if entry.count <= current_count:
        raise InvalidPartitions(
            f"Topic '{entry.name}' currently has {current_count} partitions: the new count must be "
            "higher."
        )
    factor = len(topic.partitions[0].replicas)
    _check_partition_limit(entry.count, replication_factor=factor)


def _assign_new_partitions(
    entry: CreatePartitionsTopic, topic: TopicAssignment, racks: BrokerRacks
) -> dict[int, tuple[int, ...]]:
    """Assign from the position of partition 0's preferred leader among the live brokers."""
    current_count = len(topic.partitions)
    replicas = topic.partitions[0].replicas
    leader = replicas[0] if replicas else 0
    index = next((slot for slot, broker in enumerate(sorted(racks)) if broker >= leader), 0)
    return assign_replicas_to_brokers(
        racks,
        PlacementStart(start_index=index, replica_shift=index, start_partition=current_count),
        partition_count=entry.count - current_count,
        replication_factor=len(replicas),
    )


def _requested_new_partitions(
    entry: CreatePartitionsTopic, topic: TopicAssignment, racks: BrokerRacks
) -> dict[int, tuple[int, ...]]:
    current_count = len(topic.partitions)
    requested = [tuple(each.broker_ids) for each in entry.assignments or ()]
    unknown = sorted({broker for broker_ids in requested for broker in broker_ids} - racks.keys())
    if unknown:
        raise InvalidReplicaAssignment(
            f"Unknown brokers in the assignment: {', '.join(map(str, unknown))}."
        )
    if len(requested) != entry.count - current_count:
        raise InvalidReplicaAssignment(
            f"{entry.count - current_count} partitions are to be added, but {len(requested)} "
            "assignments are given."
        )
    added = dict(enumerate(requested, start=current_count))
    for partition, broker_ids in added.items():
        _check_distinct(partition, broker_ids)
    factor = len(topic.partitions[0].replicas)
    mismatched = [partition for partition, broker_ids in added.items() if len(broker_ids) != factor]
    if mismatched:
        raise InvalidReplicaAssignment(
            f"Partition 0 has {factor} replicas, but these partitions have another number: "
            f"{_abbreviate(mismatched)}."
        )
    return added


# Common


def duplicate_name_errors(names: Iterable[str]) -> dict[str, KafkaError]:
    return {
        name: InvalidRequest(f"Topic '{name}' occurs {times} times in the request.")
        for name, times in Counter(names).items()
        if times > 1
    }


def _check_partition_limit(partition_count: int, *, replication_factor: int) -> None:
    """Reject, before any assignment, a count whose znode would be too large in any case.

    The size is a lower bound: it assumes broker ids of one digit.
    """
    entry_bytes = len('"":[],') + len("1,") * replication_factor - len(",")
    number_bytes = partition_count + sum(
        max(partition_count - 10**digits, 0) for digits in range(1, 10)
    )
    if partition_count * entry_bytes + number_bytes > ZNODE_BYTES_MAX:
        raise InvalidPartitions(
            f"{partition_count} partitions are too many: they do not fit in the topic's znode."
        )


def _abbreviate(numbers: Sequence[int]) -> str:
    """Format the numbers, at most SHOWN_NUMBERS_MAX of them."""
    rest = len(numbers) - SHOWN_NUMBERS_MAX
    return f"{numbers[:SHOWN_NUMBERS_MAX]} and {rest} more" if rest > 0 else f"{numbers}"


def _encode_topic(topic: TopicAssignment) -> bytes:
    node = topic.encode()
    if len(node) > ZNODE_BYTES_MAX:
        raise InvalidPartitions(
            f"{len(topic.partitions)} partitions and their replicas are too many: they do not fit "
            "in the topic's znode."
        )
    return node
