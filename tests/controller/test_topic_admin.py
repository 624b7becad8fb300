"""Tests of controller/topic_admin.py, on every store."""

from random import Random

import pytest

from odradek.controller.assignment import Assignment
from odradek.controller.config_alterations import NODE_BYTES_MAX
from odradek.controller.store import paths
from odradek.controller.store.base import MultiFailed, NotPermitted, Set
from odradek.controller.store.payloads.config import EntityConfig
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.controller.topic_admin import TOGETHER_BYTES_MAX, TopicAdmin
from odradek.controller.topic_names import random_topic_id
from odradek.controller.topic_requests import Growth, NewTopic, TopicDefaults
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


class Told:
    """A store to which something happens between two writes, once.

    With ``loses_answers`` a write is done and then sent again, as after a lost connection.
    """

    def __init__(self, store):
        self._store = store
        self.between_writes = None
        self.loses_answers = False
        self.multis = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def multi(self, operations):
        if self.loses_answers:
            await self._store.multi(operations)
        self.multis.append(len(operations))
        if self.between_writes and len(self.multis) == 2:
            await self.between_writes()
        return await self._store.multi(operations)

    async def run(self, operations, **options):
        if self.loses_answers and isinstance(operations[0], Set):
            await self._store.run(operations, **options)
        return await self._store.run(operations, **options)


async def opened(stores, *, brokers=(1, 2, 3), knows_ids=True):
    store = Told(await stores.open())
    scene = await controller_scene(store)
    for number in brokers:
        await store.create(paths.broker(number), registration(number).encode(), is_ephemeral=True)
    store.multis.clear()
    random = Random(3)
    admin = TopicAdmin(
        store,
        scene.reads,
        defaults=lambda: TopicDefaults(partitions=2, replication_factor=3),
        random=random,
        new_topic_id=lambda: random_topic_id(random) if knows_ids else None,
    )
    return store, admin


async def planned(admin, *entries):
    plans = [*(await admin.plan_topics(entries)).values()]
    assert all(isinstance(plan, NewTopic) for plan in plans), plans
    return plans


async def created(admin, *entries):
    assert await admin.create_topics(await planned(admin, *entries)) == {}


async def topic_node(store, name):
    value, stat = await store.get(paths.topic(name))
    return TopicAssignment.decode(value), stat.version


async def config_node(store, name):
    value, _ = await store.get(paths.topic_config(name).path)
    return EntityConfig.decode(value).config


# Creation


async def test_a_topic_is_created_with_its_configuration(stores):
    store, admin = await opened(stores)
    (plan,) = await planned(admin, topic_entry("t", replicas={0: [2, 1]}, config=CONFIG))
    seen = Seen()
    await store.children(paths.TOPICS, seen)
    assert await admin.create_topics([plan]) == {}
    assert await topic_node(store, "t") == (plan.topic, 0)
    assert await config_node(store, "t") == CONFIG
    assert len(seen.events) == 1


async def test_a_topic_without_settings_has_a_configuration_too(stores):
    store, admin = await opened(stores)
    await created(admin, topic_entry("t"))
    value, _ = await store.get(paths.topic_config("t").path)
    assert value == b'{"version":1,"config":{}}'


async def test_what_is_refused_is_one_line_in_the_log(stores, caplog):
    caplog.set_level("INFO", "odradek.controller.topic_admin")
    _, admin = await opened(stores)
    await admin.plan_topics([topic_entry(f"t{number}", factor=4) for number in range(100)])
    await admin.plan_growths([growth_entry(f"t{number}", count=2) for number in range(3)])
    created, grown = [record.message for record in caplog.records]
    assert created.startswith("Topics are not created: 't0': Replication factor 4 ")
    assert created.count("Replication factor 4") == 10
    assert created.endswith(" And 90 more.")
    assert grown.startswith("Topics get no partitions: 't0': Topic 't0' does not exist. 't1': ")


async def test_others_have_their_turns_while_topics_are_planned(stores):
    _, admin = await opened(stores)
    await created(admin, *[topic_entry(f"t{number}") for number in range(50)])
    refused = [topic_entry(f"t{number}") for number in range(50)]
    grown = [growth_entry(f"t{number}", count=1) for number in range(50)]
    for planning in (admin.plan_topics(refused), admin.plan_growths(grown)):
        plans, turns = await in_turns(planning)
        assert all(isinstance(plan, KafkaError) for plan in plans.values())
        assert turns >= 50


async def test_planning_writes_nothing(stores):
    store, admin = await opened(stores)
    await planned(admin, topic_entry("t"), topic_entry("u"))
    assert await store.children(paths.TOPICS) == []
    assert await store.children("/config/topics") == []


async def test_replicas_are_placed_on_registered_brokers(stores):
    store, admin = await opened(stores, brokers=(4, 5, 9))
    await created(admin, topic_entry("t"))
    topic, _ = await topic_node(store, "t")
    assert len(topic.partitions) == 2
    assert all({*at.replicas} == {4, 5, 9} for at in topic.partitions.values())


