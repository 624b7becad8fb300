"""A cluster of simulated brokers, each with a session of its own and a real controller.

    async with ControlledCluster(stores) as cluster:
        await cluster.start(1)
        await cluster.until(lambda: cluster.controller_id == 1)

Short naps (of whoever tries something again) end whenever ``until`` looks; long ones only when the
test says ``pass_time``.

Owner: the event loop.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self

from odradek.controller.active_controller import ControllerEnvironment
from odradek.controller.controller import KafkaController
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.registration import BrokerIdentity, create_top_level_paths
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store import paths
from odradek.controller.store.base import MetadataStore
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.protocol.types import TopicPartition, Uuid
from tests.support.controller_scene import LISTENER, registration, topic_id
from tests.support.simulated_brokers import SimulatedBrokers
from tests.support.stores import NOW_MS, Stores

LONG_NAP_S = 1.5
LOOK_EVERY_S = 0.001
PATIENCE_S = 30


class Naps:
    """Sleep that ends when somebody says so."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        self._waiting.append((seconds, woken))
        await woken

    def wake(self, *, long: bool) -> list[float]:
        """How long those were meant to be that are woken."""
        chosen = [nap for nap in self._waiting if (nap[0] > LONG_NAP_S) is long]
        self._waiting = [nap for nap in self._waiting if nap not in chosen]
        asleep = [nap for nap in chosen if not nap[1].done()]
        for _, woken in asleep:
            woken.set_result(None)
        return [seconds for seconds, _ in asleep]


