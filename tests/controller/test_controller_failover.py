"""A controller loses its session before any of its writes, and the next one completes the work."""

import pytest

from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store import paths
from odradek.controller.store.payloads.admin import ReassignPartitions
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.protocol.types import TopicPartition
from tests.support.controlled_cluster import ControlledCluster
from tests.support.stores import MemoryStores

#: More writes than any of these events needs.
WRITES = range(20)


async def start_cluster(cluster):
    """Start three brokers with broker 1 as the controller, and topic s with leaders."""
    await cluster.start_three()
    await cluster.open_outside()
    await cluster.create_topic("s", [3, 2, 1], [2, 1, 3])
    await cluster.until_led({"s-0": 3, "s-1": 2})


@pytest.mark.parametrize("writes", WRITES)
async def test_failover_during_topic_creation(writes):
    async with ControlledCluster(MemoryStores()) as cluster:
        await start_cluster(cluster)
        cluster.sessions[1].writes_left = writes
        await cluster.create_topic("t", [2, 1], [3, 2], [2, 3])
        leaders = {"s-0": 3, "s-1": 2, "t-0": 2, "t-1": 3, "t-2": 2}
        await cluster.until_led(leaders)
        await cluster.until_agreed()


@pytest.mark.parametrize("writes", WRITES)
async def test_failover_during_broker_failure(writes):
    async with ControlledCluster(MemoryStores()) as cluster:
        await start_cluster(cluster)
        cluster.sessions[1].writes_left = writes
        await cluster.kill(3)
        await cluster.until_led({"s-0": 2, "s-1": 2})
        await cluster.until_agreed()


@pytest.mark.parametrize("writes", WRITES)
async def test_failover_during_controller_failover(writes):
    async with ControlledCluster(MemoryStores()) as cluster:
        await start_cluster(cluster)
        for broker in (2, 3):
            cluster.sessions[broker].writes_left = writes
        await cluster.kill(1)
        await cluster.until(lambda: cluster.controller_id in (2, 3))
        await cluster.until_acquainted()
        await cluster.until_agreed()


@pytest.mark.parametrize("writes", WRITES)
async def test_failover_during_topic_deletion(writes):
    async with ControlledCluster(MemoryStores()) as cluster:
        await start_cluster(cluster)
        cluster.sessions[1].writes_left = writes
        admin_session = await cluster.open_outside()
        await admin_session.create(paths.topic_to_delete("s"))
        await cluster.until_gone(paths.topic_to_delete("s"))
        assert await admin_session.exists(paths.topic("s")) is None
        await cluster.until(lambda: cluster.leaders() == {})
        assert not any(broker.logs for broker in cluster.brokers.running.values())


@pytest.mark.parametrize("writes", WRITES)
async def test_failover_during_reassignment(writes):
    async with ControlledCluster(MemoryStores()) as cluster:
        await start_cluster(cluster)
        cluster.sessions[1].writes_left = writes
        admin_session = await cluster.open_outside()
        s0 = TopicPartition("s", 0)
        await admin_session.create(
            paths.REASSIGN_PARTITIONS, ReassignPartitions({s0: (2, 1)}).encode()
        )
        await cluster.until_found(lambda: is_assigned_to(admin_session, ReplicaAssignment((2, 1))))
        await cluster.until_led({"s-0": 2, "s-1": 2})
        await cluster.until_agreed()
        await cluster.until(lambda: s0 not in cluster.brokers[3].logs)
        assert await admin_session.exists(paths.REASSIGN_PARTITIONS) is None
        assert (await cluster.state("s")).isr == (2, 1)


async def is_assigned_to(admin_session, replicas):
    node = await admin_session.get(paths.topic("s"))
    return TopicAssignment.decode(node.value).partitions[0] == replicas
