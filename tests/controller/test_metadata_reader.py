"""Tests of controller/metadata_reads.py, on every store."""

import logging

import pytest

from odradek.controller.assignment import Assignment
from odradek.controller.context import Broker
from odradek.controller.leadership import Leadership
from odradek.controller.store import paths
from odradek.controller.store.base import Change, Create, Get, WatchEvent
from odradek.controller.store.payloads.admin import PreferredReplicaElection, ReassignPartitions
from odradek.controller.store.payloads.cluster import ProducerIdBlock
from odradek.controller.store.payloads.config import EntityConfig
from odradek.controller.store.payloads.fields import PayloadDamaged
from odradek.controller.store.payloads.notifications import IsrChange, LogDirEvent
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.protocol.types import TopicPartition
from tests.support.controller_scene import controller_scene, registration, topic_id
from tests.support.counted_store import CountedStore
from tests.support.stores import Seen

T0 = TopicPartition("t", 0)


async def create(store, nodes):
    for path, value in nodes.items():
        await store.create(path, value)


async def test_a_broker_has_the_epoch_in_which_it_registered(stores):
    scene = await controller_scene(await stores.open())
    made = await scene.store.create(paths.broker(4), registration(4).encode(), is_ephemeral=True)
    await scene.store.create(f"{paths.BROKER_IDS}/nobody", b"")
    assert await scene.reads.broker_ids() == {4}
    assert await scene.reads.brokers([4, 5]) == {
        4: Broker(4, made.stat.created_zxid, registration(4))
    }


async def test_topics_are_read_with_their_ids_and_replicas(stores):
    scene = await controller_scene(await stores.open())
    moving = Assignment((1, 2)).reassigned_to((3, 2))
    node = TopicAssignment({0: Assignment((1, 2)), 1: moving}, topic_id("t"))
    old = b'{"version":1,"partitions":{"0":[1]}}'
    await create(scene.store, {paths.topic("t"): node.encode(), paths.topic("old"): old})
    assert await scene.reads.topic_names() == {"t", "old"}
    assert await scene.reads.topics(["t", "old", "gone"]) == {
        "t": node,
        "old": TopicAssignment({0: Assignment((1,))}),
    }


async def test_a_partition_is_there_if_its_topic_has_it(stores):
    scene = await controller_scene(await stores.open())
    node = TopicAssignment({0: Assignment((1,))}, topic_id("t")).encode()
    await create(scene.store, {paths.topic("t"): node, paths.topic("damaged"): b"{"})
    asked = [T0, TopicPartition("t", 1), TopicPartition("gone", 0)]
    assert [await scene.reads.has_partition(each) for each in asked] == [True, False, False]
    with pytest.raises(PayloadDamaged):
        await scene.reads.has_partition(TopicPartition("damaged", 0))


async def test_a_leadership_has_the_version_of_its_node(stores):
    scene = await controller_scene(await stores.open())
    state = LeaderAndIsr(2, 5, (2, 1), 7, is_recovering=True).encode()
    path = paths.partition_state(T0)
    await create(scene.store, dict.fromkeys(paths.parents(path)[2:], b"") | {path: b""})
    await scene.store.set(path, state)
    assert await scene.reads.leaderships([T0, TopicPartition("t", 1)]) == {
        T0: Leadership(2, 5, (2, 1), 7, partition_epoch=1, is_recovering=True)
    }


async def test_configurations_are_read_of_those_that_have_one(stores):
    scene = await controller_scene(await stores.open())
    config = EntityConfig({"retention.ms": "5"})
    await create(scene.store, {paths.topic_config("t").path: config.encode()})
    assert await scene.reads.topic_configs(["t", "u"]) == {"t": {"retention.ms": "5"}}
    assert await scene.reads.configs([paths.broker_config(None)]) == {}


async def test_what_tools_ask_for_is_watched_also_before_they_do(stores):
    scene = await controller_scene(await stores.open())
    seen = Seen()
    assert await scene.reads.reassignments(seen) is None
    assert await scene.reads.preferred_elections(seen) is None
    asked, elections = ReassignPartitions({T0: (3, 1)}), PreferredReplicaElection((T0,))
    await create(
        scene.store,
        {
            paths.REASSIGN_PARTITIONS: asked.encode(),
            paths.PREFERRED_REPLICA_ELECTION: elections.encode(),
        },
    )
    assert await scene.reads.reassignments() == {T0: (3, 1)}
    assert await scene.reads.preferred_elections() == (T0,)
    assert seen.events == [
        WatchEvent(Change.CREATED, paths.REASSIGN_PARTITIONS),
        WatchEvent(Change.CREATED, paths.PREFERRED_REPLICA_ELECTION),
    ]


