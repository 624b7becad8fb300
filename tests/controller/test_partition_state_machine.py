"""Tests of controller/partition_machine.py and controller/leadership_changes.py."""

import logging
from dataclasses import replace
from itertools import product

import pytest

from odradek.controller.assignment import Assignment
from odradek.controller.leader_election import Occasion
from odradek.controller.leadership import Leadership
from odradek.controller.leadership_changes import StateChangeFailed
from odradek.controller.metadata_writes import ControllerMoved
from odradek.controller.partition_state import MOVES, PartitionState
from odradek.controller.request_versions import InterBrokerVersion
from odradek.controller.store import paths
from odradek.controller.store.payloads.topic import LeaderAndIsr
from odradek.protocol.api.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.types import TopicPartition
from tests.support.controller_scene import EPOCH, controller_scene
from tests.support.counted_store import CountedStore
from tests.support.stores import MemoryStores

NEW, ONLINE, OFFLINE = PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE
FIRST = Leadership(1, 0, (1, 2, 3), controller_epoch=EPOCH, partition_epoch=0)


async def new_scene(*assignments, **options):
    """A topic t with these assignments, all of whose partitions are new."""
    store = CountedStore(await MemoryStores().open())
    scene = await controller_scene(store, **options)
    partitions = await scene.add_topic("t", *assignments)
    await scene.partitions.move(partitions, NEW)
    store.forget()
    return scene, partitions


async def led_scene(*leaderships, assignment=(1, 2, 3), **options):
    """A topic t whose partitions are online with these leaderships."""
    scene, partitions = await new_scene(*[assignment] * len(leaderships), **options)
    await scene.add_leaders(dict(zip(partitions, leaderships, strict=True)))
    for partition in partitions:
        scene.context.move_partition(partition, ONLINE)
    scene.store.forget()
    return scene, partitions


def told(scene):
    """Which broker is told of which partitions; the batch is sent."""
    scene.batch.send()
    return {
        broker: [
            TopicPartition(topic.topic_name, state.partition_index)
            for topic in request.topic_states
            for state in topic.partition_states
        ]
        for broker, request, _ in scene.sent.requests
        if isinstance(request, LeaderAndIsrRequest)
    }


# The table


@pytest.mark.parametrize(("state", "target"), list(product(PartitionState, PartitionState)))
async def test_every_move_is_made_or_refused_as_the_table_says(state, target, caplog):
    scene, (t0,) = await led_scene(FIRST)
    if state is NEW:
        await scene.store.delete(paths.partition_state(t0))
        del scene.context.leaderships[t0]
    scene.context.move_partition(t0, state)
    scene.store.forget()
    results = await scene.partitions.move([t0], target, Occasion.OFFLINE)
    if target in MOVES[state]:
        assert scene.context.partition_state(t0) is target
        assert not caplog.records
    else:
        assert scene.context.partition_state(t0) is state
        assert isinstance(results[t0], StateChangeFailed)
        assert f"Partitions do not become {target.name}: illegal" in caplog.text
        assert scene.store.runs == []


# New partitions


async def test_the_first_replica_that_is_alive_leads_a_new_partition():
    scene, (t0,) = await new_scene((9, 3, 1))
    first = Leadership(3, 0, (3, 1), controller_epoch=EPOCH, partition_epoch=0)
    assert await scene.partitions.move([t0], ONLINE) == {t0: first}
    assert scene.context.leaderships == {t0: first} == await scene.reads.leaderships([t0])
    assert scene.context.partition_state(t0) is ONLINE
    assert told(scene) == {3: [t0], 1: [t0]}
    request = scene.sent.to(1, LeaderAndIsrRequest)
    assert request.topic_states[0].partition_states[0].is_new


async def test_a_new_partition_without_live_replicas_stays_new(caplog):
    scene, (t0, t1) = await new_scene((8, 9), (1,))
    results = await scene.partitions.move([t0, t1], ONLINE)
    assert isinstance(results[t0], StateChangeFailed)
    assert scene.context.partition_state(t0) is NEW
    assert scene.context.partition_state(t1) is ONLINE
    assert "no replica is alive" in caplog.text
    scene.add_brokers([9])
    assert (await scene.partitions.elect_missing())[t0].leader == 9


async def test_a_leader_that_somebody_else_made_is_not_replaced():
    scene, (t0,) = await new_scene((1, 2))
    await scene.writes.create_leaderships({t0: replace(FIRST, leader=2)})
    results = await scene.partitions.move([t0], ONLINE)
    assert isinstance(results[t0], StateChangeFailed)
    assert t0 not in scene.context.leaderships


