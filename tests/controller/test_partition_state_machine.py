"""Tests of controller/partition_state_machine.py and controller/leader_and_isr_updater.py."""

import logging
from dataclasses import replace
from itertools import product

import pytest

from odradek.controller.leader_and_isr import LeaderIsrAndControllerEpoch
from odradek.controller.leader_and_isr_updater import StateChangeFailed
from odradek.controller.leader_election import PartitionLeaderElectionStrategy
from odradek.controller.metadata_version import MetadataVersion
from odradek.controller.metadata_writer import ControllerMoved
from odradek.controller.partition_state import VALID_TRANSITIONS, PartitionState
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store import paths
from odradek.controller.store.payloads.topic import LeaderAndIsr
from odradek.protocol.api.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.types import TopicPartition
from tests.support.controller_scene import EPOCH, controller_scene
from tests.support.counted_store import CountedStore
from tests.support.stores import MemoryStores

NEW, ONLINE, OFFLINE = PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE
FIRST = LeaderIsrAndControllerEpoch(1, 0, (1, 2, 3), controller_epoch=EPOCH, partition_epoch=0)


async def new_scene(*assignments, **options):
    """A topic t with these assignments. All partitions are in state NEW."""
    store = CountedStore(await MemoryStores().open())
    scene = await controller_scene(store, **options)
    partitions = await scene.add_topic("t", *assignments)
    await scene.partitions.handle_state_changes(partitions, NEW)
    store.forget()
    return scene, partitions


async def online_scene(*leaderships, assignment=(1, 2, 3), **options):
    """A topic t with these leaderships. All partitions are in state ONLINE."""
    scene, partitions = await new_scene(*[assignment] * len(leaderships), **options)
    await scene.add_leaders(dict(zip(partitions, leaderships, strict=True)))
    for partition in partitions:
        scene.context.put_partition_state(partition, ONLINE)
    scene.store.forget()
    return scene, partitions


def sent_partitions(scene):
    """Send the batch and return the partitions in each broker's LeaderAndIsr request."""
    scene.batch.send_requests_to_brokers()
    return {
        broker: [
            TopicPartition(topic.topic_name, state.partition_index)
            for topic in request.topic_states
            for state in topic.partition_states
        ]
        for broker, request, _ in scene.sent.requests
        if isinstance(request, LeaderAndIsrRequest)
    }


# Transitions


@pytest.mark.parametrize(("state", "target"), list(product(PartitionState, PartitionState)))
async def test_only_valid_transitions_are_made(state, target, caplog):
    scene, (t0,) = await online_scene(FIRST)
    if state is NEW:
        await scene.store.delete(paths.partition_state(t0))
        del scene.context.partition_leadership_info[t0]
    scene.context.put_partition_state(t0, state)
    scene.store.forget()
    results = await scene.partitions.handle_state_changes(
        [t0], target, PartitionLeaderElectionStrategy.OFFLINE_PARTITION
    )
    if target in VALID_TRANSITIONS[state]:
        assert scene.context.partition_state(t0) is target
        assert not caplog.records
    else:
        assert scene.context.partition_state(t0) is state
        assert isinstance(results[t0], StateChangeFailed)
        assert f"Failed to change partitions to {target.name}: illegal" in caplog.text
        assert scene.store.runs == []


# New partitions


async def test_first_live_replica_leads_a_new_partition():
    scene, (t0,) = await new_scene((9, 3, 1))
    first = LeaderIsrAndControllerEpoch(3, 0, (3, 1), controller_epoch=EPOCH, partition_epoch=0)
    assert await scene.partitions.handle_state_changes([t0], ONLINE) == {t0: first}
    assert (
        scene.context.partition_leadership_info
        == {t0: first}
        == await scene.reads.get_topic_partition_states([t0])
    )
    assert scene.context.partition_state(t0) is ONLINE
    assert sent_partitions(scene) == {3: [t0], 1: [t0]}
    request = scene.sent.to(1, LeaderAndIsrRequest)
    assert request.topic_states[0].partition_states[0].is_new


async def test_new_partition_without_live_replicas_stays_new(caplog):
    scene, (t0, t1) = await new_scene((8, 9), (1,))
    results = await scene.partitions.handle_state_changes([t0, t1], ONLINE)
    assert isinstance(results[t0], StateChangeFailed)
    assert scene.context.partition_state(t0) is NEW
    assert scene.context.partition_state(t1) is ONLINE
    assert "no replica is alive" in caplog.text
    scene.add_brokers([9])
    assert (await scene.partitions.trigger_online_partition_state_change())[t0].leader == 9


async def test_partition_state_created_by_another_writer_is_not_replaced():
    scene, (t0,) = await new_scene((1, 2))
    await scene.writes.create_topic_partition_states({t0: replace(FIRST, leader=2)})
    results = await scene.partitions.handle_state_changes([t0], ONLINE)
    assert isinstance(results[t0], StateChangeFailed)
    assert t0 not in scene.context.partition_leadership_info