async def test_topics_to_delete_are_watched(stores):
    scene = await controller_scene(await stores.open())
    seen = Seen()
    assert await scene.reads.topics_to_delete(seen) == set()
    await scene.store.create(paths.topic_to_delete("t"))
    assert await scene.reads.topics_to_delete() == {"t"}
    assert seen.events == [WatchEvent(Change.CHILDREN, paths.DELETE_TOPICS)]


async def test_notifications_come_in_their_order(stores):
    scene = await controller_scene(await stores.open())
    changes = [IsrChange((TopicPartition("t", number),)) for number in range(3)]
    names = []
    for change in changes:
        path = paths.ISR_CHANGES.new
        made = await scene.store.create(path, change.encode(), is_sequential=True)
        names.append(made.path.rpartition("/")[2])
    events = paths.LOG_DIR_EVENTS.new
    await scene.store.create(events, LogDirEvent(2).encode(), is_sequential=True)
    found = await scene.reads.isr_changes()
    assert [*found.items()] == [
        (name, change.partitions) for name, change in zip(names, changes, strict=True)
    ]
    assert [*(await scene.reads.log_dir_events()).values()] == [2]


async def test_what_cannot_be_read_keeps_nobody_from_reading_the_rest(stores, caplog):
    scene = await controller_scene(await stores.open())
    good = TopicAssignment({0: Assignment((1,))}, topic_id("good"))
    await create(
        scene.store,
        {
            paths.topic("good"): good.encode(),
            paths.topic("bad"): b"{",
            paths.broker(1): b"[]",
            paths.REASSIGN_PARTITIONS: b"x",
            paths.PREFERRED_REPLICA_ELECTION: b"x",
        },
    )
    await scene.store.create(paths.ISR_CHANGES.new, b"x", is_sequential=True)
    await scene.store.create(paths.LOG_DIR_EVENTS.new, b"x", is_sequential=True)
    with caplog.at_level(logging.ERROR):
        assert await scene.reads.topics(["good", "bad"]) == {"good": good}
        assert await scene.reads.brokers([1]) == {}
        assert await scene.reads.reassignments() == {}
        assert await scene.reads.preferred_elections() == ()
        assert [*(await scene.reads.isr_changes()).values()] == [()]
        assert [*(await scene.reads.log_dir_events()).values()] == [None]
    assert len(caplog.records) == 6
    assert paths.topic("bad") in caplog.text


async def test_producer_ids_are_never_guessed(stores):
    scene = await controller_scene(await stores.open())
    assert await scene.reads.latest_producer_ids() == (None, 0)
    block = ProducerIdBlock(1, 0, 999)
    await scene.store.set(paths.PRODUCER_ID_BLOCK, block.encode())
    assert await scene.reads.latest_producer_ids() == (block, 1)
    await scene.store.set(paths.PRODUCER_ID_BLOCK, b"x")
    with pytest.raises(PayloadDamaged):
        await scene.reads.latest_producer_ids()


async def test_a_thousand_partitions_are_one_question(stores):
    store = CountedStore(await stores.open())
    scene = await controller_scene(store)
    partitions = [TopicPartition("t", number) for number in range(1_000)]
    store.forget()
    assert await scene.reads.leaderships(partitions) == {}
    assert len(store.runs) == 1


async def test_nothing_is_asked_for_nothing(stores):
    store = CountedStore(await stores.open())
    scene = await controller_scene(store)
    store.forget()
    assert await scene.reads.leaderships([]) == {}
    assert store.runs == []


async def test_unknown_fields_are_written_again(stores):
    scene = await controller_scene(await stores.open())
    (t0,) = await scene.add_topic("t", [1])
    node = TopicAssignment({0: Assignment((1,))}, topic_id("t"), {"future": 1})
    await scene.store.set(paths.topic("t"), node.encode())
    (known,) = (await scene.reads.topics(["t"])).values()
    await scene.writes.write_topics({"t": TopicAssignment(known.partitions, known.topic_id)})
    state = LeaderAndIsr(1, 0, (1,), 7, extra={"future": 2})
    path = paths.partition_state(t0)
    await scene.store.run(
        [*map(Create, paths.parents(path)[3:]), Create(path, state.encode()), Get(path)]
    )
    leaderships = await scene.reads.leaderships([t0])
    await scene.writes.update_leaderships(leaderships)
    assert (await scene.store.get(paths.topic("t"))).value == node.encode()
    assert (await scene.store.get(path)).value == state.encode()
