"""A process with a controller on an embedded store, killed at one of its writes: both its sides.

It forks for every order.  The child is a broker and whoever administers it: it works through STEPS,
from the one that it is told to begin with, each a wish that is asked for again if it may have been
fulfilled already, and waited for.  Every write is a commit of its own, and the child ends at the
one that its order says: before it is made, or when it is made and nobody knows yet.

    {"done": 2}   the step was done

Owner: the event loop of the child; the test's thread.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from odradek.controller.active_controller import ControllerEnvironment
from odradek.controller.controller import KafkaController
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.registration import (
    BrokerIdentity,
    create_or_get_cluster_id,
    create_top_level_paths,
)
from odradek.controller.store import paths
from odradek.controller.store.base import (
    Check,
    MetadataStore,
    NodeExists,
    Operation,
    Outcome,
    Read,
    Result,
    Write,
)
from odradek.controller.store.embedded import EmbeddedStore
from odradek.controller.store.journal import SqliteJournal
from odradek.controller.store.payloads.admin import ReassignPartitions
from odradek.controller.topic_admin import TopicAdmin
from odradek.controller.topic_planning import NewPartitions, NewTopic, TopicDefaults
from odradek.protocol.errors import NoReassignmentInProgress, NotController
from odradek.protocol.types import TopicPartition, Uuid
from tests.support.controller_scene import LISTENER, registration
from tests.support.forking_process import ForkingProcess, serve, tell
from tests.support.loops import on_a_thread
from tests.support.simulated_brokers import SimulatedBrokers
from tests.support.topic_entries import growth_entry, topic_entry

PATIENCE_S = 30
LOOK_EVERY_S = 0.001
BROKER, ABSENT = 1, 2
MOVED = TopicPartition("kept", 1)


@dataclass(frozen=True, kw_only=True)
class Order:
    file: str
    first_step: int = 0
    #: Counted from 1 at the beginning of the process; 0: it is not killed.
    kill_at_write: int = 0
    is_written: bool = False


@dataclass
class Told:
    """``steps_done`` in all, by this child and those before it."""

    steps_done: int
    was_killed: bool = False


class KilledController:
    """The test's side."""

    def __init__(self, process: ForkingProcess) -> None:
        self._process = process

    def run(self, order: Order) -> Told:
        told = Told(order.first_step)
        for each in self._process.told(asdict(order)):
            told.steps_done = each["done"] + 1
        told.was_killed = self._process.was_killed
        return told


@contextmanager
def killed_controller() -> Iterator[KilledController]:
    process = ForkingProcess("tests.support.killed_controller")
    try:
        yield KilledController(process)
    finally:
        process.stop()


# The child's side


