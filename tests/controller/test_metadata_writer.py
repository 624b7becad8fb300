"""Tests of controller/metadata_writer.py with every store."""

from dataclasses import replace

import pytest

from odradek.controller.leader_and_isr import LeaderIsrAndControllerEpoch
from odradek.controller.metadata_writer import ControllerMoved
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store import paths
from odradek.controller.store.base import Create, NodeExists, NoNode
from odradek.controller.store.payloads.cluster import (
    FeatureStatus,
    FinalizedFeatures,
    ProducerIdsBlock,
)
from odradek.controller.store.payloads.config import ConfigChangeNotification
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.protocol.types import TopicPartition
from tests.support.controller_scene import EPOCH, controller_scene, topic_id

FIRST = LeaderIsrAndControllerEpoch(1, 0, (1, 2), controller_epoch=EPOCH, partition_epoch=0)
UNKNOWN = TopicPartition("unknown", 0)


async def value(scene, path):
    return (await scene.store.get(path)).value


async def tree(scene, path):
    """This path and all paths below it."""
    child_paths = [f"{path}/{name}" for name in sorted(await scene.store.get_children(path))]
    return [path, *[descendant for child in child_paths for descendant in await tree(scene, child)]]


# Leaders


async def test_partition_states_are_created_with_their_parents(stores):
    scene = await controller_scene(await stores.open())
    t0, t1 = await scene.add_topic("t", [1, 2], [2, 1])
    other = replace(FIRST, leader=2, controller_epoch=0, partition_epoch=9)
    result = await scene.writes.create_topic_partition_states(
        {t0: FIRST, t1: other, UNKNOWN: FIRST}
    )
    second = replace(FIRST, leader=2)
    assert (
        result.finished
        == {t0: FIRST, t1: second}
        == await scene.reads.get_topic_partition_states([t0, t1])
    )
    assert [*result.failed] == [UNKNOWN]
    assert isinstance(result.failed[UNKNOWN], NoNode)
    assert await value(scene, paths.partition_state(t0)) == LeaderAndIsr(1, 0, (1, 2), 7).encode()


async def test_resent_create_of_partition_state_succeeds(stores):
    scene = await controller_scene(await stores.open())
    (t0,) = await scene.add_topic("t", [1, 2])
    await scene.writes.create_topic_partition_states({t0: FIRST})
    assert (await scene.writes.create_topic_partition_states({t0: FIRST})).finished == {t0: FIRST}


async def test_existing_partition_state_is_not_overwritten(stores):
    scene = await controller_scene(await stores.open())
    (t0,) = await scene.add_topic("t", [1, 2])
    await scene.writes.create_topic_partition_states({t0: FIRST})
    result = await scene.writes.create_topic_partition_states({t0: replace(FIRST, leader=2)})
    assert result.finished == {}
    assert isinstance(result.failed[t0], NodeExists)
    assert await scene.reads.get_topic_partition_states([t0]) == {t0: FIRST}


async def test_partition_state_with_unexpected_version_is_not_updated(stores):
    scene = await controller_scene(await stores.open())
    t0, t1 = await scene.add_topic("t", [1, 2], [1, 2])
    await scene.writes.create_topic_partition_states({t0: FIRST, t1: FIRST})
    await scene.store.set(paths.partition_state(t1), b"by somebody else")
    new = FIRST.new_leader_and_isr(2, (2,), is_recovering=True)
    result = await scene.writes.update_leader_and_isr({t0: new, t1: new, UNKNOWN: new})
    assert result.finished == {t0: replace(new, partition_epoch=1)}
    assert result.to_retry == [t1]
    assert [*result.failed] == [UNKNOWN]
    assert await scene.reads.get_topic_partition_states([t0]) == result.finished
    assert await value(scene, paths.partition_state(t1)) == b"by somebody else"


async def test_written_controller_epoch_is_that_of_the_writing_controller(stores):
    scene = await controller_scene(await stores.open())
    (t0,) = await scene.add_topic("t", [1, 2])
    await scene.add_leaders({t0: FIRST})
    scene.context.epoch += 1
    result = await scene.writes.update_leader_and_isr({t0: FIRST})
    assert result.finished[t0].controller_epoch == EPOCH + 1


# Fencing


