"""Automatic creation of topics."""

import asyncio

import pytest

from odradek.broker.metadata import auto_topic_creation_manager
from odradek.broker.metadata.auto_topic_creation_manager import AutoTopicCreationManager
from odradek.broker.task_registry import TaskRegistry
from odradek.controller.store.base import SessionExpired
from odradek.controller.topic_planning import BROKER_DEFAULT
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidReplicationFactor, TopicAlreadyExists, code_of
from tests.support.loops import at_end
from tests.support.planned_topics import FakeTopics
from tests.support.topic_entries import topic_entry


def new_manager(topics, *, is_enabled=True, internal=()):
    internal_topics = {topic.name: topic for topic in internal}
    background = TaskRegistry()
    at_end(background.stop)
    return AutoTopicCreationManager(
        topics,
        is_enabled=lambda: is_enabled,
        internal_topic=internal_topics.get,
        start_task=background.start,
    )


async def create(manager, *names):
    errors = await manager.create(names)
    return {name: ErrorCode.for_code(code_of(error)).name for name, error in errors.items()}


async def test_topic_is_created_with_the_defaults():
    topics = FakeTopics()
    assert await create(new_manager(topics), "t") == {"t": "LEADER_NOT_AVAILABLE"}
    (entry,) = topics.planned
    assert (entry.name, entry.num_partitions, entry.replication_factor) == (
        "t",
        BROKER_DEFAULT,
        BROKER_DEFAULT,
    )
    assert topics.created == ["t"]


async def test_internal_topic_is_created_with_its_own_settings():
    topics = FakeTopics()
    internal_topic = topic_entry(
        "__consumer_offsets", partitions=50, config={"cleanup.policy": "compact"}
    )
    await create(new_manager(topics, internal=[internal_topic]), "__consumer_offsets", "t")
    assert topics.planned[0] is internal_topic
    assert topics.created == ["__consumer_offsets", "t"]


async def test_invalid_name_is_rejected():
    topics = FakeTopics()
    assert await create(new_manager(topics), "a b") == {"a b": "INVALID_TOPIC_EXCEPTION"}
    assert topics.planned == []


async def test_existing_topic_has_no_leader_yet():
    topics = FakeTopics(refused={"t": TopicAlreadyExists()})
    assert await create(new_manager(topics), "t") == {"t": "LEADER_NOT_AVAILABLE"}


async def test_topic_created_by_another_broker_meanwhile_has_no_leader_yet():
    topics = FakeTopics(failed={"t": TopicAlreadyExists()})
    assert await create(new_manager(topics), "t") == {"t": "LEADER_NOT_AVAILABLE"}


async def test_error_of_the_controller_is_returned():
    topics = FakeTopics(refused={"t": InvalidReplicationFactor()})
    errors = await create(new_manager(topics), "t", "u")
    assert errors == {"t": "INVALID_REPLICATION_FACTOR", "u": "LEADER_NOT_AVAILABLE"}
    assert topics.created == ["u"]


async def test_topic_in_creation_is_not_created_again():
    topics = FakeTopics()
    topics.gate = asyncio.Event()
    manager = new_manager(topics)
    first = asyncio.get_running_loop().create_task(create(manager, "t"))
    await asyncio.sleep(0)
    assert await create(manager, "t") == {"t": "UNKNOWN_TOPIC_OR_PARTITION"}
    topics.gate.set()
    assert await first == {"t": "LEADER_NOT_AVAILABLE"}
    assert topics.created == ["t"]


@pytest.mark.parametrize("outcome", ["done", "failed", "cancelled"])
async def test_topic_can_be_created_again_later(outcome):
    topics = FakeTopics()
    topics.gate = asyncio.Event()
    manager = new_manager(topics)
    first = asyncio.get_running_loop().create_task(create(manager, "t"))
    await asyncio.sleep(0)
    if outcome == "cancelled":
        first.cancel()
    topics.breaks = outcome == "failed"
    topics.gate.set()
    await asyncio.wait([first])
    assert first.cancelled() or (first.exception() is not None) == (outcome == "failed")
    topics.breaks = False
    assert await create(manager, "t") == {"t": "LEADER_NOT_AVAILABLE"}


async def test_request_returns_after_the_timeout_while_the_store_is_unreachable(monkeypatch):
    monkeypatch.setattr(auto_topic_creation_manager, "CREATION_TIMEOUT_S", 0.01)
    topics = FakeTopics()
    topics.gate = asyncio.Event()
    manager = new_manager(topics)
    assert await create(manager, "t") == {"t": "LEADER_NOT_AVAILABLE"}
    assert await create(manager, "t") == {"t": "UNKNOWN_TOPIC_OR_PARTITION"}
    topics.gate.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert topics.created == ["t"]


async def test_number_of_topics_in_creation_is_limited(monkeypatch):
    monkeypatch.setattr(auto_topic_creation_manager, "CREATION_TIMEOUT_S", 0.01)
    monkeypatch.setattr(auto_topic_creation_manager, "INFLIGHT_TOPICS_MAX", 2)
    topics = FakeTopics()
    topics.gate = asyncio.Event()
    manager = new_manager(topics)
    assert set((await create(manager, "a", "b", "c")).values()) == {"LEADER_NOT_AVAILABLE"}
    assert await create(manager, "d") == {"d": "UNKNOWN_TOPIC_OR_PARTITION"}
    topics.gate.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert await create(manager, "d") == {"d": "LEADER_NOT_AVAILABLE"}


async def test_expired_session_is_logged_and_clients_may_retry(monkeypatch, caplog):
    topics, plan = FakeTopics(), FakeTopics.plan_topics

    async def expire(*_):
        raise SessionExpired

    manager = new_manager(topics)
    monkeypatch.setattr(FakeTopics, "plan_topics", expire)
    assert await create(manager, "t") == {"t": "LEADER_NOT_AVAILABLE"}
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    monkeypatch.setattr(FakeTopics, "plan_topics", plan)
    assert await create(manager, "t") == {"t": "LEADER_NOT_AVAILABLE"}
    assert topics.created == ["t"]


async def test_clients_create_topics_only_if_it_is_enabled():
    assert new_manager(FakeTopics()).is_enabled_for_clients
    assert not new_manager(FakeTopics(), is_enabled=False).is_enabled_for_clients