async def test_a_thousand_new_partitions_are_one_run():
    scene, partitions = await new_scene(*[(1, 2)] * 1_000)
    results = await scene.partitions.move(partitions, ONLINE)
    assert len(results) == 1_000
    assert len(scene.store.runs) == 1


# Elections


async def test_a_leader_that_is_gone_is_replaced_and_everyone_alive_told():
    scene, (t0, _) = await led_scene(FIRST, replace(FIRST, leader=2))
    scene.context.forget_broker(1)
    await scene.partitions.move([t0], OFFLINE)
    second = Leadership(2, 1, (2, 3), controller_epoch=EPOCH, partition_epoch=1)
    assert await scene.partitions.elect_missing() == {t0: second}
    assert await scene.reads.leaderships([t0]) == {t0: second}
    assert scene.context.leaderships[t0] == second
    assert scene.context.partition_state(t0) is ONLINE
    assert told(scene) == {2: [t0], 3: [t0]}


async def test_an_election_costs_one_write_and_no_read():
    scene, partitions = await led_scene(*[FIRST] * 500)
    scene.context.forget_broker(1)
    await scene.partitions.move(partitions, OFFLINE)
    await scene.partitions.elect_missing()
    assert [len(run) for run in scene.store.runs] == [500]


async def test_where_a_leader_was_faster_the_election_is_held_again():
    scene, (t0, t1) = await led_scene(FIRST, FIRST)
    shrunk = LeaderAndIsr(1, 0, (1, 3), EPOCH)
    await scene.store.set(paths.partition_state(t0), shrunk.encode())
    scene.context.forget_broker(1)
    await scene.partitions.move([t0, t1], OFFLINE)
    results = await scene.partitions.elect_missing()
    assert results[t0] == Leadership(3, 1, (3,), EPOCH, partition_epoch=2)
    assert results[t1] == Leadership(2, 1, (2, 3), EPOCH, partition_epoch=1)
    assert await scene.reads.leaderships([t0, t1]) == results == scene.context.leaderships


async def test_nobody_is_given_up_before_the_store_was_asked():
    scene, (t0,) = await led_scene(replace(FIRST, isr=(1,)))
    await scene.store.set(paths.partition_state(t0), LeaderAndIsr(1, 0, (1, 2), EPOCH).encode())
    scene.context.forget_broker(1)
    await scene.partitions.move([t0], OFFLINE)
    assert (await scene.partitions.elect_missing())[t0].leader == 2


async def test_a_partition_that_nobody_can_lead_stays_offline(caplog):
    scene, (t0, t1) = await led_scene(replace(FIRST, isr=(1,)), FIRST)
    scene.context.forget_broker(1)
    await scene.partitions.move([t0, t1], OFFLINE)
    results = await scene.partitions.elect_missing()
    assert isinstance(results[t0], StateChangeFailed)
    assert results[t1].leader == 2
    assert scene.context.partition_state(t0) is OFFLINE
    assert [*scene.context.waiting_for_leader] == [t0]
    assert "Partitions do not become ONLINE: no replica that is in sync is alive" in caplog.text
    assert told(scene) == {2: [t1], 3: [t1]}


@pytest.mark.parametrize(
    ("occasion", "gone", "isr", "why"),
    [
        (Occasion.PREFERRED, 1, (2, 3), "the preferred leader, broker 1, is not alive"),
        (Occasion.PREFERRED, 3, (2, 3), "the preferred leader, broker 1, is not in sync"),
        (Occasion.REASSIGNMENT, 2, (2,), "no new replica is both alive and in sync"),
        (Occasion.CONTROLLED_SHUTDOWN, 2, (2,), "no other replica is both alive and in sync"),
    ],
)
async def test_why_nobody_was_elected_is_told_as_it_is(occasion, gone, isr, why):
    scene, (t0,) = await led_scene(replace(FIRST, leader=2, isr=isr))
    scene.context.forget_broker(gone)
    results = await scene.partitions.move([t0], ONLINE, occasion)
    assert str(results[t0]) == why


async def test_a_partition_whose_node_is_gone_cannot_be_led():
    scene, (t0,) = await led_scene(FIRST)
    await scene.store.delete(paths.partition_state(t0))
    results = await scene.partitions.move([t0], ONLINE, Occasion.OFFLINE)
    assert "NoNode" in str(results[t0])


async def test_what_is_going_is_not_elected_for():
    scene, (t0,) = await led_scene(FIRST)
    await scene.partitions.move([t0], OFFLINE)
    scene.context.to_delete.add("t")
    assert await scene.partitions.elect_missing() == {}


