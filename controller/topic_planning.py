"""What is asked of topics, checked: may it be done, and what is to be written then?

    planned_topic    an entry of CreateTopics -> NewTopic
    planned_growth   an entry of CreatePartitions -> Growth

Each raises the KafkaError that Kafka answers, and looks for mistakes in Kafka's order, since a
request may contain several.  Where Kafka takes what cannot work (a partition without replicas, a
broker or partition below zero), it is refused here.  A broker that is not known may be named when
a topic is created, as with Kafka: it may come yet.

Nothing here reads or writes; TopicAdmin does.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from odradek.config.settings import Settings
from odradek.controller.assignment import Assignment
from odradek.controller.config_alterations import (
    NODE_BYTES_MAX,
    checked_topic_config,
    encoded_config,
)
from odradek.controller.replica_placement import Racks, Start, check_counts, placed_replicas
from odradek.controller.store.payloads.config import EntityConfig
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.controller.topic_names import (
    METADATA_TOPIC,
    check_topic_name,
    may_collide,
    metric_name,
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

TopicEntry = CreateTopicsRequest.Topic
GrowthEntry = CreatePartitionsRequest.Topic
Replicas = Mapping[int, tuple[int, ...]]

#: Of the partitions that are wrong.
NUMBERS_TOLD_MAX = 20
#: In an entry: as the broker's settings say.
BY_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """What holds where a request says nothing."""

    partitions: int = 1
    replication_factor: int = 1
    #: The server's tables that a topic's settings stand on.
    server: Sequence[Settings] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """What is there when topics are asked for."""

    racks: Racks
    topics: Collection[str] = ()
    to_delete: Collection[str] = ()
    #: All topics by their names in metrics; only needed for names that may collide.
    by_metric_name: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic that may be created; what it will be set to is told to the client."""

    name: str
    topic: TopicAssignment
    settings: TopicSettings
    node: bytes  # the topic, as it is written
    config_node: bytes

    @property
    def replication_factor(self) -> int:
        return len(self.topic.partitions[0].replicas)


@dataclass(frozen=True, slots=True)
class Growth:
    """Partitions that may be added, if the topic's node still has this version."""

    entry: GrowthEntry
    node: bytes  # the topic, as it is written
    added: Replicas
    version: int


# Creation


def refused_at_sight(names: Sequence[str]) -> dict[str, KafkaError]:
    """Of the topics of one CreateTopics, those that need no look at anything else."""
    refused = refused_as_repeated(names)
    if METADATA_TOPIC in names:
        refused[METADATA_TOPIC] = InvalidRequest(f"Nobody may create {METADATA_TOPIC}.")
    return refused


def planned_topic(
    entry: TopicEntry,
    known: Known,
    defaults: TopicDefaults,
    *,
    random: Random,
    topic_id: Uuid | None,
) -> NewTopic:
    if entry.name in known.topics and entry.name not in known.to_delete:
        raise TopicAlreadyExists(f"Topic '{entry.name}' exists already.")
    config = _given_config(entry)
    replicas = _given_replicas(entry) or _placed(entry, known.racks, defaults, random)
    _check_name_is_free(entry.name, known)
    _check_replicas(replicas)
    settings = checked_topic_config(config, server=defaults.server)
    assignments = {number: Assignment(there) for number, there in replicas.items()}
    topic = TopicAssignment(assignments, topic_id)
    node = _encoded(topic)
    # They are written as one.
    config_node = encoded_config(EntityConfig(config), bytes_max=NODE_BYTES_MAX - len(node))
    return NewTopic(entry.name, topic, settings, node, config_node)


def _given_config(entry: TopicEntry) -> dict[str, str]:
    """Of a key that is given twice the last word counts."""
    config = {each.name: each.value for each in entry.configs}
    empty = sorted({each.name for each in entry.configs if each.value is None})
    if empty:
        raise InvalidConfig(f"A topic's setting must have a value: {', '.join(empty)}.")
    return {name: text for name, text in config.items() if text is not None}


def _given_replicas(entry: TopicEntry) -> dict[int, tuple[int, ...]]:
    if not entry.assignments:
        return {}
    if entry.num_partitions != BY_DEFAULT or entry.replication_factor != BY_DEFAULT:
        raise InvalidRequest(
            "Replicas are assigned, so the number of partitions and the replication factor must "
            f"be {BY_DEFAULT}."
        )
    return {each.partition_index: tuple(each.broker_ids) for each in entry.assignments}


def _placed(
    entry: TopicEntry, racks: Racks, defaults: TopicDefaults, random: Random
) -> dict[int, tuple[int, ...]]:
    partitions, factor = entry.num_partitions, entry.replication_factor
    if partitions == BY_DEFAULT:
        partitions = defaults.partitions
    if factor == BY_DEFAULT:
        factor = defaults.replication_factor
    check_counts(racks, partitions=partitions, replication_factor=factor)
    _check_not_too_many(partitions, replication_factor=factor)
    start = Start.drawn(random, racks)
    return placed_replicas(racks, start, partitions=partitions, replication_factor=factor)


def _check_name_is_free(name: str, known: Known) -> None:
    check_topic_name(name)
    if name in known.to_delete:
        raise TopicAlreadyExists(f"Topic '{name}' is being deleted.")
    if may_collide(name):
        other = known.by_metric_name.get(metric_name(name))
        if other == name:
            raise TopicAlreadyExists(f"Topic '{name}' exists already.")
        if other is not None:
            raise InvalidTopic(
                f"Topic '{name}' collides with '{other}': they would be the same in metrics."
            )


