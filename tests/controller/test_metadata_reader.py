"""Tests of controller/metadata_reader.py with every store."""

import logging

import pytest

from odradek.controller.controller_context import Broker
from odradek.controller.leader_and_isr import LeaderIsrAndControllerEpoch
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store import paths
from odradek.controller.store.base import Create, GetData, WatchEvent, WatchEventType
from odradek.controller.store.payloads.admin import PreferredReplicaElection, ReassignPartitions
from odradek.controller.store.payloads.cluster import ProducerIdsBlock
from odradek.controller.store.payloads.config import EntityConfig
from odradek.controller.store.payloads.json_object import CorruptPayload
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


async def test_broker_epoch_is_the_zxid_of_its_registration(stores):
    scene = await controller_scene(await stores.open())
    created = await scene.store.create(paths.broker(4), registration(4).encode(), is_ephemeral=True)
    await scene.store.create(f"{paths.BROKER_IDS}/nobody", b"")
    assert await scene.reads.get_broker_ids() == {4}
    assert await scene.reads.get_brokers([4, 5]) == {
        4: Broker(4, created.stat.created_zxid, registration(4))
    }


async def test_topics_are_read_with_topic_ids_and_assignments(stores):
    scene = await controller_scene(await stores.open())
    reassigning = ReplicaAssignment((1, 2)).reassign_to((3, 2))
    node = TopicAssignment({0: ReplicaAssignment((1, 2)), 1: reassigning}, topic_id("t"))
    old = b'{"version":1,"partitions":{"0":[1]}}'
    await create(scene.store, {paths.topic("t"): node.encode(), paths.topic("old"): old})
    assert await scene.reads.get_topic_names() == {"t", "old"}
    assert await scene.reads.get_topic_assignments(["t", "old", "gone"]) == {
        "t": node,
        "old": TopicAssignment({0: ReplicaAssignment((1,))}),
    }


async def test_has_partition_reads_the_topic_assignment(stores):
    scene = await controller_scene(await stores.open())
    node = TopicAssignment({0: ReplicaAssignment((1,))}, topic_id("t")).encode()
    await create(scene.store, {paths.topic("t"): node, paths.topic("damaged"): b"{"})
    partitions = [T0, TopicPartition("t", 1), TopicPartition("gone", 0)]
    assert [await scene.reads.has_partition(each) for each in partitions] == [True, False, False]
    with pytest.raises(CorruptPayload):
        await scene.reads.has_partition(TopicPartition("damaged", 0))


async def test_partition_state_has_the_version_of_its_znode(stores):
    scene = await controller_scene(await stores.open())
    state = LeaderAndIsr(2, 5, (2, 1), 7, is_recovering=True).encode()
    path = paths.partition_state(T0)
    await create(scene.store, dict.fromkeys(paths.parents(path)[2:], b"") | {path: b""})
    await scene.store.set(path, state)
    assert await scene.reads.get_topic_partition_states([T0, TopicPartition("t", 1)]) == {
        T0: LeaderIsrAndControllerEpoch(2, 5, (2, 1), 7, partition_epoch=1, is_recovering=True)
    }


async def test_only_existing_configs_are_returned(stores):
    scene = await controller_scene(await stores.open())
    config = EntityConfig({"retention.ms": "5"})
    await create(scene.store, {paths.topic_config("t").path: config.encode()})
    assert await scene.reads.get_topic_configs(["t", "u"]) == {"t": {"retention.ms": "5"}}
    assert await scene.reads.get_entity_configs([paths.broker_config(None)]) == {}


async def test_admin_znodes_are_watched_before_they_exist(stores):
    scene = await controller_scene(await stores.open())
    watcher = Seen()
    assert await scene.reads.get_partition_reassignment(watcher) is None
    assert await scene.reads.get_preferred_replica_election(watcher) is None
    reassignment, elections = ReassignPartitions({T0: (3, 1)}), PreferredReplicaElection((T0,))
    await create(
        scene.store,
        {
            paths.REASSIGN_PARTITIONS: reassignment.encode(),
            paths.PREFERRED_REPLICA_ELECTION: elections.encode(),
        },
    )
    assert await scene.reads.get_partition_reassignment() == {T0: (3, 1)}
    assert await scene.reads.get_preferred_replica_election() == (T0,)
    assert watcher.events == [
        WatchEvent(WatchEventType.CREATED, paths.REASSIGN_PARTITIONS),
        WatchEvent(WatchEventType.CREATED, paths.PREFERRED_REPLICA_ELECTION),
    ]