async def test_elections_may_be_tried_for_one_topic():
    scene, (t0,) = await new_scene((1,))
    (u0,) = await scene.add_topic("u", (1,))
    await scene.partitions.move([u0], NEW)
    assert [*await scene.partitions.elect_missing("u")] == [u0]
    assert scene.context.partition_state(t0) is NEW


@pytest.mark.parametrize(
    ("occasion", "leader", "isr", "recipients"),
    [
        (Occasion.PREFERRED, 1, (2, 1, 3), [1, 2, 3]),
        (Occasion.REASSIGNMENT, 3, (2, 1, 3), [3, 4]),
        (Occasion.CONTROLLED_SHUTDOWN, 1, (1, 3), [1, 2, 3]),
    ],
)
async def test_each_occasion_tells_those_whom_it_concerns(occasion, leader, isr, recipients):
    scene, (t0,) = await led_scene(replace(FIRST, leader=2, isr=(2, 1, 3)), brokers=(1, 2, 3, 4))
    if occasion is Occasion.REASSIGNMENT:
        scene.context.assign(t0, Assignment((1, 2)).reassigned_to((4, 3)))
    if occasion is Occasion.CONTROLLED_SHUTDOWN:
        scene.context.shutting_down.add(2)
    results = await scene.partitions.move([t0], ONLINE, occasion)
    assert (results[t0].leader, results[t0].isr) == (leader, isr)
    assert sorted(told(scene)) == recipients


async def test_whoever_has_been_replaced_moves_nothing():
    scene, (t0,) = await led_scene(FIRST)
    await scene.store.set(paths.CONTROLLER_EPOCH, b"8")
    with pytest.raises(ControllerMoved):
        await scene.partitions.move([t0], ONLINE, Occasion.PREFERRED)
    assert scene.context.leaderships[t0] == FIRST
    assert told(scene) == {}


# Unclean elections


@pytest.mark.parametrize(
    ("default", "configured", "asked", "is_led"),
    [
        (False, None, False, False),
        (False, "true", False, True),
        (False, " True ", False, True),
        (False, None, True, True),
        (True, None, False, True),
        (True, "false", False, False),
    ],
)
async def test_who_was_not_in_sync_leads_if_topic_or_cluster_or_caller_allow_it(
    default, configured, asked, is_led, caplog
):
    scene, (t0,) = await led_scene(replace(FIRST, isr=(1,)), allows_unclean=default)
    if configured is not None:
        config = {"unclean.leader.election.enable": configured}
        await scene.writes.write_configs({paths.topic_config("t"): config})
    scene.context.forget_broker(1)
    await scene.partitions.move([t0], OFFLINE)
    results = await scene.partitions.move([t0], ONLINE, Occasion.OFFLINE, allows_unclean=asked)
    if is_led:
        assert results[t0] == Leadership(2, 1, (2,), EPOCH, partition_epoch=1, is_recovering=True)
        assert "records may be lost" in caplog.text
    else:
        assert isinstance(results[t0], StateChangeFailed)


async def test_configurations_are_not_read_where_they_do_not_matter():
    scene, (t0,) = await led_scene(FIRST)
    scene.context.forget_broker(1)
    await scene.partitions.move([t0], OFFLINE)
    await scene.partitions.elect_missing()
    assert len(scene.store.runs) == 1


async def test_old_brokers_are_not_told_that_a_leader_recovers():
    spoken = InterBrokerVersion.parse("3.1")
    scene, (t0,) = await led_scene(replace(FIRST, isr=(1,)), allows_unclean=True, spoken=spoken)
    scene.context.forget_broker(1)
    await scene.partitions.move([t0], OFFLINE)
    assert not (await scene.partitions.elect_missing())[t0].is_recovering


# The start


async def test_a_controller_finds_out_what_needs_a_leader(caplog):
    caplog.set_level(logging.INFO)
    scene, (t0, t1, t2) = await led_scene(FIRST, replace(FIRST, leader=2), FIRST)
    (u0,) = await scene.add_topic("u", (3, 2))
    scene.context.partition_states.clear()
    scene.context.forget_broker(2)
    scene.context.offline_replicas[1] = {t2}
    results = await scene.partitions.start()
    assert {partition: each.leader for partition, each in results.items()} == {t1: 1, t2: 3, u0: 3}
    assert set(scene.context.partition_states.values()) == {ONLINE}
    assert scene.context.partition_state(t0) is ONLINE
