"""A cluster in one thread: brokers that each run a controller, far from each other and the store.

    cluster = SimulatedCluster(seed=7)
    cluster.loop.run_until_complete(cluster.start(1))

Everything that travels is delayed or lost as the weather has it, and goes on when its sender is no
more.  Leaders find their followers in sync or not, and ask the controller to have it so, until they
are answered.

Owner: the event loop.
"""

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from random import Random
from typing import Any

from odradek.controller.active_controller import ControllerEnvironment
from odradek.controller.controller import KafkaController
from odradek.controller.controller_channel import BrokerConnection, ControlRequest, ControlResponse
from odradek.controller.controller_context import Broker
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.registration import BrokerIdentity, create_top_level_paths
from odradek.controller.replica_leader_elections import ElectionType
from odradek.controller.store import paths
from odradek.controller.store.base import NodeExists, NoNode, StoreError
from odradek.controller.store.payloads.admin import PreferredReplicaElection, ReassignPartitions
from odradek.controller.store.payloads.notifications import LogDirEvent
from odradek.controller.topic_admin import TopicAdmin
from odradek.controller.topic_names import random_topic_id
from odradek.controller.topic_planning import NewPartitions, NewTopic, TopicDefaults
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from tests.support.cluster_history import ClusterHistory
from tests.support.controller_scene import LISTENER, registration
from tests.support.distant_store import DistantStore, ObservedTree, Weather
from tests.support.simulated_brokers import SimulatedBrokers
from tests.support.topic_entries import growth_entry, topic_entry
from tests.support.virtual_loop import VirtualLoop

LOST = 0.1
STOPS_AFTER_S = 5