async def test_topics_have_no_id_where_brokers_know_none(stores):
    store, admin = await opened(stores, knows_ids=False)
    await created(admin, topic_entry("t"))
    topic, _ = await topic_node(store, "t")
    assert topic.topic_id is None


async def test_each_topic_of_a_request_is_refused_alone(stores):
    _, admin = await opened(stores)
    await created(admin, topic_entry("there"))
    plans = await admin.plan_topics(
        [topic_entry("there"), topic_entry("good"), topic_entry("a/b"), topic_entry("")]
    )
    assert {name: type(plan) for name, plan in plans.items()} == {
        "there": TopicAlreadyExists,
        "good": NewTopic,
        "a/b": InvalidTopic,
        "": InvalidTopic,
    }


async def test_topics_of_one_request_collide_as_others_do(stores):
    _, admin = await opened(stores)
    plans = await admin.plan_topics([topic_entry("a.b"), topic_entry("a_b")])
    assert [type(plan) for plan in plans.values()] == [NewTopic, InvalidTopic]


async def test_who_comes_second_is_told_that_the_topic_exists(stores):
    store, admin = await opened(stores)
    first = await planned(admin, topic_entry("t", config=CONFIG))
    plans = await planned(admin, topic_entry("s"), topic_entry("t"), topic_entry("u"))
    assert await admin.create_topics(first) == {}
    failed = await admin.create_topics(plans)
    assert {name: type(error) for name, error in failed.items()} == {"t": TopicAlreadyExists}
    assert {*await store.children(paths.TOPICS)} == {"s", "t", "u"}
    assert await config_node(store, "t") == CONFIG
    assert (await topic_node(store, "t"))[0].topic_id == first[0].topic.topic_id


async def test_a_configuration_that_was_left_behind_is_overwritten(stores):
    store, admin = await opened(stores)
    left_behind = EntityConfig({"flush.ms": "1"}).encode()
    await store.create(paths.topic_config("t").path, left_behind)
    await created(admin, topic_entry("s"), topic_entry("t", config=CONFIG))
    assert await config_node(store, "t") == CONFIG


async def test_a_configuration_may_go_while_a_topic_is_created(stores):
    store, admin = await opened(stores)
    path = paths.topic_config("t").path
    await store.create(path)
    plans = await planned(admin, topic_entry("t", config=CONFIG))
    store.between_writes = lambda: store.delete(path)
    assert await admin.create_topics(plans) == {}
    assert await config_node(store, "t") == CONFIG


@pytest.mark.parametrize("knows_ids", [True, False])
async def test_a_lost_answer_makes_no_topic_somebody_elses(stores, knows_ids):
    store, admin = await opened(stores, knows_ids=knows_ids)
    plans = await planned(admin, topic_entry("t", config=CONFIG), topic_entry("u"))
    store.loses_answers = True
    assert await admin.create_topics(plans) == {}
    store.loses_answers = False
    for plan in plans:
        assert await topic_node(store, plan.name) == (plan.topic, 0)


async def test_many_topics_are_created_in_few_writes_that_the_store_can_take(stores):
    store, admin = await opened(stores)
    wide = dict.fromkeys(range(300), range(300))
    plans = await planned(
        admin,
        topic_entry("wide", replicas=wide),
        topic_entry("broad", replicas=wide),
        *(topic_entry(f"t{number}") for number in range(50)),
    )
    assert sum(len(plan.node) for plan in plans) > TOGETHER_BYTES_MAX
    assert await admin.create_topics(plans) == {}
    assert len(store.multis) == 2
    assert len(await store.children(paths.TOPICS)) == 52


async def test_a_large_topic_is_created_alone(stores):
    store, admin = await opened(stores)
    wide = dict.fromkeys(range(850), range(300))
    plans = await planned(admin, topic_entry("t"), topic_entry("wide", replicas=wide))
    assert TOGETHER_BYTES_MAX < len(plans[1].node) < NODE_BYTES_MAX
    assert await admin.create_topics(plans) == {}
    assert store.multis == [2, 2]


async def test_nothing_is_written_for_nothing(stores):
    store, admin = await opened(stores)
    assert await admin.plan_topics([]) == {}
    assert await admin.create_topics([]) == {}
    assert await admin.plan_growths([]) == {}
    assert await admin.grow_topics([]) == {}
    assert await admin.request_deletions([]) == {}
    assert store.multis == []


# Growth


async def growths(admin, *entries):
    plans = [*(await admin.plan_growths(entries)).values()]
    assert all(isinstance(plan, Growth) for plan in plans), plans
    return plans


async def test_a_topic_grows(stores):
    store, admin = await opened(stores)
    await created(admin, topic_entry("t", replicas={0: [1, 2]}), topic_entry("u"))
    before, _ = await topic_node(store, "t")
    plans = await growths(
        admin, growth_entry("t", count=3, replicas=[[2, 3], [3, 1]]), growth_entry("u", count=3)
    )
    assert await admin.grow_topics(plans) == {}
    after, version = await topic_node(store, "t")
    assert after.topic_id == before.topic_id
    assert after.partitions == {
        0: Assignment((1, 2)),
        1: Assignment((2, 3)),
        2: Assignment((3, 1)),
    }
    assert version == 1
    assert len((await topic_node(store, "u"))[0].partitions) == 3


