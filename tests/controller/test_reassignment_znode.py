"""Tests of controller/reassignment.py: reassignments by the znode /admin/reassign_partitions."""

import pytest

from odradek.controller.events import ZkPartitionReassignment
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store import paths
from odradek.protocol.types import TopicPartition
from tests.support.moving_scene import T0, T1, T2, moving_bench


async def test_completed_partitions_are_removed_and_the_empty_znode_is_deleted():
    bench = await moving_bench([1], [1], [1, 2])
    await bench.ask_by_node({T0: (2,), T1: (3,), T2: (2, 1)})
    assert await bench.node() == {T0: (2,), T1: (3,)}
    assert (await bench.topic()).partitions == {
        0: ReplicaAssignment((2, 1), adding_replicas=(2,), removing_replicas=(1,)),
        1: ReplicaAssignment((3, 1), adding_replicas=(3,), removing_replicas=(1,)),
        2: ReplicaAssignment((2, 1)),
    }
    await bench.in_sync(T0, 1, 2)
    assert await bench.node() == {T1: (3,)}
    await bench.in_sync(T1, 1, 3)
    assert await bench.node() is None
    assert bench.reassignments.list_partition_reassignments(None) == {}


async def test_znode_is_watched_after_each_read():
    bench = await moving_bench([1])
    await bench.reassignments.process_zk_partition_reassignment()
    await bench.ask_by_node({T0: (2,)})
    await bench.store.exists("/")
    assert bench.events.put == [ZkPartitionReassignment()]
    await bench.in_sync(T0, 1, 2)
    await bench.store.exists("/")
    assert bench.events.put == [ZkPartitionReassignment()] * 2


async def test_rereading_the_znode_does_not_restart_the_reassignment():
    bench = await moving_bench([1])
    await bench.ask_by_node({T0: (2,)})
    before = await bench.leadership()
    await bench.reassignments.process_zk_partition_reassignment()
    assert await bench.leadership() == before


async def test_reassignment_waits_for_an_offline_target_broker():
    bench = await moving_bench([1], brokers=(1, 2))
    await bench.ask_by_node({T0: (3,)})
    assert await bench.node() == {T0: (3,)}
    bench.sent()
    await bench.join(3)
    assert bench.sent().leads(3) == {T0: (1, [3, 1], True)}
    await bench.in_sync(T0, 1, 3)
    assert await bench.node() is None


@pytest.mark.parametrize("target", [(), (2, 2), (-1,)])
async def test_invalid_target_is_removed_from_the_znode(target):
    bench = await moving_bench([1], [1])
    await bench.ask_by_node({T0: target, T1: (2,)})
    assert await bench.node() == {T1: (2,)}
    assert (await bench.topic()).partitions[0] == ReplicaAssignment((1,))


async def test_unknown_and_deleted_partitions_are_removed_from_the_znode():
    bench = await moving_bench([1])
    await bench.add_topic("u", [1])
    bench.scene.context.topics_to_be_deleted.add("u")
    await bench.ask_by_node({TopicPartition("u", 0): (2,), T1: (2,), T0: (2,)})
    assert await bench.node() == {T0: (2,)}


@pytest.mark.parametrize("value", [b'{"version":1,"partitions":[]}', b"{}", b"broken", b""])
async def test_znode_without_reassignments_is_deleted(value):
    bench = await moving_bench([1])
    await bench.store.create(paths.REASSIGN_PARTITIONS, value)
    await bench.reassignments.process_zk_partition_reassignment()
    assert await bench.node() is None


async def test_request_replaces_an_earlier_reassignment_by_znode():
    bench = await moving_bench([1], [1])
    await bench.ask_by_node({T0: (2,), T1: (2,)})
    await bench.reassignments.alter_partition_reassignments({T0: (3,)})
    assert await bench.node() == {T1: (2,)}
    assert bench.reassignments.list_partition_reassignments([T0]) == {
        T0: ReplicaAssignment((3, 1), (3,), (1,))
    }
    await bench.reassignments.alter_partition_reassignments({T1: None})
    assert await bench.node() is None
    assert (await bench.topic()).partitions[1] == ReplicaAssignment((1,))


async def test_znode_replaces_an_earlier_reassignment_by_request():
    bench = await moving_bench([1])
    await bench.reassignments.alter_partition_reassignments({T0: (3,)})
    bench.sent()
    await bench.ask_by_node({T0: (2,)})
    assert bench.reassignments.list_partition_reassignments([T0]) == {
        T0: ReplicaAssignment((2, 1), (2,), (1,))
    }
    assert bench.sent().stops(3) == {T0: True}


async def test_rejected_request_keeps_the_znode():
    bench = await moving_bench([1])
    await bench.ask_by_node({T0: (2,)})
    await bench.reassignments.alter_partition_reassignments({T0: (99,)})
    assert await bench.node() == {T0: (2,)}


async def test_next_controller_starts_the_znode_and_resumes_other_reassignments():
    bench = await moving_bench([1], [1])
    await bench.reassignments.alter_partition_reassignments({T0: (2,)})
    bench.sent()
    await bench.store.create(
        paths.REASSIGN_PARTITIONS,
        b'{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[3]}]}',
    )
    await bench.reassignments.start()
    assert set(bench.reassignments.list_partition_reassignments(None)) == {T0, T1}
    assert (await bench.leadership(T0)).leader_epoch == 2
    assert (await bench.leadership(T1)).leader_epoch == 1
