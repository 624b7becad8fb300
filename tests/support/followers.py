"""Followers that catch up: the part of replication that a controller hears of.

A leader finds everyone in sync who was told to follow it in the same epoch, and asks the controller
to have it so.  What is refused, or never answered, is asked again the next time.  Before Kafka 2.7
leaders wrote it themselves and left a notice: ``asks`` is false for those.

Owner: the event loop.
"""

import asyncio
from collections.abc import Awaitable, Callable

from odradek.controller.store import paths
from odradek.controller.store.base import (
    Create,
    GetChildren,
    GetData,
    MetadataStore,
    SessionExpired,
    SetData,
    Stat,
    ZNode,
)
from odradek.controller.store.payloads.notifications import IsrChange
from odradek.controller.store.payloads.topic import LeaderAndIsr
from odradek.protocol.api.alter_partition import AlterPartitionRequest
from odradek.protocol.api.leader_and_isr import LeaderAndIsrPartitionState
from odradek.protocol.errors import NotController, StaleBrokerEpoch
from odradek.protocol.types import TopicPartition, Uuid
from tests.support.controlled_cluster import LOOK_EVERY_S, PATIENCE_S, ControlledCluster
from tests.support.recorded_trees import content_of
from tests.support.simulated_brokers import SimulatedBroker

VERSION = 3
Partition = AlterPartitionRequest.Topic.Partition


class Followers:
    """All but those that lag, and those that are paused, which leaders find out of sync."""

    def __init__(self, cluster: ControlledCluster) -> None:
        self._cluster = cluster
        self.asks = True
        self.lagging: set[int] = set()
        self.paused: set[int] = set()

    async def catch_up(self) -> None:
        """Every leader asks once, for each of its partitions."""
        for broker in [*self._cluster.brokers.running.values()]:
            for partition in sorted(broker.leads):
                state = broker.replicas.get(partition)
                isr = [] if state is None else self._in_sync(partition, state)
                if state is not None and isr != state.isr and broker.id not in self.paused:
                    change = _ask if self.asks else _write
                    await change(self._cluster, broker, partition, isr)

    async def until(self, is_so: Callable[[], Awaitable[object]]) -> None:
        """They catch up meanwhile."""
        async with asyncio.timeout(PATIENCE_S):
            while not await is_so():
                await self.catch_up()
                self._cluster._naps.wake(long=False)
                await asyncio.sleep(LOOK_EVERY_S)

    def _in_sync(self, partition: TopicPartition, state: LeaderAndIsrPartitionState) -> list[int]:
        running = self._cluster.brokers.running
        others = running.keys() - self.lagging - self.paused - set(state.isr)
        staying = [each for each in state.isr if each not in self.paused]
        return staying + [
            each
            for each in state.replicas
            if each in others and running[each].leader_epoch(partition) == state.leader_epoch
        ]


async def picture(store: MetadataStore) -> dict[str, object]:
    """The tree, but for what tells how often it was written, and by whom."""
    found: dict[str, object] = {}
    level = ["/admin", "/brokers/topics", "/config"]
    while level:
        path = level.pop()
        node, names = await store.run([GetData(path), GetChildren(path)])
        # What is gone meanwhile is not there.
        if isinstance(node, ZNode) and isinstance(names, list):
            found[path] = without_epochs(content_of(node.value))
            level += [f"{path}/{name}" for name in names]
    return found


def logs(cluster: ControlledCluster) -> dict[int, list[str]]:
    """What brokers have on disk."""
    return {
        broker.id: sorted(map(str, broker.logs))
        for broker in cluster.brokers.running.values()
        if broker.logs
    }


async def _ask(
    cluster: ControlledCluster, broker: SimulatedBroker, partition: TopicPartition, isr: list[int]
) -> None:
    if cluster.controller_id is None:
        return
    state = broker.replicas[partition]
    request = _request(broker, partition, isr)
    try:
        answer = await cluster.controller.alter_partition(request, version=VERSION)
    except (NotController, StaleBrokerEpoch, SessionExpired):
        return
    (topic,) = answer.topics
    (altered,) = topic.partitions
    if altered.error_code == 0 and broker.replicas.get(partition) is state:
        state.isr, state.partition_epoch = altered.isr, altered.partition_epoch
        state.leader_recovery_state = altered.leader_recovery_state


async def _write(
    cluster: ControlledCluster, broker: SimulatedBroker, partition: TopicPartition, isr: list[int]
) -> None:
    state, store = broker.replicas[partition], cluster.sessions[broker.id]
    value = LeaderAndIsr(state.leader, state.leader_epoch, tuple(isr), state.controller_epoch)
    notice = IsrChange((partition,)).encode()
    stat, _ = await store.multi(
        [
            SetData(paths.partition_state(partition), value.encode(), state.partition_epoch),
            Create(paths.ISR_CHANGES.create_path, notice, is_sequential=True),
        ]
    )
    assert isinstance(stat, Stat)
    state.isr, state.partition_epoch = isr, stat.version


def _request(
    broker: SimulatedBroker, partition: TopicPartition, isr: list[int]
) -> AlterPartitionRequest:
    state, topic_id = broker.replicas[partition], broker.logs[partition]
    assert isinstance(topic_id, Uuid)
    return AlterPartitionRequest(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        topics=[
            AlterPartitionRequest.Topic(
                topic_id=topic_id,
                partitions=[
                    Partition(
                        partition_index=partition.partition,
                        leader_epoch=state.leader_epoch,
                        new_isr_with_epochs=[Partition.BrokerState(broker_id=each) for each in isr],
                        partition_epoch=state.partition_epoch,
                    )
                ],
            )
        ],
    )


def without_epochs(content: object) -> object:
    """What a node says, but for how often something began."""
    if not isinstance(content, dict):
        return content
    counted = {"leader_epoch", "controller_epoch"}
    return {
        key: sorted(value) if key == "isr" else value
        for key, value in content.items()
        if key not in counted
    }
