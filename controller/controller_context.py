"""The controller's in-memory model of the cluster: brokers, topics, leaders, ISRs and states.

Kafka: ControllerContext.

A new controller fills it from the metadata store.  After that only controller events change it.
This module does no I/O.  Replicas are indexed by broker and by topic, so the cost of an event
depends on what it changes and not on the size of the cluster.

Invariant: a partition has a state if and only if it has an assignment; so has every replica.
Owner: the event loop; only the controller's event queue changes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from odradek.controller.leader_and_isr import EPOCH_DURING_DELETE, LeaderIsrAndControllerEpoch
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.replica_state import ReplicaState
from odradek.controller.store.payloads.broker import BrokerRegistration
from odradek.protocol.types import TopicPartition, Uuid

NO_EPOCH = -1


class PartitionAndReplica(NamedTuple):
    """The replica of a partition on one broker."""

    partition: TopicPartition
    broker_id: int


@dataclass(frozen=True, slots=True)
class Broker:
    """A registered broker; its epoch is the id of the transaction that registered it (czxid)."""

    id: int
    epoch: int
    registration: BrokerRegistration


class ControllerContext:
    """Read any attribute directly; change state only through the methods."""

    def __init__(self) -> None:
        self.epoch = 0
        self.epoch_zk_version = 0
        self.brokers: dict[int, Broker] = {}
        self.shutting_down_broker_ids: set[int] = set()
        #: broker id -> partitions whose log directory on that broker failed.
        self.replicas_on_offline_dirs: dict[int, set[TopicPartition]] = {}
        self.topic_ids: dict[str, Uuid] = {}
        self.topic_names: dict[Uuid, str] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        #: The partitions in state NEW or OFFLINE.  A dictionary, not a set, because its order is
        #: deterministic: it depends only on earlier changes.
        self.new_or_offline_partitions: dict[TopicPartition, None] = {}
        self.replica_states: dict[PartitionAndReplica, ReplicaState] = {}
        self.partition_leadership_info: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        self.partitions_being_reassigned: set[TopicPartition] = set()
        #: Topics marked for deletion, those whose deletion has started, and those whose deletion
        #: is halted for now.
        self.topics_to_be_deleted: set[str] = set()
        self.topics_with_deletion_started: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()
        self._assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self._partitions_by_broker: defaultdict[int, dict[TopicPartition, None]] = defaultdict(dict)

    # Brokers

    @property
    def live_broker_ids(self) -> set[int]:
        """The brokers that may become leaders."""
        return self.brokers.keys() - self.shutting_down_broker_ids

    def is_replica_online(self, broker_id: int, partition: TopicPartition) -> bool:
        return (
            broker_id not in self.shutting_down_broker_ids
            and self.is_replica_online_or_shutting_down(broker_id, partition)
        )

    def is_replica_online_or_shutting_down(self, broker_id: int, partition: TopicPartition) -> bool:
        """Whether the broker can serve the replica; it may be shutting down."""
        return broker_id in self.brokers and partition not in self.replicas_on_offline_dirs.get(
            broker_id, ()
        )

    def remove_broker(self, broker_id: int) -> None:
        self.brokers.pop(broker_id, None)
        self.shutting_down_broker_ids.discard(broker_id)
        self.replicas_on_offline_dirs.pop(broker_id, None)

    # Topics

    @property
    def topics(self) -> Iterable[str]:
        return self._assignments.keys()

    def __contains__(self, topic: object) -> bool:
        return topic in self._assignments

    def add_topic(self, topic: str, topic_id: Uuid | None) -> None:
        """Add a topic without partitions.  In old clusters a topic may have no id yet."""
        self._assignments.setdefault(topic, {})
        if topic_id is not None:
            self.topic_ids[topic] = topic_id
            self.topic_names[topic_id] = topic

    def remove_topic(self, topic: str) -> None:
        for partition in [*self.partitions_for_topic(topic)]:
            for broker in self.assignment(partition).replicas:
                self._partitions_by_broker[broker].pop(partition, None)
                self.replica_states.pop(PartitionAndReplica(partition, broker), None)
            self.partition_states.pop(partition, None)
            self.new_or_offline_partitions.pop(partition, None)
            self.partition_leadership_info.pop(partition, None)
            self.partitions_being_reassigned.discard(partition)
        self._assignments.pop(topic, None)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        for topics in (
            self.topics_to_be_deleted,
            self.topics_with_deletion_started,
            self.topics_ineligible_for_deletion,
        ):
            topics.discard(topic)

    def partitions_for_topic(self, topic: str) -> Iterator[TopicPartition]:
        return (
            TopicPartition(topic, partition_index)
            for partition_index in self._assignments.get(topic, ())
        )

    @property
    def partitions(self) -> Iterator[TopicPartition]:
        return (
            partition
            for topic in self._assignments
            for partition in self.partitions_for_topic(topic)
        )

    # Assignments

    def has_partition(self, partition: TopicPartition) -> bool:
        return partition.partition in self._assignments.get(partition.topic, ())

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """The assignment of an unknown partition has no replicas."""
        return self._assignments.get(partition.topic, {}).get(partition.partition, _UNASSIGNED)

    def update_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        for broker in self.assignment(partition).replicas:
            self._partitions_by_broker[broker].pop(partition, None)
        self._assignments.setdefault(partition.topic, {})[partition.partition] = assignment
        for broker in assignment.replicas:
            self._partitions_by_broker[broker][partition] = None

    def replicas_for_partition(self, partition: TopicPartition) -> list[PartitionAndReplica]:
        return [
            PartitionAndReplica(partition, broker) for broker in self.assignment(partition).replicas
        ]

    def replicas_for_topic(self, topic: str) -> list[PartitionAndReplica]:
        return [
            each
            for partition in self.partitions_for_topic(topic)
            for each in self.replicas_for_partition(partition)
        ]

    def replicas_on_broker(self, broker_id: int) -> list[PartitionAndReplica]:
        return [
            PartitionAndReplica(partition, broker_id)
            for partition in self._partitions_by_broker.get(broker_id, ())
        ]

    def online_replicas(self, partition: TopicPartition) -> list[int]:
        replicas = self.assignment(partition).replicas
        return [broker for broker in replicas if self.is_replica_online(broker, partition)]

    # States

    def partition_state(self, partition: TopicPartition) -> PartitionState:
        return self.partition_states.get(partition, PartitionState.NON_EXISTENT)

    def put_partition_state(self, partition: TopicPartition, state: PartitionState) -> None:
        self.partition_states[partition] = state
        if state in (PartitionState.NEW, PartitionState.OFFLINE):
            self.new_or_offline_partitions[partition] = None
        else:
            self.new_or_offline_partitions.pop(partition, None)

    def replica_state(self, replica: PartitionAndReplica) -> ReplicaState:
        return self.replica_states.get(replica, ReplicaState.NON_EXISTENT)

    def replicas_in_state(self, topic: str, state: ReplicaState) -> list[PartitionAndReplica]:
        return [
            each for each in self.replicas_for_topic(topic) if self.replica_state(each) is state
        ]

    # Leaders

    def stop_replica_leader_epoch(self, partition: TopicPartition) -> int:
        """The leader epoch that a StopReplica request carries."""
        if partition.topic in self.topics_to_be_deleted:
            return EPOCH_DURING_DELETE
        leadership = self.partition_leadership_info.get(partition)
        return NO_EPOCH if leadership is None else leadership.leader_epoch

    def partition_leaders_on_broker(self, broker_id: int) -> list[TopicPartition]:
        """Partitions with other replicas that the broker leads, except topics being deleted."""
        return [
            partition
            for partition in self._partitions_by_broker.get(broker_id, ())
            if partition.topic not in self.topics_to_be_deleted
            and len(self.assignment(partition).replicas) > 1
            and self.leader(partition) == broker_id
        ]

    def partitions_with_offline_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """The partitions whose leader is not online, except topics being deleted."""
        return [
            partition
            for partition in partitions
            if partition.topic not in self.topics_to_be_deleted
            and (leadership := self.partition_leadership_info.get(partition)) is not None
            and not self.is_replica_online(leadership.leader, partition)
        ]

    def leader(self, partition: TopicPartition) -> int | None:
        leadership = self.partition_leadership_info.get(partition)
        return None if leadership is None else leadership.leader


_UNASSIGNED = ReplicaAssignment(())