def _check_replicas(replicas: Replicas) -> None:
    if len({len(there) for there in replicas.values()}) > 1:
        raise InvalidReplicaAssignment("All partitions must have equally many replicas.")
    for partition, there in replicas.items():
        _check_distinct(partition, there)
        if min(there) < 0:
            raise InvalidReplicaAssignment(f"Partition {partition} is on a broker below 0: {there}")
    if sorted(replicas) != list(range(len(replicas))):
        raise InvalidReplicaAssignment(
            f"Partitions must be numbered from 0 without a gap, not {_some(sorted(replicas))}."
        )


def _check_distinct(partition: int, there: Sequence[int]) -> None:
    if not there:
        raise InvalidReplicaAssignment(f"Partition {partition} has no replicas.")
    if len(set(there)) < len(there):
        raise InvalidReplicaAssignment(f"Partition {partition} is on a broker twice: {there}")


# Growth


def planned_growth(
    entry: GrowthEntry, topic: TopicAssignment | None, known: Known, *, version: int
) -> Growth:
    """``topic`` is what its node says in this version; None if there is none."""
    if entry.name in known.to_delete:
        raise InvalidTopic(f"Topic '{entry.name}' is being deleted.")
    if topic is None or not topic.partitions:
        raise UnknownTopicOrPartition(f"Topic '{entry.name}' does not exist.")
    if any(assignment.is_being_reassigned for assignment in topic.partitions.values()):
        raise ReassignmentInProgress(f"Partitions of topic '{entry.name}' are being reassigned.")
    _check_grows(entry, topic)
    if entry.assignments is None:
        added = _placed_after(entry, topic, known.racks)
    else:
        added = _given_after(entry, topic, known.racks)
    assignments = {number: Assignment(there) for number, there in added.items()}
    grown = replace(topic, partitions={**topic.partitions, **assignments})
    return Growth(entry, _encoded(grown), added, version)


def _check_grows(entry: GrowthEntry, topic: TopicAssignment) -> None:
    present = len(topic.partitions)
    if sorted(topic.partitions) != list(range(present)):
        raise KafkaError(
            f"Topic '{entry.name}' lacks partitions: {_some(sorted(topic.partitions))}"
        )
    if entry.count <= present:
        raise InvalidPartitions(
            f"Topic '{entry.name}' has {present} partitions already, and can only get more."
        )
    factor = len(topic.partitions[0].replicas)
    _check_not_too_many(entry.count, replication_factor=factor)


def _placed_after(
    entry: GrowthEntry, topic: TopicAssignment, racks: Racks
) -> dict[int, tuple[int, ...]]:
    """From where the leader of partition 0 stands among the brokers of today."""
    present = len(topic.partitions)
    first = topic.partitions[0].replicas
    leader = first[0] if first else 0
    index = next((slot for slot, broker in enumerate(sorted(racks)) if broker >= leader), 0)
    return placed_replicas(
        racks,
        Start(index=index, shift=index, partition=present),
        partitions=entry.count - present,
        replication_factor=len(first),
    )


def _given_after(
    entry: GrowthEntry, topic: TopicAssignment, racks: Racks
) -> dict[int, tuple[int, ...]]:
    present = len(topic.partitions)
    given = [tuple(each.broker_ids) for each in entry.assignments or ()]
    unknown = sorted({broker for there in given for broker in there} - racks.keys())
    if unknown:
        raise InvalidReplicaAssignment(f"Brokers are not known: {', '.join(map(str, unknown))}.")
    if len(given) != entry.count - present:
        raise InvalidReplicaAssignment(
            f"{entry.count - present} partitions are added, but {len(given)} are assigned."
        )
    added = dict(enumerate(given, start=present))
    for partition, there in added.items():
        _check_distinct(partition, there)
    factor = len(topic.partitions[0].replicas)
    others = [partition for partition, there in added.items() if len(there) != factor]
    if others:
        raise InvalidReplicaAssignment(
            f"Partition 0 has {factor} replicas, but others would not: {_some(others)}."
        )
    return added


# Both


def refused_as_repeated(names: Iterable[str]) -> dict[str, KafkaError]:
    return {
        name: InvalidRequest(f"Topic '{name}' is in the request {times} times.")
        for name, times in Counter(names).items()
        if times > 1
    }


def _check_not_too_many(partitions: int, *, replication_factor: int) -> None:
    """Known before any is placed: they would not fit, even with brokers of one digit."""
    entry_bytes = len('"":[],') + len("1,") * replication_factor - len(",")
    number_bytes = partitions + sum(max(partitions - 10**digits, 0) for digits in range(1, 10))
    if partitions * entry_bytes + number_bytes > NODE_BYTES_MAX:
        raise InvalidPartitions(f"A topic cannot have {partitions} partitions.")


def _some(numbers: Sequence[int]) -> str:
    """So many as fit into a line that is read."""
    rest = len(numbers) - NUMBERS_TOLD_MAX
    return f"{numbers[:NUMBERS_TOLD_MAX]} and {rest} more" if rest > 0 else f"{numbers}"


def _encoded(topic: TopicAssignment) -> bytes:
    node = topic.encode()
    if len(node) > NODE_BYTES_MAX:
        raise InvalidPartitions(
            f"{len(topic.partitions)} partitions and their replicas are too many for one topic."
        )
    return node
