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


def build_request(*entries, timeout_ms=1000, validate_only=False):
    return CreatePartitionsRequest(
        topics=list(entries), timeout_ms=timeout_ms, validate_only=validate_only
    )


def create(request, *, topics=None, cluster=None, version=3):
    topics, cluster = topics or FakeTopics(), cluster or FakeCluster()
    return answer(
        create_partitions.handle, Office(), topics, cluster, request, version=version
    ).results


def errors(results):
    return [(each.name, ErrorCode.for_code(each.error_code).name) for each in results]


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_are_created_in_every_version(version):
    topics, cluster = FakeTopics(), FakeCluster()
    results = create(
        build_request(growth_entry("t", count=3)), topics=topics, cluster=cluster, version=version
    )
    assert errors(results) == [("t", "NONE")]
    assert results[0].error_message is None
    assert topics.grown == ["t"]
    assert cluster.awaited_leaders == {"t": [0, 1, 2]}
    assert cluster.timeout_s == 1


def test_each_topic_is_rejected_independently():
    topics = FakeTopics(
        refused={"u": InvalidPartitions("It has more.")}, failed={"v": UnknownTopicOrPartition()}
    )
    cluster = FakeCluster()
    request = build_request(*(growth_entry(name, count=2) for name in "tuv"))
    results = create(request, topics=topics, cluster=cluster)
    assert errors(results) == [
        ("t", "NONE"),
        ("u", "INVALID_PARTITIONS"),
        ("v", "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    assert [each.error_message for each in results] == [None, "It has more.", None]
    assert topics.grown == ["t"]
    assert cluster.awaited_leaders.keys() == {"t"}


def test_duplicate_topic_is_rejected_once():
    results = create(build_request(growth_entry("t", count=2), growth_entry("t", count=3)))
    assert errors(results) == [("t", "INVALID_REQUEST")]


def test_validate_only_creates_no_partitions():
    topics, cluster = FakeTopics(), FakeCluster()
    request = build_request(growth_entry("t", count=2), validate_only=True, timeout_ms=0)
    assert errors(create(request, topics=topics, cluster=cluster)) == [("t", "NONE")]
    assert topics.grown == []
    assert cluster.awaited_leaders is None


def test_topic_without_leaders_in_time_times_out():
    request = build_request(growth_entry("t", count=2), growth_entry("u", count=2))
    results = create(request, cluster=FakeCluster(late={"t"}))
    assert errors(results) == [("t", "REQUEST_TIMED_OUT"), ("u", "NONE")]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_timeout_partitions_are_created_but_time_out(timeout_ms):
    topics, cluster = FakeTopics(), FakeCluster()
    request = build_request(growth_entry("t", count=2), timeout_ms=timeout_ms)
    assert errors(create(request, topics=topics, cluster=cluster)) == [("t", "REQUEST_TIMED_OUT")]
    assert topics.grown == ["t"]
    assert cluster.awaited_leaders is None


def test_only_the_active_controller_creates_partitions():
    request = called(build_request(growth_entry("t", count=2)))
    with pytest.raises(NotController):
        create_partitions.handle(Office(is_active=False), FakeTopics(), FakeCluster(), request)


@pytest.mark.parametrize("version", VERSIONS)
def test_request_error_is_returned_for_every_topic(version):
    request = called(
        build_request(growth_entry("t", count=2), growth_entry("u", count=2)), version=version
    )
    response = as_sent(create_partitions.error_response(request, NotController()), version=version)
    assert errors(response.results) == [("t", "NOT_CONTROLLER"), ("u", "NOT_CONTROLLER")]
