"""A controller's parts, put together on a store, without events and without a network.

The context is what the store has: brokers that are alive, topics and their leaders.  What brokers
would be told is in ``sent`` after ``scene.batch.send()``.

Owner: the event loop.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.controller.control_request_builder import ControlRequestBuilder
from odradek.controller.controller_channel import ControlRequest
from odradek.controller.controller_context import Broker, ControllerContext
from odradek.controller.leader_and_isr import LeaderIsrAndControllerEpoch
from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.metadata_version import LATEST, MetadataVersion, RequestVersions
from odradek.controller.metadata_writer import MetadataWriter
from odradek.controller.partition_state_machine import ElectionRules, PartitionStateMachine
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.replica_state_machine import ReplicaStateMachine
from odradek.controller.request_batch import ControllerBrokerRequestBatch
from odradek.controller.store import paths
from odradek.controller.store.base import Create, MetadataStore
from odradek.controller.store.payloads.broker import (
    BrokerRegistration,
    Endpoint,
    SecurityProtocol,
)
from odradek.controller.store.payloads.controller import ControllerEpoch
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.protocol.types import TopicPartition, Uuid

CONTROLLER = 0
EPOCH = 7
LISTENER = "INSIDE"


def registration(broker: int, *, rack: str | None = None) -> BrokerRegistration:
    inside = Endpoint(LISTENER, f"host{broker}", 9092, SecurityProtocol.PLAINTEXT)
    outside = Endpoint("OUTSIDE", f"world{broker}", 9093, SecurityProtocol.SASL_SSL)
    return BrokerRegistration((inside, outside), rack)


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().ljust(16, b"-")[:16])


@dataclass
class Sent:
    """Channels that only note what goes out."""

    requests: list[tuple[int, ControlRequest, int]] = field(default_factory=list)

    def send(self, broker_id: int, request: ControlRequest, *, version: int) -> None:
        self.requests.append((broker_id, request, version))

    def to(self, broker: int, kind: type[ControlRequest]) -> ControlRequest | None:
        """The one request of this kind; None if there is none."""
        found = [each for to, each, _ in self.requests if to == broker and isinstance(each, kind)]
        assert len(found) <= 1, found
        return found[0] if found else None


@dataclass
class Scene:
    store: MetadataStore
    context: ControllerContext
    reads: MetadataReader
    writes: MetadataWriter
    sent: Sent
    batch: ControllerBrokerRequestBatch
    partitions: PartitionStateMachine
    replicas: ReplicaStateMachine

    async def add_topic(
        self, name: str, *assignments: Sequence[int] | ReplicaAssignment
    ) -> list[TopicPartition]:
        """In the store and the context, without states and leaders."""
        each = [
            at if isinstance(at, ReplicaAssignment) else ReplicaAssignment(tuple(at))
            for at in assignments
        ]
        node = TopicAssignment(dict(enumerate(each)), topic_id(name))
        assert await self.writes.create_topics({name: node}) == {}
        self.context.add_topic(name, node.topic_id)
        partitions = [TopicPartition(name, number) for number in range(len(each))]
        for partition, assignment in zip(partitions, each, strict=True):
            self.context.update_assignment(partition, assignment)
        return partitions

    async def add_leaders(
        self, leaderships: Mapping[TopicPartition, LeaderIsrAndControllerEpoch]
    ) -> None:
        """In the store and the context."""
        written = await self.writes.create_topic_partition_states(leaderships)
        assert not written.failed
        self.context.partition_leadership_info |= written.finished

    def add_brokers(self, brokers: Iterable[int], *, epoch: int = 100) -> None:
        """To the context alone; their epochs are their ids above ``epoch``."""
        for broker in brokers:
            known = Broker(broker, epoch + broker, registration(broker))
            self.context.brokers[broker] = known


async def controller_scene(
    store: MetadataStore,
    *,
    brokers: Iterable[int] = (1, 2, 3),
    spoken: MetadataVersion = LATEST,
    allows_unclean: bool = False,
) -> Scene:
    """``store`` is open and empty; afterwards this controller is the one in charge."""
    roots = paths.with_parents(paths.PERSISTENT_ROOTS)
    epoch = Create(paths.CONTROLLER_EPOCH, ControllerEpoch(EPOCH).encode())
    await store.multi([*map(Create, roots), epoch])
    context = ControllerContext()
    context.epoch, context.epoch_zk_version = EPOCH, 0
    reads = MetadataReader(store)
    writes = MetadataWriter(store, context, reads)
    sent = Sent()
    versions = RequestVersions.for_metadata_version(spoken)
    requests = ControlRequestBuilder(
        context, controller_id=CONTROLLER, versions=versions, inter_broker_listener=LISTENER
    )
    batch = ControllerBrokerRequestBatch(context, requests, sent)
    rules = ElectionRules(lambda: allows_unclean, spoken.is_leader_recovery_supported)
    partitions = PartitionStateMachine(context, reads, writes, batch, rules)
    replicas = ReplicaStateMachine(context, reads, writes, batch)
    scene = Scene(store, context, reads, writes, sent, batch, partitions, replicas)
    scene.add_brokers(brokers)
    return scene
