"""Tests of controller/metadata_writes.py, on every store."""

from dataclasses import replace

import pytest

from odradek.controller.assignment import Assignment
from odradek.controller.leadership import Leadership
from odradek.controller.metadata_writes import ControllerMoved
from odradek.controller.store import paths
from odradek.controller.store.base import Create, NodeExists, NoNode
from odradek.controller.store.payloads.cluster import (
    FeatureStatus,
    FinalizedFeatures,
    ProducerIdBlock,
)
from odradek.controller.store.payloads.config import ConfigChange
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.protocol.types import TopicPartition
from tests.support.controller_scene import EPOCH, controller_scene, topic_id

FIRST = Leadership(1, 0, (1, 2), controller_epoch=EPOCH, partition_epoch=0)
UNKNOWN = TopicPartition("unknown", 0)


async def value(scene, path):
    return (await scene.store.get(path)).value


async def tree(scene, path):
    """Every path from this one down."""
    below = [f"{path}/{name}" for name in sorted(await scene.store.children(path))]
    return [path, *[each for child in below for each in await tree(scene, child)]]


# Leaders


async def test_the_first_leaders_are_written_with_all_that_is_above_them(stores):
    scene = await controller_scene(await stores.open())
    t0, t1 = await scene.add_topic("t", [1, 2], [2, 1])
    other = replace(FIRST, leader=2, controller_epoch=0, partition_epoch=9)
    written = await scene.writes.create_leaderships({t0: FIRST, t1: other, UNKNOWN: FIRST})
    second = replace(FIRST, leader=2)
    assert written.done == {t0: FIRST, t1: second} == await scene.reads.leaderships([t0, t1])
    assert [*written.failed] == [UNKNOWN]
    assert isinstance(written.failed[UNKNOWN], NoNode)
    assert await value(scene, paths.partition_state(t0)) == LeaderAndIsr(1, 0, (1, 2), 7).encode()


async def test_what_a_resent_write_finds_done_is_done(stores):
    scene = await controller_scene(await stores.open())
    (t0,) = await scene.add_topic("t", [1, 2])
    await scene.writes.create_leaderships({t0: FIRST})
    assert (await scene.writes.create_leaderships({t0: FIRST})).done == {t0: FIRST}


async def test_a_leader_that_is_there_already_is_not_overwritten(stores):
    scene = await controller_scene(await stores.open())
    (t0,) = await scene.add_topic("t", [1, 2])
    await scene.writes.create_leaderships({t0: FIRST})
    written = await scene.writes.create_leaderships({t0: replace(FIRST, leader=2)})
    assert written.done == {}
    assert isinstance(written.failed[t0], NodeExists)
    assert await scene.reads.leaderships([t0]) == {t0: FIRST}


async def test_each_leader_is_changed_only_if_nobody_was_faster(stores):
    scene = await controller_scene(await stores.open())
    t0, t1 = await scene.add_topic("t", [1, 2], [1, 2])
    await scene.writes.create_leaderships({t0: FIRST, t1: FIRST})
    await scene.store.set(paths.partition_state(t1), b"by somebody else")
    new = FIRST.led_by(2, (2,), is_recovering=True)
    written = await scene.writes.update_leaderships({t0: new, t1: new, UNKNOWN: new})
    assert written.done == {t0: replace(new, partition_epoch=1)}
    assert written.outdated == [t1]
    assert [*written.failed] == [UNKNOWN]
    assert await scene.reads.leaderships([t0]) == written.done
    assert await value(scene, paths.partition_state(t1)) == b"by somebody else"


async def test_the_epoch_written_is_that_of_the_controller_that_writes(stores):
    scene = await controller_scene(await stores.open())
    (t0,) = await scene.add_topic("t", [1, 2])
    await scene.add_leaders({t0: FIRST})
    scene.context.epoch += 1
    written = await scene.writes.update_leaderships({t0: FIRST})
    assert written.done[t0].controller_epoch == EPOCH + 1


# Fencing