async def test_topic_deletions_are_watched(stores):
    scene = await controller_scene(await stores.open())
    watcher = Seen()
    assert await scene.reads.get_topic_deletions(watcher) == set()
    await scene.store.create(paths.topic_to_delete("t"))
    assert await scene.reads.get_topic_deletions() == {"t"}
    assert watcher.events == [WatchEvent(WatchEventType.CHILDREN_CHANGED, paths.DELETE_TOPICS)]


async def test_notifications_are_read_in_sequence_order(stores):
    scene = await controller_scene(await stores.open())
    changes = [IsrChange((TopicPartition("t", number),)) for number in range(3)]
    names = []
    for change in changes:
        path = paths.ISR_CHANGES.create_path
        created = await scene.store.create(path, change.encode(), is_sequential=True)
        names.append(created.path.rpartition("/")[2])
    events = paths.LOG_DIR_EVENTS.create_path
    await scene.store.create(events, LogDirEvent(2).encode(), is_sequential=True)
    notifications = await scene.reads.get_isr_change_notifications()
    assert [*notifications.items()] == [
        (name, change.partitions) for name, change in zip(names, changes, strict=True)
    ]
    assert [*(await scene.reads.get_log_dir_event_notifications()).values()] == [2]


async def test_corrupt_znodes_are_logged_and_skipped(stores, caplog):
    scene = await controller_scene(await stores.open())
    good = TopicAssignment({0: ReplicaAssignment((1,))}, topic_id("good"))
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
    await scene.store.create(paths.ISR_CHANGES.create_path, b"x", is_sequential=True)
    await scene.store.create(paths.LOG_DIR_EVENTS.create_path, b"x", is_sequential=True)
    with caplog.at_level(logging.ERROR):
        assert await scene.reads.get_topic_assignments(["good", "bad"]) == {"good": good}
        assert await scene.reads.get_brokers([1]) == {}
        assert await scene.reads.get_partition_reassignment() == {}
        assert await scene.reads.get_preferred_replica_election() == ()
        assert [*(await scene.reads.get_isr_change_notifications()).values()] == [()]
        assert [*(await scene.reads.get_log_dir_event_notifications()).values()] == [None]
    assert len(caplog.records) == 6
    assert paths.topic("bad") in caplog.text


async def test_corrupt_producer_id_block_raises(stores):
    scene = await controller_scene(await stores.open())
    assert await scene.reads.get_latest_producer_id_block() == (None, 0)
    block = ProducerIdsBlock(1, 0, 999)
    await scene.store.set(paths.PRODUCER_ID_BLOCK, block.encode())
    assert await scene.reads.get_latest_producer_id_block() == (block, 1)
    await scene.store.set(paths.PRODUCER_ID_BLOCK, b"x")
    with pytest.raises(CorruptPayload):
        await scene.reads.get_latest_producer_id_block()


async def test_states_of_a_thousand_partitions_are_read_in_one_run(stores):
    store = CountedStore(await stores.open())
    scene = await controller_scene(store)
    partitions = [TopicPartition("t", number) for number in range(1_000)]
    store.forget()
    assert await scene.reads.get_topic_partition_states(partitions) == {}
    assert len(store.runs) == 1


async def test_reading_no_partitions_makes_no_store_call(stores):
    store = CountedStore(await stores.open())
    scene = await controller_scene(store)
    store.forget()
    assert await scene.reads.get_topic_partition_states([]) == {}
    assert store.runs == []


async def test_unknown_json_fields_are_preserved(stores):
    scene = await controller_scene(await stores.open())
    (t0,) = await scene.add_topic("t", [1])
    node = TopicAssignment({0: ReplicaAssignment((1,))}, topic_id("t"), {"future": 1})
    await scene.store.set(paths.topic("t"), node.encode())
    (read_back,) = (await scene.reads.get_topic_assignments(["t"])).values()
    await scene.writes.set_topic_assignments(
        {"t": TopicAssignment(read_back.partitions, read_back.topic_id)}
    )
    state = LeaderAndIsr(1, 0, (1,), 7, extra={"future": 2})
    path = paths.partition_state(t0)
    await scene.store.run(
        [*map(Create, paths.parents(path)[3:]), Create(path, state.encode()), GetData(path)]
    )
    leaderships = await scene.reads.get_topic_partition_states([t0])
    await scene.writes.update_leader_and_isr(leaderships)
    assert (await scene.store.get(paths.topic("t"))).value == node.encode()
    assert (await scene.store.get(path)).value == state.encode()
