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


def build_request(*entries, timeout_ms=1000, **options):
    return CreateTopicsRequest(topics=list(entries), timeout_ms=timeout_ms, **options)


def create(request, *, topics=None, cluster=None, version=7):
    topics, cluster = topics or FakeTopics(), cluster or FakeCluster()
    return answer(create_topics.handle, Office(), topics, cluster, request, version=version).topics


def errors(results):
    return [(each.name, ErrorCode.for_code(each.error_code).name) for each in results]


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_are_created_in_every_version(version):
    topics, cluster = FakeTopics(), FakeCluster()
    results = create(
        build_request(
            topic_entry("t", partitions=2, factor=1), topic_entry("u", partitions=1, factor=1)
        ),
        topics=topics,
        cluster=cluster,
        version=version,
    )
    assert errors(results) == [("t", "NONE"), ("u", "NONE")]
    assert topics.created == ["t", "u"]
    assert cluster.awaited_leaders == {"t": [0, 1], "u": [0]}
    assert cluster.timeout_s == 1


def test_response_describes_the_new_topic():
    (topic,) = create(build_request(topic_entry("t", config={"retention.ms": "7"})))
    assert topic.error_message is None
    assert topic.topic_id == topic_id("t")
    assert (topic.num_partitions, topic.replication_factor) == (2, 3)
    assert topic.topic_config_error_code == 0
    configs = {each.name: each for each in topic.configs}
    retention, cleanup = configs["retention.ms"], configs["cleanup.policy"]
    assert (retention.value, retention.config_source) == ("7", 1)
    assert (cleanup.value, cleanup.config_source) == ("delete", 5)
    assert not any(each.read_only or each.is_sensitive for each in topic.configs)


def test_each_topic_is_rejected_independently():
    topics = FakeTopics(refused={"u": TopicAlreadyExists("It is there.")})
    results = create(build_request(topic_entry("t"), topic_entry("u")), topics=topics)
    assert errors(results) == [("t", "NONE"), ("u", "TOPIC_ALREADY_EXISTS")]
    assert results[1].error_message == "It is there."
    assert (results[1].num_partitions, results[1].replication_factor) == (-1, -1)
    assert (results[1].configs, results[1].topic_id) == ([], ZERO_UUID)
    assert topics.created == ["t"]


def test_topic_created_concurrently_is_not_waited_for():
    topics, cluster = FakeTopics(failed={"u": TopicAlreadyExists()}), FakeCluster()
    request = build_request(topic_entry("t"), topic_entry("u"))
    results = create(request, topics=topics, cluster=cluster)
    assert errors(results) == [("t", "NONE"), ("u", "TOPIC_ALREADY_EXISTS")]
    assert results[1].topic_id == ZERO_UUID
    assert cluster.awaited_leaders.keys() == {"t"}


def test_duplicate_topics_are_all_rejected():
    results = create(build_request(topic_entry("t"), topic_entry("u"), topic_entry("t")))
    assert errors(results) == [
        ("t", "INVALID_REQUEST"),
        ("u", "NONE"),
        ("t", "INVALID_REQUEST"),
    ]


def test_empty_request_gets_an_empty_response():
    assert create(build_request()) == []


# Validate only


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_validate_only_creates_no_topics(version):
    topics, cluster = FakeTopics(refused={"u": InvalidTopic("No.")}), FakeCluster()
    request = build_request(topic_entry("t"), topic_entry("u"), validate_only=True, timeout_ms=0)
    results = create(request, topics=topics, cluster=cluster, version=version)
    assert errors(results) == [("t", "NONE"), ("u", "INVALID_TOPIC_EXCEPTION")]
    assert results[0].num_partitions == (2 if version >= 5 else -1)
    assert results[0].topic_id == ZERO_UUID
    assert topics.created == []
    assert cluster.awaited_leaders is None


# Timeouts


def test_topic_without_leaders_in_time_times_out():
    cluster = FakeCluster(late={"t"})
    results = create(build_request(topic_entry("t"), topic_entry("u")), cluster=cluster)
    assert errors(results) == [("t", "REQUEST_TIMED_OUT"), ("u", "NONE")]
    assert results[0].error_message is None
    assert (results[0].num_partitions, results[0].configs) == (-1, [])
    assert results[0].topic_id == topic_id("t")


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_timeout_topics_are_created_but_time_out(timeout_ms):
    topics, cluster = FakeTopics(), FakeCluster()
    request = build_request(topic_entry("t"), timeout_ms=timeout_ms)
    results = create(request, topics=topics, cluster=cluster)
    assert errors(results) == [("t", "REQUEST_TIMED_OUT")]
    assert topics.created == ["t"]
    assert cluster.awaited_leaders is None


# Errors of the whole request


def test_only_the_active_controller_creates_topics():
    request = called(build_request(topic_entry("t")))
    with pytest.raises(NotController):
        create_topics.handle(Office(is_active=False), FakeTopics(), FakeCluster(), request)


@pytest.mark.parametrize("version", VERSIONS)
def test_request_error_is_returned_for_every_topic(version):
    request = called(build_request(topic_entry("t"), topic_entry("u")), version=version)
    response = as_sent(create_topics.error_response(request, NotController()), version=version)
    assert errors(response.topics) == [("t", "NOT_CONTROLLER"), ("u", "NOT_CONTROLLER")]