class SimulatedCluster:
    """``cut`` are brokers that no request reaches."""

    def __init__(self, seed: int, **settings: Any) -> None:
        self.loop = VirtualLoop()
        self.weather = Weather(seed)
        self.weather.answers_lost = LOST
        self.brokers = SimulatedBrokers()
        self.brokers.on_the_way = self._travels_there
        self.brokers.on_the_way_back = self._travels_back
        self.history = ClusterHistory(self.brokers, zxid=lambda: self._tree.zxid)
        self.controllers: dict[int, KafkaController] = {}
        self.sessions: dict[int, DistantStore] = {}
        self.cut: set[int] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.settings = ControllerSettings(**settings)
        self._tree = ObservedTree(self.history)
        self._ids = Random(seed)
        self._tool = self._store()
        self._lingering: dict[int, DistantStore] = {}

    async def begin(self) -> None:
        await self._tool.open_session()
        self.history.tools.add(self._tool.session_id)
        await create_top_level_paths(self._tool)

    async def close(self) -> None:
        for broker in [*self.controllers]:
            await self.stop(broker)
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)

    def start_task(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        task = self.loop.create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.history.violations.append(f"{task} failed")

    def _store(self) -> DistantStore:
        return DistantStore(self._tree, self.weather, self.loop.now_ms)

    # Brokers

    @property
    def active(self) -> list[int]:
        """Those that think they are the controller."""
        return [each for each, controller in self.controllers.items() if controller.is_active]

    async def start(self, broker: int) -> None:
        if broker in self._lingering:
            await self._lingering.pop(broker).close()
        store = self.sessions[broker] = self._store()
        await store.open_session()
        controller = KafkaController(
            store,
            BrokerIdentity(broker, registration(broker), LISTENER),
            self.settings,
            self._world(),
        )
        self.controllers[broker] = controller
        self.brokers.start(broker, epoch=await controller.start())

    async def stop(self, broker: int, *, lingers: bool = False) -> None:
        """At once; its session may be over much later."""
        self.brokers.stop(broker)
        await self.controllers.pop(broker).close()
        session = self.sessions.pop(broker)
        if lingers:
            self._lingering[broker] = session
            self.start_task(self._end_later(broker, session), name=f"session-of-{broker}")
        else:
            await session.close()

    async def _end_later(self, broker: int, session: DistantStore) -> None:
        await asyncio.sleep(STOPS_AFTER_S)
        if self._lingering.get(broker) is session:
            await self._lingering.pop(broker).close()

    async def lose_logs(self, broker: int, partitions: Collection[TopicPartition]) -> None:
        """A directory that holds these fails, until the broker starts again."""
        there = self.brokers[broker]
        there.offline.update(partitions)
        for partition in partitions:
            there.replicas.pop(partition, None)
        event = LogDirEvent(broker).encode()
        await self._tool.create(paths.LOG_DIR_EVENTS.create_path, event, is_sequential=True)

    async def shut_down(self, broker: int) -> None:
        """After it was asked for, once, whatever is answered."""
        if self.active:
            controller = self.controllers[self.weather.one_of(self.active)]
            epoch = self.controllers[broker].broker_epoch
            await _tried(controller.controlled_shutdown(broker, broker_epoch=epoch))
        await self.stop(broker)

    def _world(self) -> ControllerEnvironment:
        return ControllerEnvironment(
            connect=self._connect,
            start_task=self.start_task,
            sleep=asyncio.sleep,
            now_ms=self.loop.now_ms,
            new_topic_id=lambda: random_topic_id(self._ids),
        )

    # The way to brokers

    def _connect(self, broker: Broker) -> BrokerConnection:
        return _Link(self, self.brokers.connect(broker))

    async def _travels_there(self, broker: int, request: ControlRequest) -> None:
        await self._travels(broker)
        self.history.told(request)
        if broker in self.brokers.running:
            # A broker may hear from the controller before it hears that it is registered.
            known = (self.controllers[broker].broker_epoch, request.broker_epoch)
            there = self.brokers[broker]
            there.epoch = max(there.epoch, *known)

    async def _travels_back(self, broker: int, request: ControlRequest) -> None:
        await self._travels(broker)

    async def _travels(self, broker: int) -> None:
        await asyncio.sleep(self.weather.delay_s())
        if broker in self.cut or self.weather.happens(LOST):
            raise ConnectionResetError

    # What people do

    async def create(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        entry = topic_entry(topic, replicas=dict(enumerate(replicas)))
        plans = (await self._admin().plan_topics([entry])).values()
        if topic not in self.history.topics:
            self._clear_away(topic)
        await self._admin().create_topics([each for each in plans if isinstance(each, NewTopic)])

    def _clear_away(self, topic: str) -> None:
        """What a broker kept since it was away when it was told to let go of it.

        No controller knows of it; a topic of that name could not be there.
        """
        running = self.brokers.running.values()
        kept = [*self.brokers.all_logs(), *(broker.replicas for broker in running)]
        for by_partition in kept:
            for partition in [each for each in by_partition if each.topic == topic]:
                del by_partition[partition]

    async def grow(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        known = self.history.topics.get(topic)
        count = len(replicas) + (len(known.partitions) if known else 0)
        plans = await self._admin().plan_partitions(
            [growth_entry(topic, count=count, replicas=replicas)]
        )
        await self._admin().create_partitions(
            [each for each in plans.values() if isinstance(each, NewPartitions)]
        )

    async def delete(self, topic: str) -> None:
        await self._admin().request_deletions([topic])

    async def reassign(self, targets: dict[TopicPartition, tuple[int, ...] | None]) -> None:
        """None: it shall be cancelled."""
        if self.active:
            controller = self.controllers[self.weather.one_of(self.active)]
            await _tried(controller.alter_partition_reassignments(targets))

    async def reassign_by_node(self, targets: dict[TopicPartition, tuple[int, ...]]) -> None:
        value = ReassignPartitions(targets).encode()
        try:
            await self._tool.create(paths.REASSIGN_PARTITIONS, value)
        except NodeExists:
            return

    async def elect(
        self, kind: ElectionType, partitions: Collection[TopicPartition] | None
    ) -> None:
        if self.active:
            controller = self.controllers[self.weather.one_of(self.active)]
            await _tried(controller.elect_leaders(kind, partitions))

    async def elect_by_node(self, partitions: Sequence[TopicPartition]) -> None:
        value = PreferredReplicaElection(tuple(partitions)).encode()
        try:
            await self._tool.create(paths.PREFERRED_REPLICA_ELECTION, value)
        except NodeExists:
            return

    async def depose(self) -> None:
        """As people do who want another controller; the old one is not asked."""
        try:
            await self._tool.delete(paths.CONTROLLER)
        except NoNode:
            return

    def _admin(self) -> TopicAdmin:
        return TopicAdmin(
            self._tool,
            MetadataReader(self._tool),
            defaults=TopicDefaults,
            random=self._ids,
            new_topic_id=lambda: random_topic_id(self._ids),
        )


class _Link:
    """What is under way arrives, though nobody may wait for it any more."""

    def __init__(self, cluster: SimulatedCluster, link: BrokerConnection) -> None:
        self._cluster = cluster
        self._link = link

    async def send(self, request: ControlRequest, *, version: int) -> ControlResponse:
        answer = self._cluster.loop.create_future()
        work = self._deliver(request, version, answer)
        self._cluster.start_task(work, name="on the way")
        answered: ControlResponse = await answer
        return answered

    async def _deliver(
        self, request: ControlRequest, version: int, answer: asyncio.Future[ControlResponse]
    ) -> None:
        try:
            response = await self._link.send(request, version=version)
        except OSError as failure:
            if not answer.done():
                answer.set_exception(failure)
        else:
            if not answer.done():
                answer.set_result(response)

    def close(self) -> None:
        self._link.close()


async def _tried(asked: Coroutine[Any, Any, object]) -> None:
    """Whoever asks a controller may be refused, or never answered."""
    try:
        await asked
    except (KafkaError, StoreError):
        return
