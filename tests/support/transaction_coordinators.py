"""A coordinator of transactions over real logs, told by the test what a controller would tell."""

import asyncio
from pathlib import Path
from typing import Any

from odradek.broker.coordinator.lookup import CoordinatorLookup
from odradek.broker.coordinator.partition_log import CoordinatorContext
from odradek.broker.metadata.internal_topics import TRANSACTION_STATE
from odradek.broker.settings.transactions import TransactionSettings
from odradek.broker.transactions.context import TransactionContext
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.marker_channel_manager import TransactionMarkerChannelManager
from tests.support.group_coordinators import CountsWhatIsSeen, SeenTopics
from tests.support.hosted_partitions import Hosting
from tests.support.logs import NOW_MS
from tests.support.loops import at_end
from tests.support.participants import Participants
from tests.support.transaction_scene import Ids


class Transacting:
    """Leads ``partitions`` partitions of ``__transaction_state``."""

    def __init__(self, path: Path, *, partitions: int = 1, version: int = 2) -> None:
        self.hosting = Hosting(path, cleanup_policy=("compact",))
        self.participants = Participants()
        self.started: list[asyncio.Task[Any]] = []
        options = TransactionSettings()
        world = TransactionContext(
            options, lambda: NOW_MS, Ids(), lambda: version, self._start, asyncio.sleep
        )
        markers = TransactionMarkerChannelManager(
            self.participants,
            world,
            self.participants,
            listener="INSIDE",
            has_partition=self.participants.has_partition,
        )
        cluster, creator = SeenTopics(self.hosting), Nobody()
        lookup = CoordinatorLookup(
            TRANSACTION_STATE,
            cluster,
            creator,
            CountsWhatIsSeen(),
            configured_partition_count=lambda: partitions,
            start_task=self._start,
        )
        means = CoordinatorContext(options, lambda: NOW_MS, self._start, self.hosting.disk.run_in)
        self.coordinator = TransactionCoordinator(lookup, world, means, markers)
        self.hosting.replicas.leadership_listeners[TRANSACTION_STATE] = self.coordinator.runtime
        at_end(self.coordinator.close)
        for index in range(partitions):
            self.lead(index)

    def lead(self, index: int = 0, **state: Any) -> Any:
        return self.hosting.lead(TRANSACTION_STATE, index, **state)

    def _start(self, work: Any, name: str) -> Any:
        task = self.hosting.background.start(work, name)
        self.started.append(task)
        return task

    async def settled(self) -> None:
        """Until all that was begun has ended."""
        while running := [each for each in self.started if not each.done()]:
            await asyncio.gather(*running)


class Nobody:
    """Creates no topics."""

    async def create(self, names: Any) -> dict[str, Any]:
        return {}
