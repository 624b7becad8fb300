"""What was ever written to a cluster's tree and told to its brokers, held against what must be so.

    one leader          of a partition in one leader epoch, whoever says so
    a sound leader      is in sync, and all that are in sync are assigned
    epochs              of a partition's leader never go back
    deleted topics      stay away; no replica of them is left when they go
    fencing             only the controller of the latest epoch writes, but for brokers that
                        register and stand for election

Every change is looked at in the moment in which it is made.  What is wrong is noted and not raised:
the controller would take it for a failure of its store.

Owner: the event loop.
"""

from collections.abc import Callable, Mapping

from odradek.controller.controller_channel import ControlRequest
from odradek.controller.leader_and_isr import NO_LEADER
from odradek.controller.store import paths
from odradek.controller.store.base import Check
from odradek.controller.store.data_tree import DeletedNode, Mutation, NodeRecord
from odradek.controller.store.payloads.admin import ReassignPartitions
from odradek.controller.store.payloads.controller import ControllerEpoch
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.protocol.api.stop_replica import StopReplicaRequest
from odradek.protocol.types import TopicPartition, Uuid
from tests.support.simulated_brokers import SimulatedBrokers

#: What a broker writes that is not the controller yet; the root is above /controller.
UNFENCED = {"/", paths.BROKER_IDS, paths.CONTROLLER, paths.CONTROLLER_EPOCH}