async def test_thousand_new_partitions_are_created_in_one_run():
    scene, partitions = await new_scene(*[(1, 2)] * 1_000)
    results = await scene.partitions.handle_state_changes(partitions, ONLINE)
    assert len(results) == 1_000
    assert len(scene.store.runs) == 1


# Elections


async def test_failed_leader_is_replaced_and_live_replicas_are_notified():
    scene, (t0, _) = await online_scene(FIRST, replace(FIRST, leader=2))
    scene.context.remove_broker(1)
    await scene.partitions.handle_state_changes([t0], OFFLINE)
    second = LeaderIsrAndControllerEpoch(2, 1, (2, 3), controller_epoch=EPOCH, partition_epoch=1)
    assert await scene.partitions.trigger_online_partition_state_change() == {t0: second}
    assert await scene.reads.get_topic_partition_states([t0]) == {t0: second}
    assert scene.context.partition_leadership_info[t0] == second
    assert scene.context.partition_state(t0) is ONLINE
    assert sent_partitions(scene) == {2: [t0], 3: [t0]}


async def test_elections_need_one_write_run_and_no_read():
    scene, partitions = await online_scene(*[FIRST] * 500)
    scene.context.remove_broker(1)
    await scene.partitions.handle_state_changes(partitions, OFFLINE)
    await scene.partitions.trigger_online_partition_state_change()
    assert [len(run) for run in scene.store.runs] == [500]


async def test_election_is_repeated_after_a_concurrent_isr_change():
    scene, (t0, t1) = await online_scene(FIRST, FIRST)
    shrunk_isr = LeaderAndIsr(1, 0, (1, 3), EPOCH)
    await scene.store.set(paths.partition_state(t0), shrunk_isr.encode())
    scene.context.remove_broker(1)
    await scene.partitions.handle_state_changes([t0, t1], OFFLINE)
    results = await scene.partitions.trigger_online_partition_state_change()
    assert results[t0] == LeaderIsrAndControllerEpoch(3, 1, (3,), EPOCH, partition_epoch=2)
    assert results[t1] == LeaderIsrAndControllerEpoch(2, 1, (2, 3), EPOCH, partition_epoch=1)
    assert (
        await scene.reads.get_topic_partition_states([t0, t1])
        == results
        == scene.context.partition_leadership_info
    )


async def test_election_without_candidates_rereads_the_isr_from_the_store():
    scene, (t0,) = await online_scene(replace(FIRST, isr=(1,)))
    await scene.store.set(paths.partition_state(t0), LeaderAndIsr(1, 0, (1, 2), EPOCH).encode())
    scene.context.remove_broker(1)
    await scene.partitions.handle_state_changes([t0], OFFLINE)
    assert (await scene.partitions.trigger_online_partition_state_change())[t0].leader == 2


async def test_partition_without_live_isr_member_stays_offline(caplog):
    scene, (t0, t1) = await online_scene(replace(FIRST, isr=(1,)), FIRST)
    scene.context.remove_broker(1)
    await scene.partitions.handle_state_changes([t0, t1], OFFLINE)
    results = await scene.partitions.trigger_online_partition_state_change()
    assert isinstance(results[t0], StateChangeFailed)
    assert results[t1].leader == 2
    assert scene.context.partition_state(t0) is OFFLINE
    assert [*scene.context.new_or_offline_partitions] == [t0]
    assert (
        "Failed to change partitions to ONLINE: no replica that is in sync is alive" in caplog.text
    )
    assert sent_partitions(scene) == {2: [t1], 3: [t1]}


@pytest.mark.parametrize(
    ("strategy", "failed_broker", "isr", "reason"),
    [
        (
            PartitionLeaderElectionStrategy.PREFERRED_REPLICA,
            1,
            (2, 3),
            "the preferred leader, broker 1, is not alive",
        ),
        (
            PartitionLeaderElectionStrategy.PREFERRED_REPLICA,
            3,
            (2, 3),
            "the preferred leader, broker 1, is not in sync",
        ),
        (
            PartitionLeaderElectionStrategy.REASSIGN_PARTITION,
            2,
            (2,),
            "no new replica is both alive and in sync",
        ),
        (
            PartitionLeaderElectionStrategy.CONTROLLED_SHUTDOWN,
            2,
            (2,),
            "no other replica is both alive and in sync",
        ),
    ],
)
async def test_failed_election_states_its_reason(strategy, failed_broker, isr, reason):
    scene, (t0,) = await online_scene(replace(FIRST, leader=2, isr=isr))
    scene.context.remove_broker(failed_broker)
    results = await scene.partitions.handle_state_changes([t0], ONLINE, strategy)
    assert str(results[t0]) == reason


async def test_election_fails_when_the_state_znode_is_gone():
    scene, (t0,) = await online_scene(FIRST)
    await scene.store.delete(paths.partition_state(t0))
    results = await scene.partitions.handle_state_changes(
        [t0], ONLINE, PartitionLeaderElectionStrategy.OFFLINE_PARTITION
    )
    assert "NoNode" in str(results[t0])


async def test_topic_being_deleted_gets_no_election():
    scene, (t0,) = await online_scene(FIRST)
    await scene.partitions.handle_state_changes([t0], OFFLINE)
    scene.context.topics_to_be_deleted.add("t")
    assert await scene.partitions.trigger_online_partition_state_change() == {}