class ControlledCluster:
    """Brokers by id; ``settings`` are all controllers'."""

    def __init__(self, stores: Stores, **settings: Any) -> None:
        self.brokers = SimulatedBrokers()
        self.brokers.on_the_way = self._tell_epoch
        self.controllers: dict[int, KafkaController] = {}
        self.sessions: dict[int, MetadataStore] = {}
        self._outside: MetadataStore | None = None
        self._stores = stores
        self._settings = settings
        self._naps = Naps()
        #: How often each was told that another is the controller.
        self.told_of_controllers: Counter[int] = Counter()
        self._group = asyncio.TaskGroup()
        self._ids = 0

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *failure: Any) -> None:
        for controller in self.controllers.values():
            await controller.close()
        await self._group.__aexit__(*failure)

    # Brokers

    async def start(self, *brokers: int, **settings: Any) -> None:
        """``settings`` are those in which they differ from all others."""
        for broker in brokers:
            store = await self._stores.open()
            await create_top_level_paths(store)
            identity = self.identity(broker)
            chosen = ControllerSettings(**{**self._settings, **settings})
            controller = KafkaController(store, identity, chosen, self.world(broker))
            epoch = await controller.start()
            self.controllers[broker], self.sessions[broker] = controller, store
            self.brokers.start(broker, epoch=epoch)

    def identity(self, broker: int) -> BrokerIdentity:
        return BrokerIdentity(broker, registration(broker), LISTENER)

    async def start_three(self) -> None:
        """Of which the first is the controller; all know of each other then."""
        await self.start(1)
        await self.until(lambda: self.controller_id == 1)
        await self.start(2, 3)
        await self.until_acquainted()

    async def kill(self, broker: int) -> None:
        """Its session ends with it."""
        self.brokers.stop(broker)
        await self.controllers.pop(broker).close()
        await self.sessions.pop(broker).close()

    async def expire(self, broker: int) -> None:
        await self._stores.expire(self.sessions[broker])

    def world(self, broker: int = 1) -> ControllerEnvironment:
        return ControllerEnvironment(
            on_controller_changed=lambda: self.told_of_controllers.update([broker]),
            connect=self.brokers.connect,
            start_task=self._group.create_task,
            sleep=self._naps.sleep,
            now_ms=lambda: NOW_MS,
            new_topic_id=self._new_topic_id,
        )

    async def _tell_epoch(self, broker: int, request: object) -> None:
        """A broker knows its epoch from its own controller."""
        if broker in self.brokers.running:
            self.brokers[broker].epoch = self.controllers[broker].broker_epoch

    def _new_topic_id(self) -> Uuid:
        self._ids += 1
        return Uuid(self._ids.to_bytes(16, "big"))

    # What can be seen

    @property
    def controller_id(self) -> int | None:
        """Whose controller is in office; None while it is none, or two think so."""
        active = [each for each, controller in self.controllers.items() if controller.is_active]
        return active[0] if len(active) == 1 else None

    @property
    def controller(self) -> KafkaController:
        assert self.controller_id is not None
        return self.controllers[self.controller_id]

    async def open_outside(self) -> MetadataStore:
        """A session of none of the brokers, which is used for all that follows."""
        self._outside = await self._stores.open()
        return self._outside

    @property
    def any_session(self) -> MetadataStore:
        return self._outside or next(iter(self.sessions.values()))

    def leaders(self) -> dict[str, int] | None:
        """As all brokers that run were told; None while they were told different things."""
        pictures = [
            {str(each): state.leader for each, state in broker.metadata.items()}
            for broker in self.brokers.running.values()
        ]
        return pictures[0] if all(each == pictures[0] for each in pictures) else None

    def led(self) -> dict[str, list[int]]:
        """Who acts as leader."""
        led: dict[str, list[int]] = {}
        for broker in self.brokers.running.values():
            for partition in sorted(broker.leads):
                led.setdefault(str(partition), []).append(broker.id)
        return led

    async def state(self, topic: str, number: int = 0) -> LeaderAndIsr:
        path = paths.partition_state(TopicPartition(topic, number))
        return LeaderAndIsr.decode((await self.any_session.get(path)).value)

    async def until(self, condition: Callable[[], object]) -> None:
        async def answer() -> object:
            return condition()

        await self.until_found(answer)

    async def until_found(self, condition: Callable[[], Awaitable[object]]) -> None:
        """As ``until``, by a look at the store."""
        async with asyncio.timeout(PATIENCE_S):
            while not await condition():
                self._naps.wake(long=False)
                await asyncio.sleep(LOOK_EVERY_S)

    async def until_gone(self, path: str) -> None:
        async def is_gone() -> bool:
            return await self.any_session.exists(path) is None

        await self.until_found(is_gone)

    async def until_acquainted(self) -> None:
        """All brokers that run know of exactly each other."""
        await self.until(
            lambda: all(
                broker.live_brokers.keys() == self.brokers.running.keys()
                for broker in self.brokers.running.values()
            )
        )

    async def until_led(self, leaders: Mapping[str, int]) -> None:
        """By those that think so, as all others think."""
        led = {partition: [leader] for partition, leader in leaders.items() if leader >= 0}
        await self.until(lambda: self.leaders() == leaders and self.led() == led)

    async def until_agreed(self) -> None:
        """Every partition is led by one that runs, as the store says and all brokers know."""
        await self.until_found(self._is_agreed)

    async def _is_agreed(self) -> bool:
        leaders = self.leaders()
        if leaders is None or self.led() != {each: [at] for each, at in leaders.items()}:
            return False
        for broker in self.brokers.running.values():
            for partition, told in broker.replicas.items():
                state = await self.state(partition.topic, partition.partition)
                if (told.leader, told.leader_epoch) != (state.leader, state.leader_epoch):
                    return False
                assert state.leader in state.isr
        return True

    def pass_time(self) -> list[float]:
        """For how long those slept that are woken."""
        return self._naps.wake(long=True)

    # What outside tools do

    async def create_topic(self, name: str, *replicas: Sequence[int]) -> None:
        each = {number: ReplicaAssignment(tuple(at)) for number, at in enumerate(replicas)}
        value = TopicAssignment(each, topic_id(name)).encode()
        await self.any_session.create(paths.topic(name), value)
