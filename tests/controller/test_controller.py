"""Tests of a whole controller, and of the way from one to the next, on every store."""

import pytest

from odradek.controller.assignment import Assignment
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.election import NO_CONTROLLER
from odradek.controller.preferred_leaders import ElectionKind
from odradek.controller.store import paths
from odradek.controller.store.payloads.admin import PreferredReplicaElection
from odradek.controller.store.payloads.cluster import ProducerIdBlock
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


async def test_a_topic_that_is_written_to_the_tree_has_leaders(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.create_topic("t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
        await cluster.until_led({"t-0": 1, "t-1": 2, "t-2": 3})


async def test_when_a_broker_dies_others_lead_and_when_it_returns_it_follows(stores):
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


async def test_another_controller_takes_over_what_the_first_left(stores):
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


async def test_what_happened_while_there_was_no_controller_is_found(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start(1)
        await cluster.until(lambda: cluster.controller_id == 1)
        await cluster.create_topic("t", [2, 1], [2])
        await cluster.until_led({"t-0": 1})
        outside = await cluster.open_outside()
        await cluster.kill(1)
        await outside.set(
            paths.topic("t"),
            TopicAssignment(
                dict(enumerate(map(Assignment, ((2, 1), (2,), (2,))))), topic_id("t")
            ).encode(),
        )
        await cluster.start(2)
        await cluster.until_led({"t-0": NO_CONTROLLER, "t-1": 2, "t-2": 2})


async def test_a_broker_alone_is_its_own_controller(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start(1)
        await cluster.create_topic("t", [1], [1])
        await cluster.until_led({"t-0": 1, "t-1": 1})
        assert cluster.controllers[1].controller_id == 1
        assert cluster.controllers[1].broker_epoch == cluster.brokers[1].epoch


# What is asked


async def test_a_broker_that_is_not_the_controller_refuses_everything(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        other = cluster.controllers[2]
        await cluster.until(lambda: other.controller_id == 1)
        request = AlterPartitionRequest(broker_id=1, broker_epoch=0, topics=[])
        for asked in (
            other.alter_partition(request, version=3),
            other.shut_down(1, broker_epoch=-1),
            other.allocate_producer_ids(1, broker_epoch=-1),
            other.elect_leaders(ElectionKind.PREFERRED, None),
            other.alter_reassignments({T0: (1,)}),
            other.reassignments(None),
        ):
            with pytest.raises(NotController):
                await asked


def isr_request(controller, isr, *, partition_epoch):
    topic = AlterPartitionRequest.Topic
    state = topic.Partition.BrokerState
    asked = topic.Partition(
        partition_index=0,
        leader_epoch=0,
        partition_epoch=partition_epoch,
        new_isr_with_epochs=[state(broker_id=each) for each in isr],
    )
    named = topic(topic_id=topic_id("t"), partitions=[asked])
    epoch = controller.broker_epoch
    return AlterPartitionRequest(broker_id=1, broker_epoch=epoch, topics=[named])


async def test_a_leader_changes_its_in_sync_replicas(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.create_topic("t", [1, 2])
        await cluster.until_led({"t-0": 1})
        for epoch, isr in enumerate([[1], [1, 2]]):
            request = isr_request(cluster.controllers[1], isr, partition_epoch=epoch)
            response = await cluster.controller.alter_partition(request, version=3)
            (answer,) = response.topics[0].partitions
            assert (answer.error_code, answer.isr, answer.partition_epoch) == (0, isr, epoch + 1)
        assert (await cluster.state("t")).isr == (1, 2)
        await cluster.until(lambda: cluster.brokers[3].metadata[T0].zk_version == 2)


async def test_a_broker_that_stops_leads_nothing_when_it_does(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.create_topic("t", [3, 1], [1, 3])
        await cluster.until_led({"t-0": 3, "t-1": 1})
        epoch = cluster.controllers[3].broker_epoch
        assert await cluster.controller.shut_down(3, broker_epoch=epoch) == ()
        await cluster.until_led({"t-0": 1, "t-1": 1})
        await cluster.kill(3)
        await cluster.until_acquainted()


async def test_producer_ids_are_given_once_whoever_is_the_controller(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        epochs = {each: cluster.controllers[each].broker_epoch for each in (1, 2)}
        first = await cluster.controller.allocate_producer_ids(1, broker_epoch=epochs[1])
        await cluster.kill(1)
        await cluster.until(lambda: cluster.controller_id in (2, 3))
        second = await cluster.controller.allocate_producer_ids(2, broker_epoch=epochs[2])
        assert (first, second) == (ProducerIdBlock(1, 0, 999), ProducerIdBlock(2, 1000, 1999))


async def test_a_partition_moves_when_its_new_replicas_are_in_sync(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.create_topic("t", [1, 2])
        await cluster.until_led({"t-0": 1})
        assert await cluster.controller.alter_reassignments({T0: (3, 2)}) == {T0: None}
        moving = Assignment((3, 2, 1), adding=(3,), removing=(1,))
        assert await cluster.controller.reassignments(None) == {T0: moving}
        await cluster.until(lambda: T0 in cluster.brokers[3].replicas)
        await in_sync(cluster, [1, 2, 3])
        await cluster.until_led({"t-0": 3})
        await cluster.until(lambda: T0 not in cluster.brokers[1].logs)
        assert await cluster.controller.reassignments([T0]) == {}
        assert (await cluster.state("t")).isr == (2, 3)


async def test_a_topic_is_deleted_everywhere(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.create_topic("t", [1, 2], [3, 1])
        await cluster.until_led({"t-0": 1, "t-1": 3})
        await cluster.any_session.create(paths.topic_to_delete("t"))
        await cluster.until_gone(paths.topic_to_delete("t"))
        assert await cluster.any_session.children(paths.TOPICS) == []
        assert not any(broker.logs for broker in cluster.brokers.running.values())
        await cluster.create_topic("t", [2])
        await cluster.until_led({"t-0": 2})


async def in_sync(cluster, isr):
    """Broker 1 finds so, of t-0."""
    request = isr_request(cluster.controllers[1], isr, partition_epoch=0)
    (asked,) = request.topics[0].partitions
    asked.leader_epoch = (await cluster.state("t")).leader_epoch
    asked.partition_epoch = (await cluster.any_session.get(paths.partition_state(T0))).stat.version
    response = await cluster.controller.alter_partition(request, version=3)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE.code


async def led_by_another(cluster):
    """Topic t prefers broker 3, which was away."""
    await cluster.start_three()
    await cluster.create_topic("t", [3, 1])
    await cluster.until_led({"t-0": 3})
    await cluster.kill(3)
    await cluster.until_led({"t-0": 1})
    await cluster.start(3)
    await cluster.until_led({"t-0": 1})
    await in_sync(cluster, [1, 3])


async def test_the_preferred_leader_is_elected_when_people_ask(stores):
    async with ControlledCluster(stores) as cluster:
        await led_by_another(cluster)
        elect = cluster.controller.elect_leaders
        assert await elect(ElectionKind.PREFERRED, [T0]) == {T0: 3}
        await cluster.until_led({"t-0": 3})
        assert isinstance((await elect(ElectionKind.PREFERRED, [T0]))[T0], ElectionNotNeeded)
        assert await elect(ElectionKind.UNCLEAN, None) == {}


async def test_the_preferred_leader_is_elected_when_the_tree_asks_again_and_again(stores):
    async with ControlledCluster(stores) as cluster:
        await led_by_another(cluster)
        asked = PreferredReplicaElection((T0,)).encode()
        for _ in range(2):
            await cluster.any_session.create(paths.PREFERRED_REPLICA_ELECTION, asked)
            await cluster.until_gone(paths.PREFERRED_REPLICA_ELECTION)
        await cluster.until_led({"t-0": 3})


async def test_the_preferred_leader_is_elected_when_the_time_has_come(stores):
    async with ControlledCluster(stores) as cluster:
        await led_by_another(cluster)
        assert cluster.pass_time() == [5]
        await cluster.until_led({"t-0": 3})
        assert cluster.pass_time() == [300]


async def test_nothing_is_balanced_where_it_is_not_enabled():
    async with ControlledCluster(MemoryStores(), auto_leader_rebalance_enable=False) as cluster:
        await led_by_another(cluster)
        assert cluster.pass_time() == []


async def test_a_broker_with_a_failed_disk_leads_no_more(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.create_topic("t", [3, 1], [3, 2])
        await cluster.until_led({"t-0": 3, "t-1": 3})
        cluster.brokers[3].offline.add(T0)
        event = LogDirEvent(3).encode()
        await cluster.sessions[3].create(paths.LOG_DIR_EVENTS.new, event, is_sequential=True)
        leaders = {"t-0": 1, "t-1": 3}
        await cluster.until(lambda: cluster.leaders() == leaders)
        assert (await cluster.state("t")).isr == (1,)


async def test_other_endpoints_reach_all_brokers(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.controllers[3].change_registration(registration(7))
        await cluster.until(lambda: cluster.brokers[1].live_brokers[3].endpoints[0].host == "host7")


async def test_a_leader_that_was_not_in_sync_is_elected_once_that_is_allowed(stores):
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