async def test_elections_can_be_limited_to_one_topic():
    scene, (t0,) = await new_scene((1,))
    (u0,) = await scene.add_topic("u", (1,))
    await scene.partitions.handle_state_changes([u0], NEW)
    assert [*await scene.partitions.trigger_online_partition_state_change("u")] == [u0]
    assert scene.context.partition_state(t0) is NEW


@pytest.mark.parametrize(
    ("strategy", "leader", "isr", "recipients"),
    [
        (PartitionLeaderElectionStrategy.PREFERRED_REPLICA, 1, (2, 1, 3), [1, 2, 3]),
        (PartitionLeaderElectionStrategy.REASSIGN_PARTITION, 3, (2, 1, 3), [3, 4]),
        (PartitionLeaderElectionStrategy.CONTROLLED_SHUTDOWN, 1, (1, 3), [1, 2, 3]),
    ],
)
async def test_each_election_strategy_notifies_the_right_brokers(strategy, leader, isr, recipients):
    scene, (t0,) = await online_scene(replace(FIRST, leader=2, isr=(2, 1, 3)), brokers=(1, 2, 3, 4))
    if strategy is PartitionLeaderElectionStrategy.REASSIGN_PARTITION:
        scene.context.update_assignment(t0, ReplicaAssignment((1, 2)).reassign_to((4, 3)))
    if strategy is PartitionLeaderElectionStrategy.CONTROLLED_SHUTDOWN:
        scene.context.shutting_down_broker_ids.add(2)
    results = await scene.partitions.handle_state_changes([t0], ONLINE, strategy)
    assert (results[t0].leader, results[t0].isr) == (leader, isr)
    assert sorted(sent_partitions(scene)) == recipients


async def test_fenced_controller_changes_no_state():
    scene, (t0,) = await online_scene(FIRST)
    await scene.store.set(paths.CONTROLLER_EPOCH, b"8")
    with pytest.raises(ControllerMoved):
        await scene.partitions.handle_state_changes(
            [t0], ONLINE, PartitionLeaderElectionStrategy.PREFERRED_REPLICA
        )
    assert scene.context.partition_leadership_info[t0] == FIRST
    assert sent_partitions(scene) == {}


# Unclean elections


@pytest.mark.parametrize(
    ("default", "topic_config", "requested", "is_led"),
    [
        (False, None, False, False),
        (False, "true", False, True),
        (False, " True ", False, True),
        (False, None, True, True),
        (True, None, False, True),
        (True, "false", False, False),
    ],
)
async def test_unclean_leader_is_elected_if_topic_cluster_or_caller_allows_it(
    default, topic_config, requested, is_led, caplog
):
    scene, (t0,) = await online_scene(replace(FIRST, isr=(1,)), allows_unclean=default)
    if topic_config is not None:
        config = {"unclean.leader.election.enable": topic_config}
        await scene.writes.set_or_create_entity_configs({paths.topic_config("t"): config})
    scene.context.remove_broker(1)
    await scene.partitions.handle_state_changes([t0], OFFLINE)
    results = await scene.partitions.handle_state_changes(
        [t0], ONLINE, PartitionLeaderElectionStrategy.OFFLINE_PARTITION, allows_unclean=requested
    )
    if is_led:
        assert results[t0] == LeaderIsrAndControllerEpoch(
            2, 1, (2,), EPOCH, partition_epoch=1, is_recovering=True
        )
        assert "records may be lost" in caplog.text
    else:
        assert isinstance(results[t0], StateChangeFailed)


async def test_clean_election_does_not_read_topic_configs():
    scene, (t0,) = await online_scene(FIRST)
    scene.context.remove_broker(1)
    await scene.partitions.handle_state_changes([t0], OFFLINE)
    await scene.partitions.trigger_online_partition_state_change()
    assert len(scene.store.runs) == 1


async def test_old_metadata_version_does_not_set_leader_recovery_state():
    spoken = MetadataVersion.parse("3.1")
    scene, (t0,) = await online_scene(replace(FIRST, isr=(1,)), allows_unclean=True, spoken=spoken)
    scene.context.remove_broker(1)
    await scene.partitions.handle_state_changes([t0], OFFLINE)
    assert not (await scene.partitions.trigger_online_partition_state_change())[t0].is_recovering


# Start-up


async def test_start_elects_leaders_for_partitions_without_one(caplog):
    caplog.set_level(logging.INFO)
    scene, (t0, t1, t2) = await online_scene(FIRST, replace(FIRST, leader=2), FIRST)
    (u0,) = await scene.add_topic("u", (3, 2))
    scene.context.partition_states.clear()
    scene.context.remove_broker(2)
    scene.context.replicas_on_offline_dirs[1] = {t2}
    results = await scene.partitions.start()
    assert {partition: leadership.leader for partition, leadership in results.items()} == {
        t1: 1,
        t2: 3,
        u0: 3,
    }
    assert set(scene.context.partition_states.values()) == {ONLINE}
    assert scene.context.partition_state(t0) is ONLINE
