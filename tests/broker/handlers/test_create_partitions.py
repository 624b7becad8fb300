"""Tests of broker/handlers/create_partitions.py."""

import pytest

from odradek.broker.handlers import create_partitions
from odradek.protocol.api.create_partitions import CreatePartitionsRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidPartitions, NotController, UnknownTopicOrPartition
from tests.support.calls import answer, as_sent, called, versions_of
from tests.support.fake_cluster import FakeCluster, Office
from tests.support.planned_topics import FakeTopics
from tests.support.topic_entries import growth_entry

VERSIONS = versions_of(CreatePartitionsRequest)


def asked(*entries, timeout_ms=1000, validate_only=False):
    return CreatePartitionsRequest(
        topics=list(entries), timeout_ms=timeout_ms, validate_only=validate_only
    )


def grown(request, *, topics=None, cluster=None, version=3):
    topics, cluster = topics or FakeTopics(), cluster or FakeCluster()
    return answer(
        create_partitions.handle, Office(), topics, cluster, request, version=version
    ).results


def errors(answers):
    return [(each.name, ErrorCode.of(each.error_code).name) for each in answers]


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_grow_in_every_version(version):
    topics, cluster = FakeTopics(), FakeCluster()
    answers = grown(
        asked(growth_entry("t", count=3)), topics=topics, cluster=cluster, version=version
    )
    assert errors(answers) == [("t", "NONE")]
    assert answers[0].error_message is None
    assert topics.grown == ["t"]
    assert cluster.awaited_leaders == {"t": [0, 1, 2]}
    assert cluster.timeout_s == 1


def test_each_topic_is_refused_alone():
    topics = FakeTopics(
        refused={"u": InvalidPartitions("It has more.")}, failed={"v": UnknownTopicOrPartition()}
    )
    cluster = FakeCluster()
    request = asked(*(growth_entry(name, count=2) for name in "tuv"))
    answers = grown(request, topics=topics, cluster=cluster)
    assert errors(answers) == [
        ("t", "NONE"),
        ("u", "INVALID_PARTITIONS"),
        ("v", "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    assert [each.error_message for each in answers] == [None, "It has more.", None]
    assert topics.grown == ["t"]
    assert cluster.awaited_leaders.keys() == {"t"}


def test_a_topic_that_is_named_twice_is_refused_once():
    answers = grown(asked(growth_entry("t", count=2), growth_entry("t", count=3)))
    assert errors(answers) == [("t", "INVALID_REQUEST")]


def test_what_is_only_validated_does_not_grow():
    topics, cluster = FakeTopics(), FakeCluster()
    request = asked(growth_entry("t", count=2), validate_only=True, timeout_ms=0)
    assert errors(grown(request, topics=topics, cluster=cluster)) == [("t", "NONE")]
    assert topics.grown == []
    assert cluster.awaited_leaders is None


def test_a_topic_without_leaders_is_late():
    request = asked(growth_entry("t", count=2), growth_entry("u", count=2))
    answers = grown(request, cluster=FakeCluster(late={"t"}))
    assert errors(answers) == [("t", "REQUEST_TIMED_OUT"), ("u", "NONE")]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_all_are_late_but_grown(timeout_ms):
    topics, cluster = FakeTopics(), FakeCluster()
    request = asked(growth_entry("t", count=2), timeout_ms=timeout_ms)
    assert errors(grown(request, topics=topics, cluster=cluster)) == [("t", "REQUEST_TIMED_OUT")]
    assert topics.grown == ["t"]
    assert cluster.awaited_leaders is None


def test_only_the_controllers_broker_lets_topics_grow():
    call = called(asked(growth_entry("t", count=2)))
    with pytest.raises(NotController):
        create_partitions.handle(Office(is_active=False), FakeTopics(), FakeCluster(), call)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_are_refused_together(version):
    call = called(asked(growth_entry("t", count=2), growth_entry("u", count=2)), version=version)
    answered = as_sent(create_partitions.refused(call, NotController()), version=version)
    assert errors(answered.results) == [("t", "NOT_CONTROLLER"), ("u", "NOT_CONTROLLER")]