class KillingStore(EmbeddedStore):
    """Makes one write at a time, and ends the process at one of them."""

    def __init__(self, order: Order) -> None:
        journal = SqliteJournal(Path(order.file))
        super().__init__(journal, run_in_thread=on_a_thread, now_ms=lambda: 1)
        self._order = order
        self._writes = 0

    async def run(
        self, operations: Sequence[Operation], *, fence: Check | None = None
    ) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for operation in operations:
            self._writes += not isinstance(operation, Read)
            self._end_if_told(is_written=False)
            outcomes += await super().run([operation], fence=fence)
            self._end_if_told(is_written=True)
        return outcomes

    async def multi(self, operations: Sequence[Write]) -> list[Result]:
        self._writes += 1
        self._end_if_told(is_written=False)
        results = await super().multi(operations)
        self._end_if_told(is_written=True)
        return results

    def _end_if_told(self, *, is_written: bool) -> None:
        order = self._order
        if (self._writes, is_written) == (order.kill_at_write, order.is_written):
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Node:
    """The one broker, and the way to ask it."""

    store: MetadataStore
    controller: KafkaController
    brokers: SimulatedBrokers
    admin: TopicAdmin
    reads: MetadataReader

    async def until(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if await is_so():
                    return
                await asyncio.sleep(LOOK_EVERY_S)

    async def until_led(self, topic: str, partitions: int) -> None:
        led = {TopicPartition(topic, number) for number in range(partitions)}

        async def is_led() -> bool:
            known = self.brokers[BROKER].metadata
            return led == self.brokers[BROKER].leads.intersection(led) and led <= known.keys()

        await self.until(is_led)

    async def create(self, topic: str, partitions: int) -> None:
        """It is there already if the last process did not come to say so."""
        replicas = dict.fromkeys(range(partitions), (BROKER,))
        entry = topic_entry(topic, replicas=replicas, config={"retention.ms": "7"})
        plans = await self.admin.plan_topics([entry])
        new = [plan for plan in plans.values() if isinstance(plan, NewTopic)]
        await self.admin.create_topics(new)
        await self.until_led(topic, partitions)

    async def is_moving(self) -> bool:
        topic = (await self.reads.get_topic_assignments([MOVED.topic]))[MOVED.topic]
        return topic.partitions[MOVED.partition].is_being_reassigned


async def create_topics(node: Node) -> None:
    await node.create("kept", 2)
    await node.create("passing", 2)


async def grow(node: Node) -> None:
    entry = growth_entry("kept", count=3, replicas=[(BROKER,)])
    plans = await node.admin.plan_partitions([entry])
    await node.admin.create_partitions(
        [plan for plan in plans.values() if isinstance(plan, NewPartitions)]
    )
    await node.until_led("kept", 3)


async def move_away(node: Node) -> None:
    """To a broker that never comes."""
    value = ReassignPartitions({MOVED: (ABSENT,)}).encode()
    with suppress(NodeExists):
        await node.store.create(paths.REASSIGN_PARTITIONS, value)
    await node.until(node.is_moving)


async def move_back(node: Node) -> None:
    async def is_cancelled() -> bool:
        try:
            outcomes = await node.controller.alter_partition_reassignments({MOVED: None})
        except NotController:
            return False
        return outcomes[MOVED] is None or isinstance(outcomes[MOVED], NoReassignmentInProgress)

    await node.until(is_cancelled)


async def delete(node: Node) -> None:
    async def is_gone() -> bool:
        gone = (paths.topic("passing"), paths.topic_to_delete("passing"))
        return not any([await node.store.exists(path) for path in gone])

    await node.admin.request_deletions(["passing"])
    await node.until(is_gone)


STEPS = (create_topics, grow, move_away, move_back, delete)


async def live(order: Order) -> None:
    store = KillingStore(order)
    await store.open_session()
    await create_top_level_paths(store)
    await create_or_get_cluster_id(store, "cluster")
    async with asyncio.TaskGroup() as group:
        node = started(store, group)
        await node.controller.start()
        for number, step in enumerate(STEPS):
            if number >= order.first_step:
                await step(node)
                tell({"done": number})
        # What the last wish was answered before.
        await node.until_led("kept", 3)
        await node.controller.close()
    await store.close()


def started(store: MetadataStore, group: asyncio.TaskGroup) -> Node:
    brokers = SimulatedBrokers()
    brokers.start(BROKER, epoch=0)
    world = ControllerEnvironment(
        connect=brokers.connect,
        start_task=group.create_task,
        sleep=asyncio.sleep,
        now_ms=lambda: 1,
        new_topic_id=lambda: Uuid(b"of a topic's own"),
    )
    identity = BrokerIdentity(BROKER, registration(BROKER), LISTENER)
    controller = KafkaController(store, identity, ControllerSettings(), world)
    reads = MetadataReader(store)
    admin = TopicAdmin(
        store,
        reads,
        defaults=TopicDefaults,
        random=Random(0),
        new_topic_id=lambda: Uuid(b"of a topic's own"),
    )
    return Node(store, controller, brokers, admin, reads)


if __name__ == "__main__":
    serve(lambda order: asyncio.run(live(Order(**order))))
