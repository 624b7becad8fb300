"""Tests of broker/metadata/topic_creator.py."""

import asyncio

import pytest

from odradek.broker.background import Background
from odradek.broker.metadata import topic_creator
from odradek.broker.metadata.topic_creator import TopicCreator
from odradek.controller.store.base import SessionExpired
from odradek.controller.topic_requests import BY_DEFAULT
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidReplicationFactor, TopicAlreadyExists, code_of
from tests.support.loops import at_end
from tests.support.planned_topics import FakeTopics
from tests.support.topic_entries import topic_entry


def creator(topics, *, is_enabled=True, internal=()):
    own = {each.name: each for each in internal}
    background = Background()
    at_end(background.stop)
    return TopicCreator(
        topics, is_enabled=lambda: is_enabled, internal=own.get, start=background.start
    )


async def told(creating, *names):
    answer = await creating.create(names)
    return {name: ErrorCode.of(code_of(failure)).name for name, failure in answer.items()}


async def test_a_topic_is_created_by_the_defaults():
    topics = FakeTopics()
    assert await told(creator(topics), "t") == {"t": "LEADER_NOT_AVAILABLE"}
    (entry,) = topics.planned
    assert (entry.name, entry.num_partitions, entry.replication_factor) == (
        "t",
        BY_DEFAULT,
        BY_DEFAULT,
    )
    assert topics.created == ["t"]


async def test_the_brokers_own_topics_are_as_it_wants_them():
    topics = FakeTopics()
    own = topic_entry("__consumer_offsets", partitions=50, config={"cleanup.policy": "compact"})
    await told(creator(topics, internal=[own]), "__consumer_offsets", "t")
    assert topics.planned[0] is own
    assert topics.created == ["__consumer_offsets", "t"]


async def test_what_cannot_be_a_name_is_not_created():
    topics = FakeTopics()
    assert await told(creator(topics), "a b") == {"a b": "INVALID_TOPIC_EXCEPTION"}
    assert topics.planned == []


async def test_a_topic_that_is_there_already_has_no_leader_yet():
    topics = FakeTopics(refused={"t": TopicAlreadyExists()})
    assert await told(creator(topics), "t") == {"t": "LEADER_NOT_AVAILABLE"}


async def test_a_topic_that_another_has_just_created_has_no_leader_yet():
    topics = FakeTopics(failed={"t": TopicAlreadyExists()})
    assert await told(creator(topics), "t") == {"t": "LEADER_NOT_AVAILABLE"}


async def test_what_is_refused_is_told():
    topics = FakeTopics(refused={"t": InvalidReplicationFactor()})
    answer = await told(creator(topics), "t", "u")
    assert answer == {"t": "INVALID_REPLICATION_FACTOR", "u": "LEADER_NOT_AVAILABLE"}
    assert topics.created == ["u"]


async def test_nobody_creates_what_is_being_created():
    topics = FakeTopics()
    topics.gate = asyncio.Event()
    creating = creator(topics)
    first = asyncio.get_running_loop().create_task(told(creating, "t"))
    await asyncio.sleep(0)
    assert await told(creating, "t") == {"t": "UNKNOWN_TOPIC_OR_PARTITION"}
    topics.gate.set()
    assert await first == {"t": "LEADER_NOT_AVAILABLE"}
    assert topics.created == ["t"]


@pytest.mark.parametrize("how", ["done", "failed", "cancelled"])
async def test_it_can_be_created_again_later(how):
    topics = FakeTopics()
    topics.gate = asyncio.Event()
    creating = creator(topics)
    first = asyncio.get_running_loop().create_task(told(creating, "t"))
    await asyncio.sleep(0)
    if how == "cancelled":
        first.cancel()
    topics.breaks = how == "failed"
    topics.gate.set()
    await asyncio.wait([first])
    assert first.cancelled() or (first.exception() is not None) == (how == "failed")
    topics.breaks = False
    assert await told(creating, "t") == {"t": "LEADER_NOT_AVAILABLE"}


async def test_nobody_waits_for_long_while_the_store_is_out_of_reach(monkeypatch):
    monkeypatch.setattr(topic_creator, "CREATION_S", 0.01)
    topics = FakeTopics()
    topics.gate = asyncio.Event()
    creating = creator(topics)
    assert await told(creating, "t") == {"t": "LEADER_NOT_AVAILABLE"}
    assert await told(creating, "t") == {"t": "UNKNOWN_TOPIC_OR_PARTITION"}
    topics.gate.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert topics.created == ["t"]


async def test_only_so_many_are_in_creation_at_a_time(monkeypatch):
    monkeypatch.setattr(topic_creator, "CREATION_S", 0.01)
    monkeypatch.setattr(topic_creator, "IN_CREATION_MAX", 2)
    topics = FakeTopics()
    topics.gate = asyncio.Event()
    creating = creator(topics)
    assert set((await told(creating, "a", "b", "c")).values()) == {"LEADER_NOT_AVAILABLE"}
    assert await told(creating, "d") == {"d": "UNKNOWN_TOPIC_OR_PARTITION"}
    topics.gate.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert await told(creating, "d") == {"d": "LEADER_NOT_AVAILABLE"}


async def test_if_the_session_ends_meanwhile_clients_ask_again(monkeypatch, caplog):
    topics, plan = FakeTopics(), FakeTopics.plan_topics

    async def expire(*_):
        raise SessionExpired

    creating = creator(topics)
    monkeypatch.setattr(FakeTopics, "plan_topics", expire)
    assert await told(creating, "t") == {"t": "LEADER_NOT_AVAILABLE"}
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    monkeypatch.setattr(FakeTopics, "plan_topics", plan)
    assert await told(creating, "t") == {"t": "LEADER_NOT_AVAILABLE"}
    assert topics.created == ["t"]


async def test_clients_create_only_where_they_may():
    assert creator(FakeTopics()).serves_clients
    assert not creator(FakeTopics(), is_enabled=False).serves_clients
