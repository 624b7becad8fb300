"""Tests of broker/handlers/delete_topics.py."""

import asyncio

import pytest

from odradek.broker.handlers import delete_topics
from odradek.broker.request import DelayedOperation
from odradek.protocol.api.delete_topics import DeleteTopicsRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import (
    InvalidRequest,
    NotController,
    TopicDeletionDisabled,
    UnknownTopicOrPartition,
)
from odradek.protocol.types import ZERO_UUID
from tests.support.calls import answer, as_sent, called, in_the_end, versions_of
from tests.support.fake_cluster import Office
from tests.support.metadata_updates import GOING, cluster, state, topic_id, update
from tests.support.planned_topics import FakeTopics

VERSIONS = versions_of(DeleteTopicsRequest)
TopicEntry = DeleteTopicsRequest.Topic


class ImmediatelyDeletedTopics(FakeTopics):
    """Requested deletions disappear from the metadata at once."""

    def __init__(self, metadata_cache, **options):
        super().__init__(**options)
        self._metadata_cache = metadata_cache

    async def request_deletions(self, names):
        self._metadata_cache.update(update({name: [state(leader=GOING)] for name in names}))
        return await super().request_deletions(names)


def two_topics_cluster():
    return cluster(update({"t": [state()], "u": [state()]}))


def by_name(*names, version=6, timeout_ms=1000):
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms)
    topics = [TopicEntry(name=each, topic_id=ZERO_UUID) for each in names]
    return DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms)


def by_id(*ids):
    topics = [TopicEntry(name=None, topic_id=each) for each in ids]
    return DeleteTopicsRequest(topics=topics, timeout_ms=1000)


def delete(request, *, topics=None, metadata_cache=None, version=6):
    metadata_cache = metadata_cache or two_topics_cluster()
    topics = topics or ImmediatelyDeletedTopics(metadata_cache)
    return answer(
        delete_topics.handle, Office(), topics, metadata_cache, True, request, version=version
    ).responses


def errors(results):
    return [(each.name, ErrorCode.for_code(each.error_code).name) for each in results]


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_are_deleted_in_every_version(version):
    metadata_cache = two_topics_cluster()
    topics = ImmediatelyDeletedTopics(metadata_cache)
    request = by_name("t", "x", "u", version=version)
    results = delete(request, topics=topics, metadata_cache=metadata_cache, version=version)
    assert errors(results) == [
        ("t", "NONE"),
        ("x", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("u", "NONE"),
    ]
    assert {each.error_message for each in results} == {None}
    assert topics.deleted == ["t", "u"]


def test_topics_are_deleted_by_id():
    metadata_cache = two_topics_cluster()
    topics = ImmediatelyDeletedTopics(metadata_cache)
    results = delete(
        by_id(topic_id("u"), topic_id("x")), topics=topics, metadata_cache=metadata_cache
    )
    assert errors(results) == [("u", "NONE"), (None, "UNKNOWN_TOPIC_ID")]
    assert [each.topic_id for each in results] == [topic_id("u"), topic_id("x")]
    assert topics.deleted == ["u"]


def test_topic_with_both_name_and_id_is_rejected():
    both = TopicEntry(name="t", topic_id=topic_id("t"))
    with pytest.raises(InvalidRequest):
        delete(DeleteTopicsRequest(topics=[both], timeout_ms=1))


def test_topic_without_name_and_id_fails_authorization():
    results = delete(by_id(ZERO_UUID))
    assert errors(results) == [(None, "TOPIC_AUTHORIZATION_FAILED")]


def test_duplicate_topic_is_deleted_once():
    metadata_cache = two_topics_cluster()
    topics = ImmediatelyDeletedTopics(metadata_cache)
    results = delete(by_name("t", "t"), topics=topics, metadata_cache=metadata_cache)
    assert errors(results) == [("t", "NONE"), ("t", "NONE")]
    assert topics.deleted == ["t"]


def test_topic_already_gone_from_the_store_is_unknown():
    topics = FakeTopics(failed={"t": UnknownTopicOrPartition()})
    assert errors(delete(by_name("t"), topics=topics)) == [("t", "UNKNOWN_TOPIC_OR_PARTITION")]


def test_unknown_topics_are_answered_immediately():
    topics = FakeTopics()
    assert errors(delete(by_name("x"), topics=topics)) == [("x", "UNKNOWN_TOPIC_OR_PARTITION")]
    assert delete(by_name(), topics=topics) == []
    assert topics.deleted == []


# Timeouts


async def test_response_waits_until_the_topic_is_gone():
    metadata_cache = two_topics_cluster()
    request = called(by_name("t"))
    topics = FakeTopics()
    waiting = await delete_topics.handle(Office(), topics, metadata_cache, True, request)
    assert isinstance(waiting, DelayedOperation)
    assert topics.deleted == ["t"]
    task = asyncio.get_running_loop().create_task(in_the_end(waiting))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    metadata_cache.update(update({"t": [state(leader=GOING)]}))
    assert errors((await task).responses) == [("t", "NONE")]


def test_topic_not_deleted_in_time_times_out():
    topics = FakeTopics()
    results = delete(by_name("t", timeout_ms=1), topics=topics)
    assert errors(results) == [("t", "REQUEST_TIMED_OUT")]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_timeout_topics_are_deleted_but_time_out(timeout_ms):
    metadata_cache = two_topics_cluster()
    topics = ImmediatelyDeletedTopics(metadata_cache)
    results = delete(
        by_name("t", timeout_ms=timeout_ms), topics=topics, metadata_cache=metadata_cache
    )
    assert errors(results) == [("t", "REQUEST_TIMED_OUT")]
    assert topics.deleted == ["t"]


# Errors of the whole request


def test_only_the_active_controller_deletes_topics():
    with pytest.raises(NotController):
        delete_topics.handle(
            Office(is_active=False), FakeTopics(), two_topics_cluster(), True, called(by_name("t"))
        )


@pytest.mark.parametrize("version", VERSIONS)
def test_request_is_rejected_if_topic_deletion_is_disabled(version):
    request = called(by_name("t", version=version), version=version)
    with pytest.raises(TopicDeletionDisabled if version >= 3 else InvalidRequest):
        delete_topics.handle(Office(), FakeTopics(), two_topics_cluster(), False, request)


@pytest.mark.parametrize("version", VERSIONS)
def test_request_error_is_returned_for_every_topic(version):
    request = called(by_name("t", "u", version=version), version=version)
    response = as_sent(delete_topics.error_response(request, NotController()), version=version)
    assert errors(response.responses) == [("t", "NOT_CONTROLLER"), ("u", "NOT_CONTROLLER")]


def test_request_error_names_topics_by_id_if_requested_by_id():
    request = called(by_id(topic_id("t")))
    (only,) = as_sent(delete_topics.error_response(request, NotController()), version=6).responses
    assert (only.name, only.topic_id) == (None, topic_id("t"))
