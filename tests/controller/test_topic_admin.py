"""Tests of controller/topic_admin.py with every store."""

from random import Random

import pytest

from odradek.controller.config_alterations import ZNODE_BYTES_MAX
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store import paths
from odradek.controller.store.base import MultiFailed, NotPermitted, SetData
from odradek.controller.store.payloads.config import EntityConfig
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.controller.topic_admin import MULTI_BYTES_MAX, TopicAdmin
from odradek.controller.topic_names import random_topic_id
from odradek.controller.topic_planning import NewPartitions, NewTopic, TopicDefaults
from odradek.protocol.errors import (
    InvalidPartitions,
    InvalidTopic,
    KafkaError,
    ReassignmentInProgress,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from tests.support.controller_scene import controller_scene, registration
from tests.support.stores import Seen
from tests.support.topic_entries import growth_entry, topic_entry
from tests.support.turn_counting import in_turns

CONFIG = {"retention.ms": "7"}


class InterferingStore:
    """A store that runs ``between_writes`` once, before its second write.

    With ``loses_responses`` each write is sent twice, as after a lost response.
    """

    def __init__(self, store):
        self._store = store
        self.between_writes = None
        self.loses_responses = False
        self.multis = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def multi(self, operations):
        if self.loses_responses:
            await self._store.multi(operations)
        self.multis.append(len(operations))
        if self.between_writes and len(self.multis) == 2:
            await self.between_writes()
        return await self._store.multi(operations)

    async def run(self, operations, **options):
        if self.loses_responses and isinstance(operations[0], SetData):
            await self._store.run(operations, **options)
        return await self._store.run(operations, **options)


async def open_admin(stores, *, brokers=(1, 2, 3), knows_ids=True):
    store = InterferingStore(await stores.open())
    scene = await controller_scene(store)
    for number in brokers:
        await store.create(paths.broker(number), registration(number).encode(), is_ephemeral=True)
    store.multis.clear()
    random = Random(3)
    admin = TopicAdmin(
        store,
        scene.reads,
        defaults=lambda: TopicDefaults(num_partitions=2, replication_factor=3),
        random=random,
        new_topic_id=lambda: random_topic_id(random) if knows_ids else None,
    )
    return store, admin


async def plan_topics(admin, *entries):
    plans = [*(await admin.plan_topics(entries)).values()]
    assert all(isinstance(plan, NewTopic) for plan in plans), plans
    return plans


async def create_topics(admin, *entries):
    assert await admin.create_topics(await plan_topics(admin, *entries)) == {}


async def topic_node(store, name):
    value, stat = await store.get(paths.topic(name))
    return TopicAssignment.decode(value), stat.version


async def config_node(store, name):
    value, _ = await store.get(paths.topic_config(name).path)
    return EntityConfig.decode(value).config


# Creation


async def test_topic_is_created_with_its_config(stores):
    store, admin = await open_admin(stores)
    (plan,) = await plan_topics(admin, topic_entry("t", replicas={0: [2, 1]}, config=CONFIG))
    seen = Seen()
    await store.get_children(paths.TOPICS, seen)
    assert await admin.create_topics([plan]) == {}
    assert await topic_node(store, "t") == (plan.assignment, 0)
    assert await config_node(store, "t") == CONFIG
    assert len(seen.events) == 1


async def test_topic_without_settings_gets_an_empty_config(stores):
    store, admin = await open_admin(stores)
    await create_topics(admin, topic_entry("t"))
    value, _ = await store.get(paths.topic_config("t").path)
    assert value == b'{"version":1,"config":{}}'


async def test_rejected_topics_are_logged_in_one_line(stores, caplog):
    caplog.set_level("INFO", "kafka.zk")
    _, admin = await open_admin(stores)
    await admin.plan_topics([topic_entry(f"t{number}", factor=4) for number in range(100)])
    await admin.plan_partitions([growth_entry(f"t{number}", count=2) for number in range(3)])
    topic_errors, partition_errors = [record.message for record in caplog.records]
    assert topic_errors.startswith("Failed to create topics: 't0': Replication factor: 4 ")
    assert topic_errors.count("Replication factor: 4") == 10
    assert topic_errors.endswith(" And 90 more.")
    assert partition_errors.startswith(
        "Failed to create partitions: 't0': Topic 't0' does not exist. 't1': "
    )


async def test_planning_yields_to_the_event_loop(stores):
    _, admin = await open_admin(stores)
    await create_topics(admin, *[topic_entry(f"t{number}") for number in range(50)])
    entries = [topic_entry(f"t{number}") for number in range(50)]
    growth_entries = [growth_entry(f"t{number}", count=1) for number in range(50)]
    for planning in (admin.plan_topics(entries), admin.plan_partitions(growth_entries)):
        plans, time_slices = await in_turns(planning)
        assert all(isinstance(plan, KafkaError) for plan in plans.values())
        assert time_slices >= 50


async def test_planning_writes_nothing(stores):
    store, admin = await open_admin(stores)
    await plan_topics(admin, topic_entry("t"), topic_entry("u"))
    assert await store.get_children(paths.TOPICS) == []
    assert await store.get_children("/config/topics") == []


async def test_replicas_are_placed_on_registered_brokers(stores):
    store, admin = await open_admin(stores, brokers=(4, 5, 9))
    await create_topics(admin, topic_entry("t"))
    topic, _ = await topic_node(store, "t")
    assert len(topic.partitions) == 2
    assert all({*assignment.replicas} == {4, 5, 9} for assignment in topic.partitions.values())


async def test_topics_have_no_id_with_an_old_metadata_version(stores):
    store, admin = await open_admin(stores, knows_ids=False)
    await create_topics(admin, topic_entry("t"))
    topic, _ = await topic_node(store, "t")
    assert topic.topic_id is None


async def test_invalid_topic_does_not_reject_the_others(stores):
    _, admin = await open_admin(stores)
    await create_topics(admin, topic_entry("there"))
    plans = await admin.plan_topics(
        [topic_entry("there"), topic_entry("good"), topic_entry("a/b"), topic_entry("")]
    )
    assert {name: type(plan) for name, plan in plans.items()} == {
        "there": TopicAlreadyExists,
        "good": NewTopic,
        "a/b": InvalidTopic,
        "": InvalidTopic,
    }


async def test_colliding_names_within_a_request_are_rejected(stores):
    _, admin = await open_admin(stores)
    plans = await admin.plan_topics([topic_entry("a.b"), topic_entry("a_b")])
    assert [type(plan) for plan in plans.values()] == [NewTopic, InvalidTopic]


async def test_second_creation_of_a_topic_fails_with_topic_already_exists(stores):
    store, admin = await open_admin(stores)
    first = await plan_topics(admin, topic_entry("t", config=CONFIG))
    plans = await plan_topics(admin, topic_entry("s"), topic_entry("t"), topic_entry("u"))
    assert await admin.create_topics(first) == {}
    failed = await admin.create_topics(plans)
    assert {name: type(error) for name, error in failed.items()} == {"t": TopicAlreadyExists}
    assert {*await store.get_children(paths.TOPICS)} == {"s", "t", "u"}
    assert await config_node(store, "t") == CONFIG
    assert (await topic_node(store, "t"))[0].topic_id == first[0].assignment.topic_id


async def test_leftover_config_is_overwritten(stores):
    store, admin = await open_admin(stores)
    old_config = EntityConfig({"flush.ms": "1"}).encode()
    await store.create(paths.topic_config("t").path, old_config)
    await create_topics(admin, topic_entry("s"), topic_entry("t", config=CONFIG))
    assert await config_node(store, "t") == CONFIG


async def test_leftover_config_may_disappear_during_creation(stores):
    store, admin = await open_admin(stores)
    path = paths.topic_config("t").path
    await store.create(path)
    plans = await plan_topics(admin, topic_entry("t", config=CONFIG))
    store.between_writes = lambda: store.delete(path)
    assert await admin.create_topics(plans) == {}
    assert await config_node(store, "t") == CONFIG


@pytest.mark.parametrize("knows_ids", [True, False])
async def test_creation_whose_response_was_lost_succeeds(stores, knows_ids):
    store, admin = await open_admin(stores, knows_ids=knows_ids)
    plans = await plan_topics(admin, topic_entry("t", config=CONFIG), topic_entry("u"))
    store.loses_responses = True
    assert await admin.create_topics(plans) == {}
    store.loses_responses = False
    for plan in plans:
        assert await topic_node(store, plan.name) == (plan.assignment, 0)


async def test_many_topics_are_created_in_few_multis_below_the_size_limit(stores):
    store, admin = await open_admin(stores)
    wide = dict.fromkeys(range(300), range(300))
    plans = await plan_topics(
        admin,
        topic_entry("wide", replicas=wide),
        topic_entry("broad", replicas=wide),
        *(topic_entry(f"t{number}") for number in range(50)),
    )
    assert sum(len(plan.encoded_topic) for plan in plans) > MULTI_BYTES_MAX
    assert await admin.create_topics(plans) == {}
    assert len(store.multis) == 2
    assert len(await store.get_children(paths.TOPICS)) == 52


async def test_large_topic_is_created_in_its_own_multi(stores):
    store, admin = await open_admin(stores)
    wide = dict.fromkeys(range(850), range(300))
    plans = await plan_topics(admin, topic_entry("t"), topic_entry("wide", replicas=wide))
    assert MULTI_BYTES_MAX < len(plans[1].encoded_topic) < ZNODE_BYTES_MAX
    assert await admin.create_topics(plans) == {}
    assert store.multis == [2, 2]


async def test_empty_requests_write_nothing(stores):
    store, admin = await open_admin(stores)
    assert await admin.plan_topics([]) == {}
    assert await admin.create_topics([]) == {}
    assert await admin.plan_partitions([]) == {}
    assert await admin.create_partitions([]) == {}
    assert await admin.request_deletions([]) == {}
    assert store.multis == []


# New partitions


async def plan_partitions(admin, *entries):
    plans = [*(await admin.plan_partitions(entries)).values()]
    assert all(isinstance(plan, NewPartitions) for plan in plans), plans
    return plans


async def test_partitions_are_added(stores):
    store, admin = await open_admin(stores)
    await create_topics(admin, topic_entry("t", replicas={0: [1, 2]}), topic_entry("u"))
    before, _ = await topic_node(store, "t")
    plans = await plan_partitions(
        admin, growth_entry("t", count=3, replicas=[[2, 3], [3, 1]]), growth_entry("u", count=3)
    )
    assert await admin.create_partitions(plans) == {}
    after, version = await topic_node(store, "t")
    assert after.topic_id == before.topic_id
    assert after.partitions == {
        0: ReplicaAssignment((1, 2)),
        1: ReplicaAssignment((2, 3)),
        2: ReplicaAssignment((3, 1)),
    }
    assert version == 1
    assert len((await topic_node(store, "u"))[0].partitions) == 3


async def test_invalid_topic_does_not_reject_new_partitions_of_others(stores):
    store, admin = await open_admin(stores)
    await create_topics(admin, topic_entry("t"), topic_entry("doomed"))
    assert await admin.request_deletions(["doomed"]) == {}
    await store.create(paths.topic("damaged"), b"{")
    plans = await admin.plan_partitions(
        [growth_entry(name, count=5) for name in ("t", "doomed", "absent", "a/b", "", "damaged")]
    )
    assert {name: type(plan) for name, plan in plans.items()} == {
        "t": NewPartitions,
        "doomed": InvalidTopic,
        "absent": UnknownTopicOrPartition,
        "a/b": UnknownTopicOrPartition,
        "": UnknownTopicOrPartition,
        "damaged": KafkaError,
    }


async def test_new_partitions_are_planned_again_after_a_concurrent_increase(stores):
    store, admin = await open_admin(stores)
    await create_topics(admin, topic_entry("t", replicas={0: [1]}))
    plans = await plan_partitions(admin, growth_entry("t", count=4))
    other = await plan_partitions(admin, growth_entry("t", count=2, replicas=[[3]]))
    assert await admin.create_partitions(other) == {}
    assert await admin.create_partitions(plans) == {}
    topic, version = await topic_node(store, "t")
    assert topic.partitions[1] == ReplicaAssignment((3,))
    assert len(topic.partitions) == 4
    assert version == 2


async def test_new_partitions_fail_after_a_larger_concurrent_increase(stores):
    _, admin = await open_admin(stores)
    await create_topics(admin, topic_entry("t", replicas={0: [1]}))
    plans = await plan_partitions(admin, growth_entry("t", count=2))
    assert (
        await admin.create_partitions(await plan_partitions(admin, growth_entry("t", count=3)))
        == {}
    )
    failed = await admin.create_partitions(plans)
    assert isinstance(failed["t"], InvalidPartitions)


async def test_new_partitions_do_not_overwrite_a_concurrent_reassignment(stores):
    store, admin = await open_admin(stores)
    await create_topics(admin, topic_entry("t", replicas={0: [1]}))
    plans = await plan_partitions(admin, growth_entry("t", count=2))
    topic, _ = await topic_node(store, "t")
    reassigning = TopicAssignment({0: ReplicaAssignment((1,)).reassign_to((2,))}, topic.topic_id)
    await store.set(paths.topic("t"), reassigning.encode())
    failed = await admin.create_partitions(plans)
    assert isinstance(failed["t"], ReassignmentInProgress)
    assert (await topic_node(store, "t"))[0] == reassigning


async def test_new_partitions_of_a_deleted_topic_fail(stores):
    store, admin = await open_admin(stores)
    await create_topics(admin, topic_entry("t"))
    plans = await plan_partitions(admin, growth_entry("t", count=5))
    await store.delete(paths.topic("t"))
    failed = await admin.create_partitions(plans)
    assert isinstance(failed["t"], UnknownTopicOrPartition)


async def test_new_partitions_whose_response_was_lost_succeed(stores):
    store, admin = await open_admin(stores)
    await create_topics(admin, topic_entry("t"))
    plans = await plan_partitions(admin, growth_entry("t", count=5))
    store.loses_responses = True
    assert await admin.create_partitions(plans) == {}
    assert (await topic_node(store, "t"))[1] == 1


# Deletion


async def test_deletion_creates_a_znode_for_the_controller(stores):
    store, admin = await open_admin(stores)
    await create_topics(admin, topic_entry("t"), topic_entry("u"))
    failed = await admin.request_deletions(["t", "absent", "a/b", "", "t"])
    assert {name: type(error) for name, error in failed.items()} == dict.fromkeys(
        ["absent", "a/b", ""], UnknownTopicOrPartition
    )
    assert await store.get_children(paths.DELETE_TOPICS) == ["t"]
    assert {*await store.get_children(paths.TOPICS)} == {"t", "u"}


async def test_second_deletion_of_a_topic_succeeds(stores):
    _, admin = await open_admin(stores)
    await create_topics(admin, topic_entry("t"))
    assert await admin.request_deletions(["t"]) == {}
    assert await admin.request_deletions(["t"]) == {}


async def test_topic_name_is_free_only_after_the_deletion_has_completed(stores):
    store, admin = await open_admin(stores)
    await create_topics(admin, topic_entry("t"))
    await admin.request_deletions(["t"])
    plans = await admin.plan_topics([topic_entry("t")])
    assert isinstance(plans["t"], TopicAlreadyExists)
    await store.delete(paths.topic("t"))
    plans = await admin.plan_topics([topic_entry("t")])
    assert isinstance(plans["t"], TopicAlreadyExists)
    await store.delete(paths.topic_to_delete("t"))
    await plan_topics(admin, topic_entry("t"))


async def test_store_error_is_raised_unchanged(stores):
    store, admin = await open_admin(stores)
    plans = await plan_topics(admin, topic_entry("t"))

    async def fail_multi(_):
        raise MultiFailed(1, NotPermitted(paths.topic("t")))

    store.multi = fail_multi
    with pytest.raises(NotPermitted):
        await admin.create_topics(plans)