async def test_whoever_has_been_replaced_writes_nothing(stores):
    scene = await controller_scene(await stores.open())
    (t0,) = await scene.add_topic("t", [1, 2])
    await scene.add_leaders({t0: FIRST})
    await scene.store.create(paths.REASSIGN_PARTITIONS, b"x")
    await scene.store.create(paths.PREFERRED_REPLICA_ELECTION, b"x")
    await scene.store.create(paths.topic_to_delete("t"))
    before = {path: await scene.store.get(path) for path in await tree(scene, paths.BROKERS)}
    config, topic = paths.topic_config("t"), TopicAssignment({0: Assignment((9,))})
    await scene.store.set(paths.CONTROLLER_EPOCH, b"8")
    for attempt in (
        lambda: scene.writes.create_leaderships({TopicPartition("t", 1): FIRST}),
        lambda: scene.writes.update_leaderships({t0: FIRST}),
        lambda: scene.writes.create_topics({"u": topic}),
        lambda: scene.writes.write_topics({"t": topic}),
        lambda: scene.writes.request_deletions(["u"]),
        lambda: scene.writes.forget_requested_deletions(["t"]),
        lambda: scene.writes.delete_topics(["t"]),
        lambda: scene.writes.write_configs({config: {"a": "b"}}),
        lambda: scene.writes.notify_of_config([config]),
        lambda: scene.writes.write_reassignments({}),
        lambda: scene.writes.write_reassignments({t0: (1,)}),
        scene.writes.delete_preferred_elections,
        lambda: scene.writes.delete_notifications(paths.ISR_CHANGES, ["isr_change_0000000000"]),
        lambda: scene.writes.claim_producer_ids(ProducerIdBlock(1, 0, 999), version=0),
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
    assert await scene.store.children(paths.CONFIG_CHANGES.parent) == []
    assert await scene.reads.latest_producer_ids() == (None, 0)


# Topics


async def test_a_topic_is_created_once(stores):
    scene = await controller_scene(await stores.open())
    topic = TopicAssignment({0: Assignment((1,))}, topic_id("t"))
    assert await scene.writes.create_topics({"t": topic}) == {}
    assert await scene.writes.create_topics({"t": topic}) == {}, "a resent write finds itself done"
    failed = await scene.writes.create_topics({"t": replace(topic, topic_id=topic_id("other"))})
    assert isinstance(failed["t"], NodeExists)
    assert await scene.reads.topics(["t"]) == {"t": topic}


async def test_only_topics_that_are_there_are_changed(stores):
    scene = await controller_scene(await stores.open())
    await scene.add_topic("t", [1, 2])
    grown = TopicAssignment({0: Assignment((1, 2)), 1: Assignment((2, 1))}, topic_id("t"))
    failed = await scene.writes.write_topics({"t": grown, "u": grown})
    assert [*failed] == ["u"]
    assert await scene.reads.topics(["t", "u"]) == {"t": grown}


async def test_of_a_deleted_topic_nothing_stays(stores):
    scene = await controller_scene(await stores.open())
    t0, t1 = await scene.add_topic("t", [1, 2], [2, 1])
    (u0,) = await scene.add_topic("u", [1, 2])
    await scene.add_leaders({t0: FIRST, t1: FIRST, u0: FIRST})
    await scene.store.create(f"{paths.topic('t')}/left-by-a-tool", b"x")
    await scene.writes.write_configs({paths.topic_config(name): {"a": "b"} for name in "tu"})
    assert await scene.writes.request_deletions(["t", "gone"]) == {}
    assert await scene.writes.delete_topics(["t", "gone"]) == {}
    assert await scene.reads.topic_names() == {"u"}
    assert await scene.reads.topic_configs(["t", "u"]) == {"u": {"a": "b"}}
    assert await scene.reads.topics_to_delete() == set()
    assert await scene.reads.leaderships([u0]) == {u0: FIRST}


async def test_a_topic_is_asked_to_be_deleted_once(stores):
    scene = await controller_scene(await stores.open())
    assert await scene.writes.request_deletions(["t"]) == {}
    assert isinstance((await scene.writes.request_deletions(["t"]))["t"], NodeExists)
    assert await scene.writes.forget_requested_deletions(["t", "gone"]) == {}
    assert await scene.reads.topics_to_delete() == set()


# Configurations


async def test_a_configuration_is_created_or_replaced(stores):
    scene = await controller_scene(await stores.open())
    topic = paths.topic_config("t")
    client = paths.user_client_config(user="u", client_id="c")
    for config in ({"a": "1"}, {"a": "2"}):
        assert await scene.writes.write_configs({topic: config, client: config}) == {}
        assert await scene.reads.configs([topic, client]) == {topic: config, client: config}


async def test_everyone_hears_of_a_changed_configuration(stores):
    scene = await controller_scene(await stores.open())
    topic = paths.topic_config("t")
    await scene.writes.notify_of_config([topic])
    (node,) = (await scene.reads.notifications(paths.CONFIG_CHANGES)).values()
    assert node.value == ConfigChange(topic).encode()


# The rest


async def test_what_is_left_of_a_reassignment_is_written_until_nothing_is(stores):
    scene = await controller_scene(await stores.open())
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    for left in ({t0: (1,), t1: (2,)}, {t1: (2,)}):
        await scene.writes.write_reassignments(left)
        assert await scene.reads.reassignments() == left
    for _ in range(2):
        await scene.writes.write_reassignments({})
        assert await scene.reads.reassignments() is None


async def test_what_was_heard_is_deleted_also_twice(stores):
    scene = await controller_scene(await stores.open())
    await scene.store.create(paths.PREFERRED_REPLICA_ELECTION, b"x")
    made = [await scene.store.create(paths.ISR_CHANGES.new, is_sequential=True) for _ in range(2)]
    heard = made[0].path.rpartition("/")[2]
    for _ in range(2):
        await scene.writes.delete_preferred_elections()
        await scene.writes.delete_notifications(paths.ISR_CHANGES, [heard])
    assert await scene.reads.preferred_elections() is None
    assert len(await scene.store.children(paths.ISR_CHANGES.parent)) == 1


async def test_producer_ids_are_claimed_by_one(stores):
    scene = await controller_scene(await stores.open())
    ours, theirs = ProducerIdBlock(1, 0, 999), ProducerIdBlock(2, 0, 999)
    assert await scene.writes.claim_producer_ids(ours, version=0)
    assert await scene.writes.claim_producer_ids(ours, version=0), "a resent write finds itself"
    assert not await scene.writes.claim_producer_ids(theirs, version=0)
    assert await scene.reads.latest_producer_ids() == (ours, 1)


async def test_what_a_resent_create_has_made_itself_is_written(stores, monkeypatch):
    scene = await controller_scene(await stores.open())
    run = scene.store.run

    async def resending(operations, **fence):
        """The answer to a first attempt is lost with the connection."""
        if any(isinstance(each, Create) for each in operations):
            await run(operations, **fence)
        return await run(operations, **fence)

    monkeypatch.setattr(scene.store, "run", resending)
    features = FinalizedFeatures(FeatureStatus.ENABLED, {"f": 1})
    await scene.writes.write_features(features, version=2)
    assert await scene.reads.features() == features
    partition = TopicPartition("t", 0)
    await scene.writes.write_reassignments({partition: (1, 2)})
    assert await scene.reads.reassignments() == {partition: (1, 2)}