async def test_fenced_controller_writes_nothing(stores):
    scene = await controller_scene(await stores.open())
    (t0,) = await scene.add_topic("t", [1, 2])
    await scene.add_leaders({t0: FIRST})
    await scene.store.create(paths.REASSIGN_PARTITIONS, b"x")
    await scene.store.create(paths.PREFERRED_REPLICA_ELECTION, b"x")
    await scene.store.create(paths.topic_to_delete("t"))
    before = {path: await scene.store.get(path) for path in await tree(scene, paths.BROKERS)}
    config, topic = paths.topic_config("t"), TopicAssignment({0: ReplicaAssignment((9,))})
    await scene.store.set(paths.CONTROLLER_EPOCH, b"8")
    for attempt in (
        lambda: scene.writes.create_topic_partition_states({TopicPartition("t", 1): FIRST}),
        lambda: scene.writes.update_leader_and_isr({t0: FIRST}),
        lambda: scene.writes.create_topics({"u": topic}),
        lambda: scene.writes.set_topic_assignments({"t": topic}),
        lambda: scene.writes.create_topic_deletions(["u"]),
        lambda: scene.writes.delete_topic_deletions(["t"]),
        lambda: scene.writes.delete_topics(["t"]),
        lambda: scene.writes.set_or_create_entity_configs({config: {"a": "b"}}),
        lambda: scene.writes.create_config_change_notifications([config]),
        lambda: scene.writes.set_or_create_partition_reassignment({}),
        lambda: scene.writes.set_or_create_partition_reassignment({t0: (1,)}),
        scene.writes.delete_preferred_replica_election,
        lambda: scene.writes.delete_notifications(paths.ISR_CHANGES, ["isr_change_0000000000"]),
        lambda: scene.writes.claim_producer_id_block(ProducerIdsBlock(1, 0, 999), version=0),
    ):
        with pytest.raises(ControllerMoved):
            await attempt()
    after = {path: await scene.store.get(path) for path in await tree(scene, paths.BROKERS)}
    assert after == before
    assert await tree(scene, paths.ADMIN) == [
        paths.ADMIN,
        paths.DELETE_TOPICS,
        paths.topic_to_delete("t"),
        paths.PREFERRED_REPLICA_ELECTION,
        paths.REASSIGN_PARTITIONS,
    ]
    assert await scene.store.get_children(paths.CONFIG_CHANGES.parent) == []
    assert await scene.reads.get_latest_producer_id_block() == (None, 0)


# Topics


async def test_existing_topic_is_not_created_again(stores):
    scene = await controller_scene(await stores.open())
    topic = TopicAssignment({0: ReplicaAssignment((1,))}, topic_id("t"))
    assert await scene.writes.create_topics({"t": topic}) == {}
    assert await scene.writes.create_topics({"t": topic}) == {}, "a resent write finds itself done"
    failed = await scene.writes.create_topics({"t": replace(topic, topic_id=topic_id("other"))})
    assert isinstance(failed["t"], NodeExists)
    assert await scene.reads.get_topic_assignments(["t"]) == {"t": topic}


async def test_assignment_of_missing_topic_is_not_written(stores):
    scene = await controller_scene(await stores.open())
    await scene.add_topic("t", [1, 2])
    expanded = TopicAssignment(
        {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 1))}, topic_id("t")
    )
    failed = await scene.writes.set_topic_assignments({"t": expanded, "u": expanded})
    assert [*failed] == ["u"]
    assert await scene.reads.get_topic_assignments(["t", "u"]) == {"t": expanded}


async def test_delete_topics_removes_all_znodes_of_the_topic(stores):
    scene = await controller_scene(await stores.open())
    t0, t1 = await scene.add_topic("t", [1, 2], [2, 1])
    (u0,) = await scene.add_topic("u", [1, 2])
    await scene.add_leaders({t0: FIRST, t1: FIRST, u0: FIRST})
    await scene.store.create(f"{paths.topic('t')}/left-by-a-tool", b"x")
    await scene.writes.set_or_create_entity_configs(
        {paths.topic_config(name): {"a": "b"} for name in "tu"}
    )
    assert await scene.writes.create_topic_deletions(["t", "gone"]) == {}
    assert await scene.writes.delete_topics(["t", "gone"]) == {}
    assert await scene.reads.get_topic_names() == {"u"}
    assert await scene.reads.get_topic_configs(["t", "u"]) == {"u": {"a": "b"}}
    assert await scene.reads.get_topic_deletions() == set()
    assert await scene.reads.get_topic_partition_states([u0]) == {u0: FIRST}


