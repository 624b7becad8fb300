"""Tests of controller/reassignment.py: what is asked by the node /admin/reassign_partitions."""

import pytest

from odradek.controller.assignment import Assignment
from odradek.controller.events import ReassignmentsChanged
from odradek.controller.store import paths
from odradek.protocol.types import TopicPartition
from tests.support.moving_scene import T0, T1, T2, moving_bench


async def test_the_node_shrinks_as_partitions_finish_and_goes_with_the_last():
    bench = await moving_bench([1], [1], [1, 2])
    await bench.ask_by_node({T0: (2,), T1: (3,), T2: (2, 1)})
    assert await bench.node() == {T0: (2,), T1: (3,)}
    assert (await bench.topic()).partitions == {
        0: Assignment((2, 1), adding=(2,), removing=(1,)),
        1: Assignment((3, 1), adding=(3,), removing=(1,)),
        2: Assignment((2, 1)),
    }
    await bench.in_sync(T0, 1, 2)
    assert await bench.node() == {T1: (3,)}
    await bench.in_sync(T1, 1, 3)
    assert await bench.node() is None
    assert bench.reassignments.listed(None) == {}


async def test_each_change_of_the_node_is_heard_of_once_looked_at():
    bench = await moving_bench([1])
    await bench.reassignments.from_node()
    await bench.ask_by_node({T0: (2,)})
    await bench.store.exists("/")
    assert bench.events.put == [ReassignmentsChanged()]
    await bench.in_sync(T0, 1, 2)
    await bench.store.exists("/")
    assert bench.events.put == [ReassignmentsChanged()] * 2


async def test_what_is_under_way_goes_on_when_the_node_is_looked_at_again():
    bench = await moving_bench([1])
    await bench.ask_by_node({T0: (2,)})
    before = await bench.leadership()
    await bench.reassignments.from_node()
    assert await bench.leadership() == before


async def test_a_broker_that_is_not_there_is_waited_for():
    bench = await moving_bench([1], brokers=(1, 2))
    await bench.ask_by_node({T0: (3,)})
    assert await bench.node() == {T0: (3,)}
    bench.sent()
    await bench.join(3)
    assert bench.sent().leads(3) == {T0: (1, [3, 1], True)}
    await bench.in_sync(T0, 1, 3)
    assert await bench.node() is None


@pytest.mark.parametrize("target", [(), (2, 2), (-1,)])
async def test_what_cannot_be_is_taken_out_of_the_node(target):
    bench = await moving_bench([1], [1])
    await bench.ask_by_node({T0: target, T1: (2,)})
    assert await bench.node() == {T1: (2,)}
    assert (await bench.topic()).partitions[0] == Assignment((1,))


async def test_unknown_partitions_and_those_to_be_deleted_are_taken_out_of_the_node():
    bench = await moving_bench([1])
    await bench.add_topic("u", [1])
    bench.scene.context.to_delete.add("u")
    await bench.ask_by_node({TopicPartition("u", 0): (2,), T1: (2,), T0: (2,)})
    assert await bench.node() == {T0: (2,)}


@pytest.mark.parametrize("value", [b'{"version":1,"partitions":[]}', b"{}", b"broken", b""])
async def test_a_node_that_asks_for_nothing_is_taken_away(value):
    bench = await moving_bench([1])
    await bench.store.create(paths.REASSIGN_PARTITIONS, value)
    await bench.reassignments.from_node()
    assert await bench.node() is None


async def test_a_request_counts_more_than_the_node_before_it():
    bench = await moving_bench([1], [1])
    await bench.ask_by_node({T0: (2,), T1: (2,)})
    await bench.reassignments.alter({T0: (3,)})
    assert await bench.node() == {T1: (2,)}
    assert bench.reassignments.listed([T0]) == {T0: Assignment((3, 1), (3,), (1,))}
    await bench.reassignments.alter({T1: None})
    assert await bench.node() is None
    assert (await bench.topic()).partitions[1] == Assignment((1,))


async def test_the_node_counts_more_than_a_request_before_it():
    bench = await moving_bench([1])
    await bench.reassignments.alter({T0: (3,)})
    bench.sent()
    await bench.ask_by_node({T0: (2,)})
    assert bench.reassignments.listed([T0]) == {T0: Assignment((2, 1), (2,), (1,))}
    assert bench.sent().stops(3) == {T0: True}


async def test_a_refused_request_leaves_the_node_alone():
    bench = await moving_bench([1])
    await bench.ask_by_node({T0: (2,)})
    await bench.reassignments.alter({T0: (99,)})
    assert await bench.node() == {T0: (2,)}


async def test_the_next_controller_begins_what_the_node_asks_and_resumes_all_else():
    bench = await moving_bench([1], [1])
    await bench.reassignments.alter({T0: (2,)})
    bench.sent()
    await bench.store.create(
        paths.REASSIGN_PARTITIONS,
        b'{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[3]}]}',
    )
    await bench.reassignments.start()
    assert set(bench.reassignments.listed(None)) == {T0, T1}
    assert (await bench.leadership(T0)).leader_epoch == 2
    assert (await bench.leadership(T1)).leader_epoch == 1
