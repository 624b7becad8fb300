"""Tests of broker/handlers/create_topics.py."""

import pytest

from odradek.broker.handlers import create_topics
from odradek.protocol.api.create_topics import CreateTopicsRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidTopic, NotController, TopicAlreadyExists
from odradek.protocol.types import ZERO_UUID
from tests.support.calls import answer, as_sent, called, versions_of
from tests.support.fake_cluster import FakeCluster, Office
from tests.support.metadata_updates import topic_id
from tests.support.planned_topics import FakeTopics
from tests.support.topic_entries import topic_entry

VERSIONS = versions_of(CreateTopicsRequest)


def asked(*entries, timeout_ms=1000, **options):
    return CreateTopicsRequest(topics=list(entries), timeout_ms=timeout_ms, **options)


def created(request, *, topics=None, cluster=None, version=7):
    topics, cluster = topics or FakeTopics(), cluster or FakeCluster()
    return answer(create_topics.handle, Office(), topics, cluster, request, version=version).topics


def errors(answers):
    return [(each.name, ErrorCode.of(each.error_code).name) for each in answers]


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_are_created_in_every_version(version):
    topics, cluster = FakeTopics(), FakeCluster()
    answers = created(
        asked(topic_entry("t", partitions=2, factor=1), topic_entry("u", partitions=1, factor=1)),
        topics=topics,
        cluster=cluster,
        version=version,
    )
    assert errors(answers) == [("t", "NONE"), ("u", "NONE")]
    assert topics.created == ["t", "u"]
    assert cluster.awaited_leaders == {"t": [0, 1], "u": [0]}
    assert cluster.timeout_s == 1


def test_a_new_topic_is_described():
    (topic,) = created(asked(topic_entry("t", config={"retention.ms": "7"})))
    assert topic.error_message is None
    assert topic.topic_id == topic_id("t")
    assert (topic.num_partitions, topic.replication_factor) == (2, 3)
    assert topic.topic_config_error_code == 0
    configs = {each.name: each for each in topic.configs}
    retention, cleanup = configs["retention.ms"], configs["cleanup.policy"]
    assert (retention.value, retention.config_source) == ("7", 1)
    assert (cleanup.value, cleanup.config_source) == ("delete", 5)
    assert not any(each.read_only or each.is_sensitive for each in topic.configs)


def test_each_topic_is_refused_alone():
    topics = FakeTopics(refused={"u": TopicAlreadyExists("It is there.")})
    answers = created(asked(topic_entry("t"), topic_entry("u")), topics=topics)
    assert errors(answers) == [("t", "NONE"), ("u", "TOPIC_ALREADY_EXISTS")]
    assert answers[1].error_message == "It is there."
    assert (answers[1].num_partitions, answers[1].replication_factor) == (-1, -1)
    assert (answers[1].configs, answers[1].topic_id) == ([], ZERO_UUID)
    assert topics.created == ["t"]


def test_a_topic_that_another_has_just_created_is_not_waited_for():
    topics, cluster = FakeTopics(failed={"u": TopicAlreadyExists()}), FakeCluster()
    request = asked(topic_entry("t"), topic_entry("u"))
    answers = created(request, topics=topics, cluster=cluster)
    assert errors(answers) == [("t", "NONE"), ("u", "TOPIC_ALREADY_EXISTS")]
    assert answers[1].topic_id == ZERO_UUID
    assert cluster.awaited_leaders.keys() == {"t"}


def test_topics_of_one_name_are_all_refused():
    answers = created(asked(topic_entry("t"), topic_entry("u"), topic_entry("t")))
    assert errors(answers) == [
        ("t", "INVALID_REQUEST"),
        ("u", "NONE"),
        ("t", "INVALID_REQUEST"),
    ]


def test_nothing_is_asked_for_and_nothing_is_answered():
    assert created(asked()) == []


# Only to validate


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_what_is_only_validated_is_not_created(version):
    topics, cluster = FakeTopics(refused={"u": InvalidTopic("No.")}), FakeCluster()
    request = asked(topic_entry("t"), topic_entry("u"), validate_only=True, timeout_ms=0)
    answers = created(request, topics=topics, cluster=cluster, version=version)
    assert errors(answers) == [("t", "NONE"), ("u", "INVALID_TOPIC_EXCEPTION")]
    assert answers[0].num_partitions == (2 if version >= 5 else -1)
    assert answers[0].topic_id == ZERO_UUID
    assert topics.created == []
    assert cluster.awaited_leaders is None


# Time


def test_a_topic_without_leaders_is_late():
    cluster = FakeCluster(late={"t"})
    answers = created(asked(topic_entry("t"), topic_entry("u")), cluster=cluster)
    assert errors(answers) == [("t", "REQUEST_TIMED_OUT"), ("u", "NONE")]
    assert answers[0].error_message is None
    assert (answers[0].num_partitions, answers[0].configs) == (-1, [])
    assert answers[0].topic_id == topic_id("t")


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_all_are_late_but_created(timeout_ms):
    topics, cluster = FakeTopics(), FakeCluster()
    request = asked(topic_entry("t"), timeout_ms=timeout_ms)
    answers = created(request, topics=topics, cluster=cluster)
    assert errors(answers) == [("t", "REQUEST_TIMED_OUT")]
    assert topics.created == ["t"]
    assert cluster.awaited_leaders is None


# Refusal of the whole


def test_only_the_controllers_broker_creates_topics():
    call = called(asked(topic_entry("t")))
    with pytest.raises(NotController):
        create_topics.handle(Office(is_active=False), FakeTopics(), FakeCluster(), call)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_are_refused_together(version):
    call = called(asked(topic_entry("t"), topic_entry("u")), version=version)
    answered = as_sent(create_topics.refused(call, NotController()), version=version)
    assert errors(answered.topics) == [("t", "NOT_CONTROLLER"), ("u", "NOT_CONTROLLER")]
