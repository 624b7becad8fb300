"""What is left to do in a cluster in which everything answers, and nothing new is asked for?

    leaders         whoever can lead does: one that is in sync and runs, or, where unclean elections
                    are allowed, any that runs and is not just being added; all that run are in sync
    reassignments   are over, unless they wait for a broker that does not run: one of the target
                    or, if the topic is to be deleted, any
    deletions       are over, unless they wait for such a broker or such a reassignment
    pictures        all brokers know of all brokers and partitions what the tree says, and of what
                    they have, whom to follow

For a partition, a broker that has lost its log with a disk is as one that does not run.

Owner: the event loop; nothing is changed here.
"""

from collections.abc import Iterator

from odradek.controller.leader_and_isr import NO_LEADER
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store.payloads.topic import LeaderAndIsr
from odradek.protocol.api.leader_and_isr import LeaderAndIsrPartitionState
from odradek.protocol.types import TopicPartition
from tests.support.simulated_brokers import SimulatedBroker
from tests.support.simulated_cluster import SimulatedCluster


def left_to_do(cluster: SimulatedCluster) -> list[str]:
    if not cluster.controllers:
        return []
    if len(cluster.active) != 1:
        return [f"controllers are {cluster.active}"]
    quiet = _QuietCluster(cluster)
    brokers = cluster.brokers.running.values()
    return [
        *(each for topic in quiet.topics for each in quiet.of_topic(topic)),
        *(each for broker in brokers for each in quiet.of_broker(broker)),
        *quiet.of_node(),
    ]


class _QuietCluster:
    """Sentences about what is not as it should be."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._history = cluster.history
        self._running = cluster.brokers.running
        self._allows_unclean = cluster.settings.unclean_leader_election_enable

    @property
    def topics(self) -> list[str]:
        return sorted(self._history.topics.keys() | self._history.to_delete)

    # The tree

    def of_topic(self, topic: str) -> Iterator[str]:
        known = self._history.topics.get(topic)
        if known is None:
            yield f"{topic} is gone, but shall be deleted still"
            return
        partitions = {
            TopicPartition(topic, number): assignment
            for number, assignment in known.partitions.items()
        }
        for partition, assignment in partitions.items():
            if assignment.is_being_reassigned and not self._waits(partition, assignment):
                yield f"{partition} is being reassigned: {assignment}"
        if topic not in self._history.to_delete:
            for partition, assignment in partitions.items():
                yield from self._of_partition(partition, assignment)
        elif all(self._have(each, at.replicas) for each, at in partitions.items()):
            yield f"{topic} is being deleted"

    def of_node(self) -> Iterator[str]:
        for partition in self._history.reassigned_by_node or {}:
            topic = self._history.topics.get(partition.topic)
            at = topic.partitions.get(partition.partition) if topic else None
            if at is None or not at.is_being_reassigned:
                yield f"{partition} shall be reassigned by the node still"

    def _of_partition(
        self, partition: TopicPartition, assignment: ReplicaAssignment
    ) -> Iterator[str]:
        state = self._history.states.get(partition)
        can_lead = self._can_be_led(partition, assignment)
        if state is None:
            if can_lead:
                yield f"{partition} has no leader yet"
        elif can_lead != self._has(state.leader, partition):
            yield f"{partition} has no leader, or one that does not run: {state} of {assignment}"
        elif can_lead and set(state.isr) != self._holders(partition, assignment.replicas):
            yield f"{partition} is not in sync: {state} of {assignment}"
        elif not can_lead and state.leader != NO_LEADER:
            yield f"{partition} has a leader that does not run: {state}"

    def _can_be_led(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        state = self._history.states.get(partition)
        if state is None:
            able = assignment.replicas
        else:
            able = (*state.isr, *(assignment.origin_replicas if self._allows_unclean else ()))
        return any(self._has(each, partition) for each in able)

    def _waits(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        is_going = partition.topic in self._history.to_delete
        needed = assignment.replicas if is_going else assignment.target_replicas
        return not (self._can_be_led(partition, assignment) and self._have(partition, needed))

    def _has(self, broker: int, partition: TopicPartition) -> bool:
        running = self._running.get(broker)
        return running is not None and partition not in running.offline

    def _have(self, partition: TopicPartition, brokers: tuple[int, ...]) -> bool:
        return self._holders(partition, brokers) == set(brokers)

    def _holders(self, partition: TopicPartition, brokers: tuple[int, ...]) -> set[int]:
        return {each for each in brokers if self._has(each, partition)}

    # The brokers

    def of_broker(self, broker: SimulatedBroker) -> Iterator[str]:
        if broker.live_brokers.keys() != self._running.keys():
            yield f"{broker.id} knows of the brokers {sorted(broker.live_brokers)}"
        staying = self._history.topics.keys() - self._history.to_delete
        states = self._history.states
        led = [each for each in states if each.topic in staying]
        for partition in led:
            yield from self._of_picture(broker, partition)
        strange = sorted(
            each
            for each in broker.metadata
            if each not in led
            and each.topic not in self._history.to_delete
            and not self._history.could_be_missed(each.topic, broker.epoch)
        )
        if strange:
            yield f"{broker.id} knows of {strange}, which are not there"

    def _of_picture(self, broker: SimulatedBroker, partition: TopicPartition) -> Iterator[str]:
        state = self._history.states[partition]
        replicas = self._history.topics[partition.topic].partitions[partition.partition].replicas
        offline = [each for each in replicas if not self._has(each, partition)]
        version = self._history.versions[partition]
        expected = (state.leader, state.leader_epoch, [*state.isr], version, [*replicas], offline)
        known = broker.metadata.get(partition)
        picture = known and (
            known.leader,
            known.leader_epoch,
            known.isr,
            known.zk_version,
            known.replicas,
            known.offline_replicas,
        )
        if picture != expected:
            yield f"{broker.id} knows of {partition}: {picture}, not {expected}"
        told = broker.replicas.get(partition)
        follows = broker.id in self._holders(partition, replicas)
        if follows and not (told and self._is_told(told, state, replicas)):
            yield f"{broker.id} follows in {partition}: {told}, not {state} of {replicas}"

    def _is_told(
        self, told: LeaderAndIsrPartitionState, state: LeaderAndIsr, replicas: tuple[int, ...]
    ) -> bool:
        """Whom to follow; and who else does, which matters to nobody before there is a leader."""
        is_followed = (told.leader, told.leader_epoch) == (state.leader, state.leader_epoch)
        return is_followed and (state.leader == NO_LEADER or set(told.replicas) == set(replicas))