async def test_each_growth_is_refused_alone(stores):
    store, admin = await opened(stores)
    await created(admin, topic_entry("t"), topic_entry("doomed"))
    assert await admin.request_deletions(["doomed"]) == {}
    await store.create(paths.topic("damaged"), b"{")
    plans = await admin.plan_growths(
        [growth_entry(name, count=5) for name in ("t", "doomed", "absent", "a/b", "", "damaged")]
    )
    assert {name: type(plan) for name, plan in plans.items()} == {
        "t": Growth,
        "doomed": InvalidTopic,
        "absent": UnknownTopicOrPartition,
        "a/b": UnknownTopicOrPartition,
        "": UnknownTopicOrPartition,
        "damaged": KafkaError,
    }


async def test_a_growth_that_was_overtaken_is_planned_again(stores):
    store, admin = await opened(stores)
    await created(admin, topic_entry("t", replicas={0: [1]}))
    plans = await growths(admin, growth_entry("t", count=4))
    other = await growths(admin, growth_entry("t", count=2, replicas=[[3]]))
    assert await admin.grow_topics(other) == {}
    assert await admin.grow_topics(plans) == {}
    topic, version = await topic_node(store, "t")
    assert topic.partitions[1] == Assignment((3,))
    assert len(topic.partitions) == 4
    assert version == 2


async def test_a_growth_that_was_outdone_fails(stores):
    _, admin = await opened(stores)
    await created(admin, topic_entry("t", replicas={0: [1]}))
    plans = await growths(admin, growth_entry("t", count=2))
    assert await admin.grow_topics(await growths(admin, growth_entry("t", count=3))) == {}
    failed = await admin.grow_topics(plans)
    assert isinstance(failed["t"], InvalidPartitions)


async def test_a_reassignment_that_began_meanwhile_is_not_overwritten(stores):
    store, admin = await opened(stores)
    await created(admin, topic_entry("t", replicas={0: [1]}))
    plans = await growths(admin, growth_entry("t", count=2))
    topic, _ = await topic_node(store, "t")
    moving = TopicAssignment({0: Assignment((1,)).reassigned_to((2,))}, topic.topic_id)
    await store.set(paths.topic("t"), moving.encode())
    failed = await admin.grow_topics(plans)
    assert isinstance(failed["t"], ReassignmentInProgress)
    assert (await topic_node(store, "t"))[0] == moving


async def test_a_topic_may_be_gone_before_it_grows(stores):
    store, admin = await opened(stores)
    await created(admin, topic_entry("t"))
    plans = await growths(admin, growth_entry("t", count=5))
    await store.delete(paths.topic("t"))
    failed = await admin.grow_topics(plans)
    assert isinstance(failed["t"], UnknownTopicOrPartition)


async def test_a_lost_answer_does_not_fail_a_growth(stores):
    store, admin = await opened(stores)
    await created(admin, topic_entry("t"))
    plans = await growths(admin, growth_entry("t", count=5))
    store.loses_answers = True
    assert await admin.grow_topics(plans) == {}
    assert (await topic_node(store, "t"))[1] == 1


# Deletion


async def test_a_deletion_is_asked_of_the_controller(stores):
    store, admin = await opened(stores)
    await created(admin, topic_entry("t"), topic_entry("u"))
    failed = await admin.request_deletions(["t", "absent", "a/b", "", "t"])
    assert {name: type(error) for name, error in failed.items()} == dict.fromkeys(
        ["absent", "a/b", ""], UnknownTopicOrPartition
    )
    assert await store.children(paths.DELETE_TOPICS) == ["t"]
    assert {*await store.children(paths.TOPICS)} == {"t", "u"}


async def test_asking_twice_for_a_deletion_is_no_mistake(stores):
    _, admin = await opened(stores)
    await created(admin, topic_entry("t"))
    assert await admin.request_deletions(["t"]) == {}
    assert await admin.request_deletions(["t"]) == {}


async def test_a_name_is_free_only_when_its_topic_is_gone(stores):
    store, admin = await opened(stores)
    await created(admin, topic_entry("t"))
    await admin.request_deletions(["t"])
    plans = await admin.plan_topics([topic_entry("t")])
    assert isinstance(plans["t"], TopicAlreadyExists)
    await store.delete(paths.topic("t"))
    plans = await admin.plan_topics([topic_entry("t")])
    assert isinstance(plans["t"], TopicAlreadyExists)
    await store.delete(paths.topic_to_delete("t"))
    await planned(admin, topic_entry("t"))


async def test_a_failure_of_the_store_is_no_refusal(stores):
    store, admin = await opened(stores)
    plans = await planned(admin, topic_entry("t"))

    async def refuse(_):
        raise MultiFailed(1, NotPermitted(paths.topic("t")))

    store.multi = refuse
    with pytest.raises(NotPermitted):
        await admin.create_topics(plans)