class ClusterHistory:
    """The tree as it is, and what was wrong with what became of it."""

    def __init__(self, brokers: SimulatedBrokers, zxid: Callable[[], int]) -> None:
        self.violations: list[str] = []
        #: Sessions that are no broker's, and may write what they like.
        self.tools: set[int] = set()
        self.topics: dict[str, TopicAssignment] = {}
        self.states: dict[TopicPartition, LeaderAndIsr] = {}
        self.versions: dict[TopicPartition, int] = {}
        self.to_delete: set[str] = set()
        self.reassigned_by_node: Mapping[TopicPartition, tuple[int, ...]] | None = None
        self._brokers = brokers
        self._epoch = NodeRecord(paths.CONTROLLER_EPOCH, b"0", 0, 0, 0, 0, 0, 0)
        self._zxid = zxid
        self._deleted_ids: set[Uuid | None] = set()
        #: By name: in which epoch of the controller, and when.
        self._deletions: dict[str, tuple[int, int]] = {}
        self._leaders: dict[tuple[Uuid | None, int, int], int] = {}

    @property
    def controller_epoch(self) -> int:
        return ControllerEpoch.decode(self._epoch.value).epoch

    # The tree

    def written(
        self, session_id: int, mutations: Mapping[str, Mutation], fence: Check | None
    ) -> None:
        if session_id not in self.tools:
            self._check_fence(mutations, fence)
        for mutation in mutations.values():
            self._note(mutation)

    def _check_fence(self, mutations: Mapping[str, Mutation], fence: Check | None) -> None:
        if fence is None:
            unfenced = [path for path in mutations if path not in UNFENCED]
            self._expect(not unfenced, f"written without a fence: {unfenced}")
        elif mutations:
            version = self._epoch.version
            self._expect(fence.version == version, f"an old controller wrote {[*mutations]}")

    def _note(self, mutation: Mutation) -> None:
        path = mutation.path
        topic, partition = paths.topic_from_path(path), paths.partition_from_path(path)
        if path == paths.CONTROLLER_EPOCH and isinstance(mutation, NodeRecord):
            self._expect(mutation.version == self._epoch.version + 1 or not mutation.version, path)
            self._epoch = mutation
        elif path == paths.REASSIGN_PARTITIONS:
            is_there = isinstance(mutation, NodeRecord)
            self.reassigned_by_node = (
                ReassignPartitions.decode(mutation.value).replicas if is_there else None
            )
        elif path.startswith(f"{paths.DELETE_TOPICS}/"):
            change = (
                self.to_delete.add if isinstance(mutation, NodeRecord) else self.to_delete.discard
            )
            change(path.rpartition("/")[2])
        elif partition is not None and path == paths.partition_state(partition):
            self._note_state(partition, mutation)
        elif topic is not None and path == paths.topic(topic):
            self._note_topic(topic, mutation)

    def _note_topic(self, topic: str, mutation: Mutation) -> None:
        if isinstance(mutation, DeletedNode):
            return self._note_deleted(topic, self.topics.pop(topic))
        now = TopicAssignment.decode(mutation.value, topic)
        before = self.topics.get(topic)
        self._expect(now.topic_id not in self._deleted_ids, f"{topic} came back")
        if before is not None:
            self._expect(now.topic_id == before.topic_id, f"{topic} has another id")
            gone = before.partitions.keys() - now.partitions.keys()
            self._expect(not gone or topic in self.to_delete, f"{topic} lost partitions {gone}")
        self.topics[topic] = now
        for number in now.partitions:
            self._check_leader(TopicPartition(topic, number))
        return None

    def _note_deleted(self, topic: str, before: TopicAssignment) -> None:
        self._deleted_ids.add(before.topic_id)
        self._deletions[topic] = (self.controller_epoch, self._zxid())
        self._expect(topic in self.to_delete, f"{topic} is gone though nobody asked for it")
        for number, assignment in before.partitions.items():
            for broker in assignment.replicas:
                found = self._brokers.logs_of(broker).get(TopicPartition(topic, number))
                is_left = found is not None and found == before.topic_id
                self._expect(not is_left, f"{topic}-{number} is deleted, but not from {broker}")

    def _note_state(self, partition: TopicPartition, mutation: Mutation) -> None:
        if isinstance(mutation, DeletedNode):
            self.states.pop(partition)
            self._expect(partition.topic in self.to_delete, f"the leader of {partition} is gone")
            return
        now = LeaderAndIsr.decode(mutation.value, str(partition))
        before = self.states.get(partition)
        what = f"{partition}: {before} became {now}"
        if before is not None:
            self._expect(now.leader_epoch >= before.leader_epoch, what)
        self._expect(now.controller_epoch == self.controller_epoch, what)
        self.states[partition], self.versions[partition] = now, mutation.version
        self._note_leader(partition, self._topic_id(partition), now.leader_epoch, now.leader)
        self._check_leader(partition)

    def _check_leader(self, partition: TopicPartition) -> None:
        state = self.states.get(partition)
        if state is None:
            return
        assignment = self.topics[partition.topic].partitions.get(partition.partition)
        what = f"{partition}: {state} of {assignment}"
        self._expect(assignment is not None and bool(state.isr), what)
        self._expect(state.leader in (NO_LEADER, *state.isr), what)
        if assignment is not None:
            self._expect(set(assignment.replicas).issuperset(state.isr), what)

    def _note_leader(
        self, partition: TopicPartition, topic_id: Uuid | None, epoch: int, leader: int
    ) -> None:
        known = self._leaders.setdefault((topic_id, partition.partition, epoch), leader)
        self._expect(known == leader, f"{known} and {leader} lead {partition} in epoch {epoch}")

    def _topic_id(self, partition: TopicPartition) -> Uuid | None:
        return self.topics[partition.topic].topic_id

    # The brokers

    def could_be_missed(self, topic: str, broker_epoch: int) -> bool:
        """That it was deleted, by a broker that still is what it was.

        Only the controller that deletes a topic can tell of it, and only brokers that are
        registered: with requests as they are, a picture only grows otherwise.
        """
        epoch, zxid = self._deletions.get(topic, (self.controller_epoch, broker_epoch))
        return epoch != self.controller_epoch or zxid < broker_epoch

    def told(self, request: ControlRequest) -> None:
        if isinstance(request, StopReplicaRequest):
            return
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                if state.leader >= NO_LEADER:
                    self._note_leader(partition, topic.topic_id, state.leader_epoch, state.leader)

    def _expect(self, is_so: bool, what: str) -> None:
        if not is_so:
            self.violations.append(what)
