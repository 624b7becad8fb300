"""A controller's parts with a topic that has leaders, to reassign and to delete it.

    bench = await moving_bench([1, 2], [2, 3])      topic t: what is on which brokers
    await bench.reassignments.alter({T0: (3, 4)})
    await bench.in_sync(T0, 1, 2, 3, 4)             as its leader would say
    sent = bench.sent()                             what brokers are told

Owner: the event loop.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from odradek.controller.controller_channel import ControlRequest
from odradek.controller.controller_context import PartitionAndReplica
from odradek.controller.leader_and_isr import LeaderIsrAndControllerEpoch
from odradek.controller.offline_replicas import OfflineReplicaHandler
from odradek.controller.reassignment import PartitionReassignmentManager
from odradek.controller.replica_state import ReplicaState
from odradek.controller.store import paths
from odradek.controller.store.base import MetadataStore
from odradek.controller.store.payloads.admin import ReassignPartitions
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.controller.topic_deletion_manager import TopicDeletionManager
from odradek.protocol.api.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.api.stop_replica import StopReplicaRequest
from odradek.protocol.api.update_metadata import UpdateMetadataRequest
from odradek.protocol.types import TopicPartition
from tests.support.controller_parts import Events, machinery_of
from tests.support.controller_scene import Scene, Sent, controller_scene
from tests.support.stores import MemoryStores

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


@dataclass
class Told:
    """What went out since it was last asked; partitions by broker."""

    sent: Sent

    def leads(self, broker: int) -> dict[TopicPartition, tuple[int, list[int], bool]]:
        """Leader, replicas, and whether the broker's own is new."""
        return {
            TopicPartition(topic.topic_name, each.partition_index): (
                each.leader,
                each.replicas,
                each.is_new,
            )
            for request in self._of(broker, LeaderAndIsrRequest)
            for topic in request.topic_states
            for each in topic.partition_states
        }

    def stops(self, broker: int) -> dict[TopicPartition, bool]:
        """Whether it shall be deleted."""
        return {
            TopicPartition(topic.topic_name, each.partition_index): each.delete_partition
            for request in self._of(broker, StopReplicaRequest)
            for topic in request.topic_states
            for each in topic.partition_states
        }

    def metadata(self, broker: int) -> dict[TopicPartition, int]:
        """Leaders."""
        return {
            TopicPartition(topic.topic_name, each.partition_index): each.leader
            for request in self._of(broker, UpdateMetadataRequest)
            for topic in request.topic_states
            for each in topic.partition_states
        }

    def _of(self, broker: int, kind: type) -> Iterable[ControlRequest]:
        return (each for to, each, _ in self.sent.requests if to == broker and type(each) is kind)


@dataclass
class MovingBench:
    scene: Scene
    deletion: TopicDeletionManager
    reassignments: PartitionReassignmentManager
    events: Events

    @property
    def store(self) -> MetadataStore:
        return self.scene.store

    async def add_topic(self, name: str, *assignments: Sequence[int]) -> None:
        """With leaders, as far as there are brokers."""
        await self.scene.add_topic(name, *assignments)
        await self.scene.replicas.start()
        await self.scene.partitions.start()
        self.sent()

    def sent(self) -> Told:
        self.scene.batch.send_requests_to_brokers()
        told, self.scene.sent.requests = Told(Sent(self.scene.sent.requests)), []
        return told

    async def in_sync(self, partition: TopicPartition, *isr: int) -> None:
        """The leader has said so, and it was written."""
        now = self.scene.context.partition_leadership_info[partition]
        written = await self.scene.writes.update_leader_and_isr({partition: now.with_isr(isr)})
        self.scene.context.partition_leadership_info |= written.finished
        await self.reassignments.process_partition_reassignment_isr_change([partition])

    async def leadership(self, partition: TopicPartition = T0) -> LeaderIsrAndControllerEpoch:
        """As the store has it, and so must the context."""
        (found,) = (await self.scene.reads.get_topic_partition_states([partition])).values()
        assert self.scene.context.partition_leadership_info[partition] == found
        return found

    async def topic(self, name: str = "t") -> TopicAssignment:
        """As the store has it, and so must the context."""
        node = await self.store.get(paths.topic(name))
        topic = TopicAssignment.decode(node.value)
        for number, assignment in topic.partitions.items():
            assert self.scene.context.assignment(TopicPartition(name, number)) == assignment
        return topic

    async def ask_by_node(self, asked: dict[TopicPartition, tuple[int, ...]]) -> None:
        value = ReassignPartitions(asked).encode()
        await self.store.create(paths.REASSIGN_PARTITIONS, value)
        await self.reassignments.process_zk_partition_reassignment()

    async def node(self) -> dict[TopicPartition, tuple[int, ...]] | None:
        found = await self.scene.reads.get_partition_reassignment()
        return None if found is None else dict(found)

    def state(self, partition: TopicPartition, broker: int) -> ReplicaState:
        return self.scene.context.replica_state(PartitionAndReplica(partition, broker))

    async def lose(self, *brokers: int) -> None:
        """They are gone, and what they had is offline."""
        context = self.scene.context
        replicas = [each for broker in brokers for each in context.replicas_on_broker(broker)]
        for broker in brokers:
            context.remove_broker(broker)
        await OfflineReplicaHandler(
            machinery_of(self.scene), self.deletion
        ).on_replicas_become_offline(replicas)
        self.sent()

    async def join(self, *brokers: int) -> None:
        self.scene.add_brokers(brokers, epoch=200)
        context = self.scene.context
        replicas = [each for broker in brokers for each in context.replicas_on_broker(broker)]
        await self.scene.replicas.handle_state_changes(replicas, ReplicaState.ONLINE)
        await self.scene.partitions.trigger_online_partition_state_change()
        await self.reassignments.maybe_resume_reassignments(brokers)
        await self.deletion.resume_deletion_for_topics(
            sorted({each.partition.topic for each in replicas})
        )


async def moving_bench(
    *assignments: Sequence[int],
    brokers: Iterable[int] = (1, 2, 3, 4),
    store: MetadataStore | None = None,
) -> MovingBench:
    scene = await controller_scene(store or await MemoryStores().open(), brokers=brokers)
    machinery = machinery_of(scene)
    deletion, events = TopicDeletionManager(machinery), Events()
    watch = events.watches.on_zk_partition_reassignment
    bench = MovingBench(
        scene, deletion, PartitionReassignmentManager(machinery, deletion, watch), events
    )
    await bench.add_topic("t", *assignments)
    await deletion.start()
    return bench
