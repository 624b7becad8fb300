"""Tests of broker/handlers/delete_topics.py."""

import asyncio

import pytest

from odradek.broker.call import Parked
from odradek.broker.handlers import delete_topics
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
Asked = DeleteTopicsRequest.Topic


class ObedientTopics(FakeTopics):
    """What shall go is gone from the picture at once."""

    def __init__(self, known, **options):
        super().__init__(**options)
        self._known = known

    async def request_deletions(self, names):
        self._known.update(update({name: [state(leader=GOING)] for name in names}))
        return await super().request_deletions(names)


def known_cluster():
    return cluster(update({"t": [state()], "u": [state()]}))


def by_name(*names, version=6, timeout_ms=1000):
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms)
    topics = [Asked(name=each, topic_id=ZERO_UUID) for each in names]
    return DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms)


def by_id(*ids):
    topics = [Asked(name=None, topic_id=each) for each in ids]
    return DeleteTopicsRequest(topics=topics, timeout_ms=1000)


def deleted(request, *, topics=None, known=None, version=6):
    known = known or known_cluster()
    topics = topics or ObedientTopics(known)
    return answer(
        delete_topics.handle, Office(), topics, known, True, request, version=version
    ).responses


def errors(answers):
    return [(each.name, ErrorCode.of(each.error_code).name) for each in answers]


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_are_deleted_in_every_version(version):
    known = known_cluster()
    topics = ObedientTopics(known)
    request = by_name("t", "x", "u", version=version)
    answers = deleted(request, topics=topics, known=known, version=version)
    assert errors(answers) == [
        ("t", "NONE"),
        ("x", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("u", "NONE"),
    ]
    assert {each.error_message for each in answers} == {None}
    assert topics.deleted == ["t", "u"]


def test_topics_are_deleted_by_id():
    known = known_cluster()
    topics = ObedientTopics(known)
    answers = deleted(by_id(topic_id("u"), topic_id("x")), topics=topics, known=known)
    assert errors(answers) == [("u", "NONE"), (None, "UNKNOWN_TOPIC_ID")]
    assert [each.topic_id for each in answers] == [topic_id("u"), topic_id("x")]
    assert topics.deleted == ["u"]


def test_a_topic_is_given_by_its_name_or_its_id():
    both = Asked(name="t", topic_id=topic_id("t"))
    with pytest.raises(InvalidRequest):
        deleted(DeleteTopicsRequest(topics=[both], timeout_ms=1))


def test_a_topic_without_a_name_and_an_id_is_nobodys():
    answers = deleted(by_id(ZERO_UUID))
    assert errors(answers) == [(None, "TOPIC_AUTHORIZATION_FAILED")]


def test_a_topic_that_is_named_twice_is_deleted_once():
    known = known_cluster()
    topics = ObedientTopics(known)
    answers = deleted(by_name("t", "t"), topics=topics, known=known)
    assert errors(answers) == [("t", "NONE"), ("t", "NONE")]
    assert topics.deleted == ["t"]


def test_a_topic_may_be_gone_from_the_tree_already():
    topics = FakeTopics(failed={"t": UnknownTopicOrPartition()})
    assert errors(deleted(by_name("t"), topics=topics)) == [("t", "UNKNOWN_TOPIC_OR_PARTITION")]


def test_what_is_not_there_is_answered_at_once():
    topics = FakeTopics()
    assert errors(deleted(by_name("x"), topics=topics)) == [("x", "UNKNOWN_TOPIC_OR_PARTITION")]
    assert deleted(by_name(), topics=topics) == []
    assert topics.deleted == []


# Time


async def test_it_is_answered_when_the_topic_is_gone():
    known = known_cluster()
    call = called(by_name("t"))
    topics = FakeTopics()
    waiting = await delete_topics.handle(Office(), topics, known, True, call)
    assert isinstance(waiting, Parked)
    assert topics.deleted == ["t"]
    task = asyncio.get_running_loop().create_task(in_the_end(waiting))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    known.update(update({"t": [state(leader=GOING)]}))
    assert errors((await task).responses) == [("t", "NONE")]


def test_a_topic_that_stays_is_late():
    topics = FakeTopics()
    answers = deleted(by_name("t", timeout_ms=1), topics=topics)
    assert errors(answers) == [("t", "REQUEST_TIMED_OUT")]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_all_are_late_but_on_their_way(timeout_ms):
    known = known_cluster()
    topics = ObedientTopics(known)
    answers = deleted(by_name("t", timeout_ms=timeout_ms), topics=topics, known=known)
    assert errors(answers) == [("t", "REQUEST_TIMED_OUT")]
    assert topics.deleted == ["t"]


# Refusal of the whole


def test_only_the_controllers_broker_deletes_topics():
    with pytest.raises(NotController):
        delete_topics.handle(
            Office(is_active=False), FakeTopics(), known_cluster(), True, called(by_name("t"))
        )


@pytest.mark.parametrize("version", VERSIONS)
def test_deletion_may_be_disabled(version):
    call = called(by_name("t", version=version), version=version)
    with pytest.raises(TopicDeletionDisabled if version >= 3 else InvalidRequest):
        delete_topics.handle(Office(), FakeTopics(), known_cluster(), False, call)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_are_refused_together(version):
    call = called(by_name("t", "u", version=version), version=version)
    answered = as_sent(delete_topics.refused(call, NotController()), version=version)
    assert errors(answered.responses) == [("t", "NOT_CONTROLLER"), ("u", "NOT_CONTROLLER")]


def test_what_is_given_by_id_is_refused_by_id():
    call = called(by_id(topic_id("t")))
    (only,) = as_sent(delete_topics.refused(call, NotController()), version=6).responses
    assert (only.name, only.topic_id) == (None, topic_id("t"))
