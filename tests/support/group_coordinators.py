"""A coordinator of groups over real logs, told by the test what a controller would tell it."""

import asyncio
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from odradek.broker.coordinator.lookup import CoordinatorLookup
from odradek.broker.coordinator.partition_log import CoordinatorContext
from odradek.broker.groups.context import GroupContext
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.zookeeper_offsets import ZooKeeperOffsets
from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS
from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.replicas.partition import Partition
from odradek.broker.settings.groups import GroupSettings
from odradek.controller.store.data_tree import DataTree
from tests.support.hosted_partitions import Hosting
from tests.support.logs import NOW_MS
from tests.support.loops import at_end
from tests.support.memory_store import MemoryStore

LISTENER = "INSIDE"


class SeenTopics:
    """The picture of the cluster, as far as coordinators and their handlers ask for it."""

    def __init__(self, hosting: Hosting) -> None:
        self._known = hosting.known
        self.node = Node(1, "here", 9092, None)

    def topic(self, name: str) -> Any:
        partitions = {index for topic, index in self._known.partitions if topic == name}
        return SimpleNamespace(partitions=partitions) if partitions else None

    def has_partition(self, topic: str, partition: int) -> bool:
        return self._known.has_partition(topic, partition)

    def leader_node(self, topic: str, partition: int, *, listener: str) -> Node | None:
        is_led = self.has_partition(topic, partition) and listener == LISTENER
        return self.node if is_led else None

    async def wait_for_leaders(self, partitions: Any, *, timeout_s: float) -> set[str]:
        return set()


class CountsWhatIsSeen:
    """All partitions have been led."""

    def get(self, topic: Any) -> int:
        return len(topic.partitions)

    async def refresh(self, topic: Any) -> None:
        pass


class Coordinating:
    """Leads ``partitions`` partitions of ``__consumer_offsets``, unless told otherwise."""

    def __init__(self, path: Path, *, partitions: int = 1, **settings: Any) -> None:
        topic = {"cleanup_policy": ("compact",)}
        self.hosting = Hosting(path, **topic)
        self.cluster = SeenTopics(self.hosting)
        self.created: list[str] = []
        options = GroupSettings(**{"initial_rebalance_delay_ms": 0, **settings})
        ids = count(1)
        loop = asyncio.get_running_loop()
        world = GroupContext(options, loop, lambda: NOW_MS, lambda: str(next(ids)))
        self.started: list[asyncio.Task[Any]] = []
        #: "loaded" or "dropped": what whoever looks after memory is told.
        self.memory: list[str] = []
        self.means = CoordinatorContext(
            options,
            lambda: NOW_MS,
            self._start,
            self.hosting.disk.run_in,
            on_shard_loaded=lambda: self.memory.append("loaded"),
            on_shard_unloaded=lambda: self.memory.append("dropped"),
        )
        self.lookup = CoordinatorLookup(
            CONSUMER_OFFSETS,
            self.cluster,
            self,
            CountsWhatIsSeen(),
            configured_partition_count=lambda: max(partitions, 1),
            start_task=self._start,
        )
        self.groups = GroupCoordinator(self.lookup, world, self.means)
        self.store = MemoryStore(DataTree())
        self.old = ZooKeeperOffsets(self.store)
        self.hosting.replicas.leadership_listeners[CONSUMER_OFFSETS] = self.groups.runtime
        at_end(self.groups.close)
        for index in range(partitions):
            self.lead(index)

    def lead(self, index: int = 0, **state: Any) -> Any:
        return self.hosting.lead(CONSUMER_OFFSETS, index, **state)

    def know(self, topic: str, *, partitions: int = 1) -> None:
        """A topic that is there, wherever."""
        self.hosting.known.partitions.update((topic, index) for index in range(partitions))

    async def create(self, names: Any) -> dict[str, Any]:
        self.created += names
        for index in range(1):
            self.lead(index)
        return {}

    def _start(self, work: Any, name: str) -> Any:
        task = self.hosting.background.start(work, name)
        self.started.append(task)
        return task

    async def settled(self) -> None:
        """Until all that was begun has ended: nothing is being loaded any more."""
        await asyncio.gather(*self.started)


def damage(partition: Partition) -> None:
    """The last batch of its log has another byte than its checksum says."""
    (path,) = partition.log.directory.glob("*.log")
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 0xFF
    path.write_bytes(raw)
