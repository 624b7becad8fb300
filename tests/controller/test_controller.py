"""Tests of a whole controller and of controller failover, with every store."""

import pytest

from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.controller_znode import NO_CONTROLLER
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.replica_leader_elections import ElectionType
from odradek.controller.store import paths
from odradek.controller.store.payloads.admin import PreferredReplicaElection
from odradek.controller.store.payloads.cluster import ProducerIdsBlock
from odradek.controller.store.payloads.notifications import LogDirEvent
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.protocol.api.alter_partition import AlterPartitionRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import ElectionNotNeeded, NotController
from odradek.protocol.types import TopicPartition
from tests.support.controlled_cluster import ControlledCluster
from tests.support.controller_scene import registration, topic_id
from tests.support.stores import MemoryStores

T0 = TopicPartition("t", 0)


async def test_topic_created_in_the_store_gets_leaders(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.create_topic("t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
        await cluster.until_led({"t-0": 1, "t-1": 2, "t-2": 3})


async def test_failed_broker_is_replaced_and_follows_after_restart(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.create_topic("t", [3, 1, 2], [2, 3])
        await cluster.until_led({"t-0": 3, "t-1": 2})
        await cluster.kill(3)
        await cluster.until_led({"t-0": 1, "t-1": 2})
        assert (await cluster.state("t")).isr == (1, 2)
        await cluster.start(3)
        await cluster.until_led({"t-0": 1, "t-1": 2})
        assert set(cluster.brokers[3].replicas) == {T0, TopicPartition("t", 1)}


async def test_next_controller_takes_over_the_partitions(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.create_topic("t", [1, 2, 3], [2, 3, 1])
        await cluster.until_led({"t-0": 1, "t-1": 2})
        await cluster.kill(1)
        await cluster.until_led({"t-0": 2, "t-1": 2})
        assert cluster.controller_id in (2, 3)
        state = await cluster.state("t")
        assert (state.controller_epoch, state.leader_epoch, state.isr) == (2, 2, (2, 3))
        assert {broker.controller_epoch for broker in cluster.brokers.running.values()} == {2}
        await cluster.start(1)
        await cluster.create_topic("u", [1])
        await cluster.until_led({"t-0": 2, "t-1": 2, "u-0": 1})


async def test_new_controller_finds_changes_made_without_a_controller(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start(1)
        await cluster.until(lambda: cluster.controller_id == 1)
        await cluster.create_topic("t", [2, 1], [2])
        await cluster.until_led({"t-0": 1})
        other_session = await cluster.open_outside()
        await cluster.kill(1)
        await other_session.set(
            paths.topic("t"),
            TopicAssignment(
                dict(enumerate(map(ReplicaAssignment, ((2, 1), (2,), (2,))))), topic_id("t")
            ).encode(),
        )
        await cluster.start(2)
        await cluster.until_led({"t-0": NO_CONTROLLER, "t-1": 2, "t-2": 2})


async def test_single_broker_becomes_the_controller(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start(1)
        await cluster.create_topic("t", [1], [1])
        await cluster.until_led({"t-0": 1, "t-1": 1})
        assert cluster.controllers[1].controller_id == 1
        assert cluster.controllers[1].broker_epoch == cluster.brokers[1].epoch


# Requests


async def test_broker_that_is_not_the_controller_rejects_all_requests(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        other = cluster.controllers[2]
        await cluster.until(lambda: other.controller_id == 1)
        request = AlterPartitionRequest(broker_id=1, broker_epoch=0, topics=[])
        for call in (
            other.alter_partition(request, version=3),
            other.controlled_shutdown(1, broker_epoch=-1),
            other.allocate_producer_ids(1, broker_epoch=-1),
            other.elect_leaders(ElectionType.PREFERRED, None),
            other.alter_partition_reassignments({T0: (1,)}),
            other.list_partition_reassignments(None),
        ):
            with pytest.raises(NotController):
                await call


def isr_request(controller, isr, *, partition_epoch):
    topic = AlterPartitionRequest.Topic
    state = topic.Partition.BrokerState
    proposed = topic.Partition(
        partition_index=0,
        leader_epoch=0,
        partition_epoch=partition_epoch,
        new_isr_with_epochs=[state(broker_id=broker) for broker in isr],
    )
    topic_request = topic(topic_id=topic_id("t"), partitions=[proposed])
    epoch = controller.broker_epoch
    return AlterPartitionRequest(broker_id=1, broker_epoch=epoch, topics=[topic_request])


async def test_leader_shrinks_and_expands_the_isr(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.create_topic("t", [1, 2])
        await cluster.until_led({"t-0": 1})
        for epoch, isr in enumerate([[1], [1, 2]]):
            request = isr_request(cluster.controllers[1], isr, partition_epoch=epoch)
            response = await cluster.controller.alter_partition(request, version=3)
            (partition_response,) = response.topics[0].partitions
            assert (
                partition_response.error_code,
                partition_response.isr,
                partition_response.partition_epoch,
            ) == (0, isr, epoch + 1)
        assert (await cluster.state("t")).isr == (1, 2)
        await cluster.until(lambda: cluster.brokers[3].metadata[T0].zk_version == 2)


async def test_controlled_shutdown_moves_all_leaders_first(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.create_topic("t", [3, 1], [1, 3])
        await cluster.until_led({"t-0": 3, "t-1": 1})
        epoch = cluster.controllers[3].broker_epoch
        assert await cluster.controller.controlled_shutdown(3, broker_epoch=epoch) == ()
        await cluster.until_led({"t-0": 1, "t-1": 1})
        await cluster.kill(3)
        await cluster.until_acquainted()


async def test_next_controller_allocates_the_next_producer_id_block(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        epochs = {broker: cluster.controllers[broker].broker_epoch for broker in (1, 2)}
        first = await cluster.controller.allocate_producer_ids(1, broker_epoch=epochs[1])
        await cluster.kill(1)
        await cluster.until(lambda: cluster.controller_id in (2, 3))
        second = await cluster.controller.allocate_producer_ids(2, broker_epoch=epochs[2])
        assert (first, second) == (ProducerIdsBlock(1, 0, 999), ProducerIdsBlock(2, 1000, 1999))


async def test_reassignment_completes_when_the_target_replicas_are_in_isr(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.create_topic("t", [1, 2])
        await cluster.until_led({"t-0": 1})
        assert await cluster.controller.alter_partition_reassignments({T0: (3, 2)}) == {T0: None}
        reassigning = ReplicaAssignment((3, 2, 1), adding_replicas=(3,), removing_replicas=(1,))
        assert await cluster.controller.list_partition_reassignments(None) == {T0: reassigning}
        await cluster.until(lambda: T0 in cluster.brokers[3].replicas)
        await change_isr(cluster, [1, 2, 3])
        await cluster.until_led({"t-0": 3})
        await cluster.until(lambda: T0 not in cluster.brokers[1].logs)
        assert await cluster.controller.list_partition_reassignments([T0]) == {}
        assert (await cluster.state("t")).isr == (2, 3)


async def test_topic_is_deleted_from_store_and_brokers(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.create_topic("t", [1, 2], [3, 1])
        await cluster.until_led({"t-0": 1, "t-1": 3})
        await cluster.any_session.create(paths.topic_to_delete("t"))
        await cluster.until_gone(paths.topic_to_delete("t"))
        assert await cluster.any_session.get_children(paths.TOPICS) == []
        assert not any(broker.logs for broker in cluster.brokers.running.values())
        await cluster.create_topic("t", [2])
        await cluster.until_led({"t-0": 2})


async def change_isr(cluster, isr):
    """Broker 1, the leader of t-0, changes its ISR."""
    request = isr_request(cluster.controllers[1], isr, partition_epoch=0)
    (proposed,) = request.topics[0].partitions
    proposed.leader_epoch = (await cluster.state("t")).leader_epoch
    proposed.partition_epoch = (
        await cluster.any_session.get(paths.partition_state(T0))
    ).stat.version
    response = await cluster.controller.alter_partition(request, version=3)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE.code


async def not_led_by_preferred_replica(cluster):
    """Broker 1 leads t-0, whose preferred leader, broker 3, has restarted."""
    await cluster.start_three()
    await cluster.create_topic("t", [3, 1])
    await cluster.until_led({"t-0": 3})
    await cluster.kill(3)
    await cluster.until_led({"t-0": 1})
    await cluster.start(3)
    await cluster.until_led({"t-0": 1})
    await change_isr(cluster, [1, 3])


async def test_preferred_leader_is_elected_by_request(stores):
    async with ControlledCluster(stores) as cluster:
        await not_led_by_preferred_replica(cluster)
        elect = cluster.controller.elect_leaders
        assert await elect(ElectionType.PREFERRED, [T0]) == {T0: 3}
        await cluster.until_led({"t-0": 3})
        assert isinstance((await elect(ElectionType.PREFERRED, [T0]))[T0], ElectionNotNeeded)
        assert await elect(ElectionType.UNCLEAN, None) == {}


async def test_preferred_leader_is_elected_by_znode_repeatedly(stores):
    async with ControlledCluster(stores) as cluster:
        await not_led_by_preferred_replica(cluster)
        election = PreferredReplicaElection((T0,)).encode()
        for _ in range(2):
            await cluster.any_session.create(paths.PREFERRED_REPLICA_ELECTION, election)
            await cluster.until_gone(paths.PREFERRED_REPLICA_ELECTION)
        await cluster.until_led({"t-0": 3})


async def test_preferred_leader_is_elected_by_auto_rebalance(stores):
    async with ControlledCluster(stores) as cluster:
        await not_led_by_preferred_replica(cluster)
        assert cluster.pass_time() == [5]
        await cluster.until_led({"t-0": 3})
        assert cluster.pass_time() == [300]


async def test_disabled_auto_rebalance_does_not_run():
    async with ControlledCluster(MemoryStores(), auto_leader_rebalance_enable=False) as cluster:
        await not_led_by_preferred_replica(cluster)
        assert cluster.pass_time() == []


async def test_broker_with_failed_log_dir_loses_leadership(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.create_topic("t", [3, 1], [3, 2])
        await cluster.until_led({"t-0": 3, "t-1": 3})
        cluster.brokers[3].offline.add(T0)
        event = LogDirEvent(3).encode()
        await cluster.sessions[3].create(
            paths.LOG_DIR_EVENTS.create_path, event, is_sequential=True
        )
        leaders = {"t-0": 1, "t-1": 3}
        await cluster.until(lambda: cluster.leaders() == leaders)
        assert (await cluster.state("t")).isr == (1,)


async def test_updated_endpoints_reach_all_brokers(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.controllers[3].update_broker_info(registration(7))
        await cluster.until(lambda: cluster.brokers[1].live_brokers[3].endpoints[0].host == "host7")


async def test_unclean_leader_is_elected_once_the_setting_allows_it(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.create_topic("t", [3, 2])
        await cluster.until_led({"t-0": 3})
        await cluster.kill(2)
        await cluster.until(lambda: cluster.brokers[3].replicas[T0].isr == [3])
        await cluster.kill(3)
        await cluster.start(2)
        await cluster.until_led({"t-0": NO_CONTROLLER})
        settings = ControllerSettings(unclean_leader_election_enable=True)
        cluster.controller.change_settings(settings)
        await cluster.until_led({"t-0": 2})
        assert (await cluster.state("t")).is_recovering
