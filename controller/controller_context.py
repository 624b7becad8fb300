"""The controller's picture of the cluster: brokers, topics, who leads, what state all is in.

Filled from the store when the controller is elected, and changed by its events alone; nothing here
reads or writes anything.  Replicas are found by broker and by topic without going over all others,
so that an event costs what it changes.

Invariant: a partition has a state if and only if it has an assignment; so has every replica.
Owner: the event loop; only the controller's event queue changes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from odradek.controller.assignment import Assignment
from odradek.controller.leadership import EPOCH_DURING_DELETE, Leadership
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_state import ReplicaState
from odradek.controller.store.payloads.broker import BrokerRegistration
from odradek.protocol.types import TopicPartition, Uuid

NO_EPOCH = -1


class Replica(NamedTuple):
    """What one broker has of one partition."""

    partition: TopicPartition
    broker: int


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that is registered; its epoch is the transaction that registered it."""

    id: int
    epoch: int
    registration: BrokerRegistration


class Context:
    """What the controller knows.  Read what you like; change it by the methods."""

    def __init__(self) -> None:
        self.epoch = 0
        self.epoch_version = 0
        self.brokers: dict[int, Broker] = {}
        self.shutting_down: set[int] = set()
        #: What a broker cannot serve because of a failed log directory.
        self.offline_replicas: dict[int, set[TopicPartition]] = {}
        self.topic_ids: dict[str, Uuid] = {}
        self.topic_names: dict[Uuid, str] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        #: Those of them that are new or offline.  A dictionary, not a set, so that what is done,
        #: and in which order, depends on nothing but what was done before.
        self.waiting_for_leader: dict[TopicPartition, None] = {}
        self.replica_states: dict[Replica, ReplicaState] = {}
        self.leaderships: dict[TopicPartition, Leadership] = {}
        self.reassigning: set[TopicPartition] = set()
        #: Topics that shall go, those of them whose going has begun, and those that cannot go now.
        self.to_delete: set[str] = set()
        self.deleting: set[str] = set()
        self.ineligible: set[str] = set()
        self._assignments: dict[str, dict[int, Assignment]] = {}
        self._by_broker: defaultdict[int, dict[TopicPartition, None]] = defaultdict(dict)

    # Brokers

    @property
    def live_brokers(self) -> set[int]:
        """Those that may be given something to lead."""
        return self.brokers.keys() - self.shutting_down

    def is_online(self, broker: int, partition: TopicPartition) -> bool:
        return broker not in self.shutting_down and self.is_reachable(broker, partition)

    def is_reachable(self, broker: int, partition: TopicPartition) -> bool:
        """Whether it has the replica and could still serve it, though perhaps about to stop."""
        return broker in self.brokers and partition not in self.offline_replicas.get(broker, ())

    def forget_broker(self, broker: int) -> None:
        self.brokers.pop(broker, None)
        self.shutting_down.discard(broker)
        self.offline_replicas.pop(broker, None)

    # Topics

    @property
    def topics(self) -> Iterable[str]:
        return self._assignments.keys()

    def __contains__(self, topic: object) -> bool:
        return topic in self._assignments

    def add_topic(self, topic: str, topic_id: Uuid | None) -> None:
        """One without partitions yet; old clusters' topics have no id until they are given one."""
        self._assignments.setdefault(topic, {})
        if topic_id is not None:
            self.topic_ids[topic] = topic_id
            self.topic_names[topic_id] = topic

    def forget_topic(self, topic: str) -> None:
        for partition in [*self.partitions_of(topic)]:
            for broker in self.assignment(partition).replicas:
                self._by_broker[broker].pop(partition, None)
                self.replica_states.pop(Replica(partition, broker), None)
            self.partition_states.pop(partition, None)
            self.waiting_for_leader.pop(partition, None)
            self.leaderships.pop(partition, None)
            self.reassigning.discard(partition)
        self._assignments.pop(topic, None)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        for topics in (self.to_delete, self.deleting, self.ineligible):
            topics.discard(topic)

    def partitions_of(self, topic: str) -> Iterator[TopicPartition]:
        return (TopicPartition(topic, number) for number in self._assignments.get(topic, ()))

    @property
    def partitions(self) -> Iterator[TopicPartition]:
        return (partition for topic in self._assignments for partition in self.partitions_of(topic))

    # Assignments

    def has_partition(self, partition: TopicPartition) -> bool:
        return partition.partition in self._assignments.get(partition.topic, ())

    def assignment(self, partition: TopicPartition) -> Assignment:
        """Without replicas if there is no such partition."""
        return self._assignments.get(partition.topic, {}).get(partition.partition, _UNASSIGNED)

    def assign(self, partition: TopicPartition, assignment: Assignment) -> None:
        for broker in self.assignment(partition).replicas:
            self._by_broker[broker].pop(partition, None)
        self._assignments.setdefault(partition.topic, {})[partition.partition] = assignment
        for broker in assignment.replicas:
            self._by_broker[broker][partition] = None

    def replicas_of(self, partition: TopicPartition) -> list[Replica]:
        return [Replica(partition, broker) for broker in self.assignment(partition).replicas]

    def replicas_of_topic(self, topic: str) -> list[Replica]:
        return [
            each for partition in self.partitions_of(topic) for each in self.replicas_of(partition)
        ]

    def replicas_on(self, broker: int) -> list[Replica]:
        return [Replica(partition, broker) for partition in self._by_broker.get(broker, ())]

    def online_replicas(self, partition: TopicPartition) -> list[int]:
        replicas = self.assignment(partition).replicas
        return [broker for broker in replicas if self.is_online(broker, partition)]

    # States

    def partition_state(self, partition: TopicPartition) -> PartitionState:
        return self.partition_states.get(partition, PartitionState.NON_EXISTENT)

    def move_partition(self, partition: TopicPartition, state: PartitionState) -> None:
        self.partition_states[partition] = state
        if state in (PartitionState.NEW, PartitionState.OFFLINE):
            self.waiting_for_leader[partition] = None
        else:
            self.waiting_for_leader.pop(partition, None)

    def replica_state(self, replica: Replica) -> ReplicaState:
        return self.replica_states.get(replica, ReplicaState.NON_EXISTENT)

    def replicas_in(self, topic: str, state: ReplicaState) -> list[Replica]:
        return [each for each in self.replicas_of_topic(topic) if self.replica_state(each) is state]

    # Leaders

    def leader_epoch(self, partition: TopicPartition) -> int:
        """What a broker is told when it shall stop its replica."""
        if partition.topic in self.to_delete:
            return EPOCH_DURING_DELETE
        leadership = self.leaderships.get(partition)
        return NO_EPOCH if leadership is None else leadership.leader_epoch

    def led_by(self, broker: int) -> list[TopicPartition]:
        """Of the partitions that have other replicas too; what is being deleted does not count."""
        return [
            partition
            for partition in self._by_broker.get(broker, ())
            if partition.topic not in self.to_delete
            and len(self.assignment(partition).replicas) > 1
            and self.leader(partition) == broker
        ]

    def without_leader(self, among: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those whose leader is not online, and that are not being deleted."""
        return [
            partition
            for partition in among
            if partition.topic not in self.to_delete
            and (leadership := self.leaderships.get(partition)) is not None
            and not self.is_online(leadership.leader, partition)
        ]

    def leader(self, partition: TopicPartition) -> int | None:
        leadership = self.leaderships.get(partition)
        return None if leadership is None else leadership.leader


_UNASSIGNED = Assignment(())
