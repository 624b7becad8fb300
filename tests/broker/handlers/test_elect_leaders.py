"""Tests of broker/handlers/elect_leaders.py."""

import pytest

from odradek.broker.handlers import elect_leaders
from odradek.controller.preferred_leaders import ElectionKind
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
    """``results`` are those of the election; without them it is not in office."""

    def __init__(self, results=None):
        self.results = results
        self.asked = None

    async def elect_leaders(self, kind, partitions):
        self.asked = kind, partitions
        if self.results is None:
            raise NotController
        return self.results


def asked(partitions, *, kind=ElectionKind.PREFERRED, timeout_ms=1000):
    topics = partitions and [
        ElectLeadersRequest.TopicPartitions(topic=each.topic, partitions=[each.partition])
        for each in partitions
    ]
    return ElectLeadersRequest(
        election_type=kind if isinstance(kind, int) else kind.value,
        topic_partitions=topics,
        timeout_ms=timeout_ms,
    )


def elected(request, controller, *, cluster=None, version=2):
    cluster = cluster or FakeCluster()
    return answer(elect_leaders.handle, controller, cluster, request, version=version)


def errors(answered):
    return {
        TopicPartition(topic.topic, each.partition_id): ErrorCode.of(each.error_code).name
        for topic in answered.replica_election_results
        for each in topic.partition_result
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_leaders_are_elected_in_every_version(version):
    controller = Controller({T0: 1, T1: ElectionNotNeeded(), U0: 2})
    cluster = FakeCluster()
    answered = elected(asked([T0, T1, U0]), controller, cluster=cluster, version=version)
    assert answered.error_code == 0
    assert errors(answered) == {T0: "NONE", T1: "ELECTION_NOT_NEEDED", U0: "NONE"}
    assert [each.topic for each in answered.replica_election_results] == ["t", "u"]
    assert controller.asked == (ElectionKind.PREFERRED, [T0, T1, U0])
    assert cluster.awaited_elected == {T0: 1, U0: 2}


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_an_election_may_be_unclean(version):
    controller = Controller({T0: 1})
    elected(asked([T0], kind=ElectionKind.UNCLEAN), controller, version=version)
    assert controller.asked[0] is ElectionKind.UNCLEAN


@pytest.mark.parametrize("version", VERSIONS)
def test_all_partitions_can_be_asked_for(version):
    controller = Controller({T0: 1})
    assert errors(elected(asked(None), controller, version=version)) == {T0: "NONE"}
    assert controller.asked[1] is None


def test_a_partition_that_is_named_twice_is_elected_for_once():
    controller = Controller({T0: 1})
    elected(asked([T0, T0]), controller)
    assert controller.asked[1] == [T0]


def test_why_none_is_elected_is_told():
    controller = Controller({T0: PreferredLeaderNotAvailable("It is away."), T1: 1})
    answered = elected(asked([T0, T1]), controller)
    (topic,) = answered.replica_election_results
    assert [each.error_message for each in topic.partition_result] == ["It is away.", None]


def test_where_none_is_elected_nobody_is_waited_for():
    cluster = FakeCluster()
    elected(asked([T0]), Controller({T0: ElectionNotNeeded()}), cluster=cluster)
    assert cluster.awaited_elected is None


def test_a_leader_that_is_not_seen_in_time_is_late():
    cluster = FakeCluster(late={T1})
    answered = elected(asked([T0, T1]), Controller({T0: 1, T1: 2}), cluster=cluster)
    assert errors(answered) == {T0: "NONE", T1: "REQUEST_TIMED_OUT"}
    assert 0 < cluster.timeout_s <= 1


def test_without_time_it_is_looked_at_once():
    cluster = FakeCluster()
    elected(asked([T0], timeout_ms=-5), Controller({T0: 1}), cluster=cluster)
    assert cluster.timeout_s == 0


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("partitions", [[T0, T1], None])
def test_another_brokers_controller_may_be_in_office(version, partitions):
    answered = elected(asked(partitions), Controller(), version=version)
    assert answered.error_code == 0
    assert errors(answered) == {T0: "NOT_CONTROLLER", T1: "NOT_CONTROLLER"}


def test_there_are_two_elections():
    with pytest.raises(KafkaError) as refusal:
        elected(asked([T0], kind=7), Controller({}))
    assert refusal.value.error is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("version", VERSIONS)
def test_all_partitions_are_refused_together(version):
    call = called(asked([T0, U0]), version=version)
    answered = as_sent(elect_leaders.refused(call, KafkaError()), version=version)
    assert answered.error_code == (-1 if version >= 1 else 0)
    assert errors(answered) == {T0: "UNKNOWN_SERVER_ERROR", U0: "UNKNOWN_SERVER_ERROR"}


def test_there_is_nothing_to_refuse_where_all_are_asked_for():
    answered = as_sent(elect_leaders.refused(called(asked(None)), NotController()), version=2)
    assert errors(answered) == {}
    assert answered.error_code == ErrorCode.NOT_CONTROLLER.code