async def test_topic_deletion_is_created_once(stores):
    scene = await controller_scene(await stores.open())
    assert await scene.writes.create_topic_deletions(["t"]) == {}
    assert isinstance((await scene.writes.create_topic_deletions(["t"]))["t"], NodeExists)
    assert await scene.writes.delete_topic_deletions(["t", "gone"]) == {}
    assert await scene.reads.get_topic_deletions() == set()


# Configurations


async def test_entity_config_is_created_or_replaced(stores):
    scene = await controller_scene(await stores.open())
    topic = paths.topic_config("t")
    client = paths.user_client_config(user="u", client_id="c")
    for config in ({"a": "1"}, {"a": "2"}):
        assert (
            await scene.writes.set_or_create_entity_configs({topic: config, client: config}) == {}
        )
        assert await scene.reads.get_entity_configs([topic, client]) == {
            topic: config,
            client: config,
        }


async def test_config_change_notification_is_created(stores):
    scene = await controller_scene(await stores.open())
    topic = paths.topic_config("t")
    await scene.writes.create_config_change_notifications([topic])
    (node,) = (await scene.reads.get_notifications(paths.CONFIG_CHANGES)).values()
    assert node.value == ConfigChangeNotification(topic).encode()


# The rest


async def test_reassignment_znode_is_updated_and_deleted_when_empty(stores):
    scene = await controller_scene(await stores.open())
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    for remaining in ({t0: (1,), t1: (2,)}, {t1: (2,)}):
        await scene.writes.set_or_create_partition_reassignment(remaining)
        assert await scene.reads.get_partition_reassignment() == remaining
    for _ in range(2):
        await scene.writes.set_or_create_partition_reassignment({})
        assert await scene.reads.get_partition_reassignment() is None


async def test_election_znode_and_notifications_can_be_deleted_twice(stores):
    scene = await controller_scene(await stores.open())
    await scene.store.create(paths.PREFERRED_REPLICA_ELECTION, b"x")
    notifications = [
        await scene.store.create(paths.ISR_CHANGES.create_path, is_sequential=True)
        for _ in range(2)
    ]
    processed = notifications[0].path.rpartition("/")[2]
    for _ in range(2):
        await scene.writes.delete_preferred_replica_election()
        await scene.writes.delete_notifications(paths.ISR_CHANGES, [processed])
    assert await scene.reads.get_preferred_replica_election() is None
    assert len(await scene.store.get_children(paths.ISR_CHANGES.parent)) == 1


async def test_producer_id_block_is_claimed_by_one_controller(stores):
    scene = await controller_scene(await stores.open())
    ours, theirs = ProducerIdsBlock(1, 0, 999), ProducerIdsBlock(2, 0, 999)
    assert await scene.writes.claim_producer_id_block(ours, version=0)
    assert await scene.writes.claim_producer_id_block(ours, version=0), (
        "a resent write finds itself"
    )
    assert not await scene.writes.claim_producer_id_block(theirs, version=0)
    assert await scene.reads.get_latest_producer_id_block() == (ours, 1)


async def test_create_whose_response_was_lost_succeeds(stores, monkeypatch):
    scene = await controller_scene(await stores.open())
    run = scene.store.run

    async def run_twice(operations, **fence):
        """Run creates twice, as if the first response were lost with the connection."""
        if any(isinstance(operation, Create) for operation in operations):
            await run(operations, **fence)
        return await run(operations, **fence)

    monkeypatch.setattr(scene.store, "run", run_twice)
    features = FinalizedFeatures(FeatureStatus.ENABLED, {"f": 1})
    await scene.writes.write_features(features, version=2)
    assert await scene.reads.get_finalized_features() == features
    partition = TopicPartition("t", 0)
    await scene.writes.set_or_create_partition_reassignment({partition: (1, 2)})
    assert await scene.reads.get_partition_reassignment() == {partition: (1, 2)}
