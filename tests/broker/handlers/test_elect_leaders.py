"""Tests of broker/handlers/elect_leaders.py."""

import pytest

from odradek.broker.handlers import elect_leaders
from odradek.controller.replica_leader_elections import ElectionType
from odradek.protocol.api.elect_leaders import ElectLeadersRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import (
    ElectionNotNeeded,
    KafkaError,
    NotController,
    PreferredLeaderNotAvailable,
)
from odradek.protocol.types import TopicPartition
from tests.support.calls import answer, as_sent, called, versions_of
from tests.support.fake_cluster import FakeCluster

VERSIONS = versions_of(ElectLeadersRequest)
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Controller:
    """``results`` are those of the election; without them it is not the active controller."""

    def __init__(self, results=None):
        self.results = results
        self.received = None

    async def elect_leaders(self, election_type, partitions):
        self.received = election_type, partitions
        if self.results is None:
            raise NotController
        return self.results


def build_request(partitions, *, kind=ElectionType.PREFERRED, timeout_ms=1000):
    topics = partitions and [
        ElectLeadersRequest.TopicPartitions(topic=each.topic, partitions=[each.partition])
        for each in partitions
    ]
    return ElectLeadersRequest(
        election_type=kind if isinstance(kind, int) else kind.value,
        topic_partitions=topics,
        timeout_ms=timeout_ms,
    )


def elect(request, controller, *, cluster=None, version=2):
    cluster = cluster or FakeCluster()
    return answer(elect_leaders.handle, controller, cluster, request, version=version)


def errors(response):
    return {
        TopicPartition(topic.topic, each.partition_id): ErrorCode.for_code(each.error_code).name
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_leaders_are_elected_in_every_version(version):
    controller = Controller({T0: 1, T1: ElectionNotNeeded(), U0: 2})
    cluster = FakeCluster()
    response = elect(build_request([T0, T1, U0]), controller, cluster=cluster, version=version)
    assert response.error_code == 0
    assert errors(response) == {T0: "NONE", T1: "ELECTION_NOT_NEEDED", U0: "NONE"}
    assert [each.topic for each in response.replica_election_results] == ["t", "u"]
    assert controller.received == (ElectionType.PREFERRED, [T0, T1, U0])
    assert cluster.awaited_elected == {T0: 1, U0: 2}


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_unclean_election_is_passed_to_the_controller(version):
    controller = Controller({T0: 1})
    elect(build_request([T0], kind=ElectionType.UNCLEAN), controller, version=version)
    assert controller.received[0] is ElectionType.UNCLEAN


@pytest.mark.parametrize("version", VERSIONS)
def test_election_can_cover_all_partitions(version):
    controller = Controller({T0: 1})
    assert errors(elect(build_request(None), controller, version=version)) == {T0: "NONE"}
    assert controller.received[1] is None


def test_duplicate_partition_is_passed_once():
    controller = Controller({T0: 1})
    elect(build_request([T0, T0]), controller)
    assert controller.received[1] == [T0]


def test_election_error_message_is_returned():
    controller = Controller({T0: PreferredLeaderNotAvailable("It is away."), T1: 1})
    response = elect(build_request([T0, T1]), controller)
    (topic,) = response.replica_election_results
    assert [each.error_message for each in topic.partition_result] == ["It is away.", None]


def test_without_elected_leaders_nothing_is_waited_for():
    cluster = FakeCluster()
    elect(build_request([T0]), Controller({T0: ElectionNotNeeded()}), cluster=cluster)
    assert cluster.awaited_elected is None


def test_leader_not_seen_in_time_times_out():
    cluster = FakeCluster(late={T1})
    response = elect(build_request([T0, T1]), Controller({T0: 1, T1: 2}), cluster=cluster)
    assert errors(response) == {T0: "NONE", T1: "REQUEST_TIMED_OUT"}
    assert 0 < cluster.timeout_s <= 1


def test_negative_timeout_is_read_as_zero():
    cluster = FakeCluster()
    elect(build_request([T0], timeout_ms=-5), Controller({T0: 1}), cluster=cluster)
    assert cluster.timeout_s == 0


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("partitions", [[T0, T1], None])
def test_not_controller_is_returned_for_every_partition(version, partitions):
    response = elect(build_request(partitions), Controller(), version=version)
    assert response.error_code == 0
    assert errors(response) == {T0: "NOT_CONTROLLER", T1: "NOT_CONTROLLER"}


def test_unknown_election_type_is_rejected():
    with pytest.raises(KafkaError) as raised:
        elect(build_request([T0], kind=7), Controller({}))
    assert raised.value.error_code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("version", VERSIONS)
def test_request_error_is_returned_for_every_partition(version):
    request = called(build_request([T0, U0]), version=version)
    response = as_sent(elect_leaders.error_response(request, KafkaError()), version=version)
    assert response.error_code == (-1 if version >= 1 else 0)
    assert errors(response) == {T0: "UNKNOWN_SERVER_ERROR", U0: "UNKNOWN_SERVER_ERROR"}


def test_request_error_for_all_partitions_has_no_partition_results():
    response = as_sent(
        elect_leaders.error_response(called(build_request(None)), NotController()), version=2
    )
    assert errors(response) == {}
    assert response.error_code == ErrorCode.NOT_CONTROLLER.code
