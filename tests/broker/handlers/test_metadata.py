"""Tests of broker/handlers/metadata.py."""

import pytest

from odradek.broker import turns
from odradek.broker.handlers import metadata
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import (
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    LeaderNotAvailable,
    code_of,
)
from odradek.protocol.types import ZERO_UUID
from tests.support.calls import answer, as_sent, called, versions_of
from tests.support.metadata_updates import (
    CLUSTER_ID,
    INSIDE,
    OUTSIDE,
    cluster,
    live_broker,
    state,
    topic_id,
    update,
)
from tests.support.turn_counting import MANY, in_turns

NOT_ASKED_FOR = -(2**31)
VERSIONS = versions_of(MetadataRequest)
AskedFor = MetadataRequest.Topic


class Creator:
    """Creates all that it is asked for, but for what is ``refused``."""

    def __init__(self, *, serves_clients=True, refused=None):
        self.serves_clients = serves_clients
        self.refused = refused or {}
        self.created = []

    async def create(self, names):
        self.created += names
        return {name: self.refused.get(name, LeaderNotAvailable()) for name in names}


NOBODY = Creator(serves_clients=False)


def known_cluster():
    return cluster(update({"t": [state()], "u": [state(0), state(1, leader=2)]}))


def named(*names):
    return [AskedFor(name=each) for each in names]


def by_id(*ids):
    return [AskedFor(topic_id=each, name=None) for each in ids]


def response(topics, *, known=None, creator=NOBODY, version=12, listener=INSIDE, **asked):
    request = as_sent(MetadataRequest(topics=topics, **asked), version=version)
    known = known or known_cluster()
    return answer(metadata.handle, known, creator, request, version=version, listener=listener)


def names(answered):
    return [topic.name for topic in answered.topics]


def errors(answered):
    return [(topic.name, ErrorCode.of(topic.error_code).name) for topic in answered.topics]


# Which topics


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_are_shown_by_name_in_every_version(version):
    answered = response(named("u"), version=version)
    (topic,) = answered.topics
    assert (topic.error_code, topic.name) == (0, "u")
    assert topic.topic_id == (topic_id("u") if version >= 10 else ZERO_UUID)
    assert [each.leader_id for each in topic.partitions] == [1, 2]
    assert [each.leader_epoch for each in topic.partitions] == [5 if version >= 7 else -1] * 2


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_are_shown_in_every_version(version):
    assert names(response([] if version == 0 else None, version=version)) == ["t", "u"]


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_from_version_1_on_an_empty_list_asks_for_none(version):
    answered = response([], version=version)
    assert answered.topics == []
    assert answered.brokers


def test_a_topic_that_is_asked_for_twice_is_shown_once():
    assert names(response(named("u", "t", "u"))) == ["u", "t"]


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_shown_by_id(version):
    answered = response(by_id(topic_id("u")), version=version)
    assert names(answered) == ["u"]
    assert answered.topics[0].topic_id == topic_id("u")


def test_an_unknown_id_is_no_topics():
    answered = response(by_id(topic_id("x"), topic_id("t")), creator=Creator())
    assert errors(answered) == [(None, "UNKNOWN_TOPIC_ID"), ("t", "NONE")]
    assert answered.topics[0].topic_id == topic_id("x")


def test_names_are_passed_over_where_there_are_ids():
    assert names(response(by_id(topic_id("t")) + named("u", "x"))) == ["t"]


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("topics", [by_id(topic_id("t")), [AskedFor(name=None)]])
def test_two_versions_have_ids_but_may_not_use_them(version, topics):
    with pytest.raises(InvalidRequest):
        response(topics, version=version)


def test_nobody_knows_what_to_do_without_a_name_and_an_id():
    with pytest.raises(KafkaError) as refusal:
        response([AskedFor(name=None)])
    assert refusal.value.error is ErrorCode.UNKNOWN_SERVER_ERROR


# Topics that are not there


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_topic_is_told_so_in_every_version(version):
    answered = response(named("x", "t", "a b"), version=version)
    assert errors(answered) == [
        ("t", "NONE"),
        ("x", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("a b", "INVALID_TOPIC_EXCEPTION"),
    ]
    assert answered.topics[1].partitions == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_created_by_asking_for_it(version):
    creator = Creator()
    answered = response(named("x", "t", "y"), creator=creator, version=version)
    assert creator.created == ["x", "y"]
    assert errors(answered) == [
        ("t", "NONE"),
        ("x", "LEADER_NOT_AVAILABLE"),
        ("y", "LEADER_NOT_AVAILABLE"),
    ]


@pytest.mark.parametrize("version", VERSIONS[4:])
def test_from_version_4_on_a_client_can_ask_without_creating(version):
    creator = Creator()
    asked = {"allow_auto_topic_creation": False}
    answered = response(named("x"), creator=creator, version=version, **asked)
    assert errors(answered) == [("x", "UNKNOWN_TOPIC_OR_PARTITION")]
    assert creator.created == []


def test_why_a_topic_is_not_created_is_told():
    creator = Creator(refused={"a b": InvalidTopic()})
    assert errors(response(named("a b"), creator=creator)) == [("a b", "INVALID_TOPIC_EXCEPTION")]


def test_what_is_missing_may_be_the_brokers_own():
    answered = response(named("__consumer_offsets"), creator=Creator())
    assert answered.topics[0].is_internal


def test_what_can_be_answered_at_once_is():
    call = called(MetadataRequest(topics=named("t", "x"), allow_auto_topic_creation=False))
    assert isinstance(metadata.handle(known_cluster(), Creator(), call), MetadataResponse)


# The cluster


def test_brokers_are_those_that_have_the_clients_listener():
    brokers = [live_broker(1, listeners=[INSIDE, OUTSIDE], rack="r"), live_broker(2)]
    known = cluster(update(brokers=brokers, controller_id=2))
    answered = response([], known=known, listener=OUTSIDE)
    assert answered.brokers == [
        MetadataResponse.Broker(node_id=1, host="outside1", port=9092, rack="r")
    ]
    assert (answered.cluster_id, answered.controller_id) == (CLUSTER_ID, 2)


def test_a_leader_without_the_clients_listener_is_told_so():
    (topic,) = response(named("t"), listener=OUTSIDE).topics
    assert topic.partitions[0].error_code == ErrorCode.LISTENER_NOT_FOUND.code


def test_in_the_first_version_replicas_are_missed():
    known = cluster(update({"t": [state(replicas=[1, 3])]}))
    (topic,) = response(named("t"), known=known, version=0).topics
    assert topic.partitions[0].error_code == ErrorCode.REPLICA_NOT_AVAILABLE.code


# What is authorized


@pytest.mark.parametrize("version", VERSIONS[8:])
def test_operations_are_told_if_they_are_asked_for(version):
    asked = {"include_topic_authorized_operations": True}
    if version <= 10:
        asked["include_cluster_authorized_operations"] = True
    answered = response(named("t", "x"), version=version, **asked)
    assert [each.topic_authorized_operations for each in answered.topics] == [3576, 3576]
    assert answered.cluster_authorized_operations == (8096 if version <= 10 else NOT_ASKED_FOR)


def test_operations_are_not_told_otherwise():
    answered = response(named("t", "x"), version=8)
    assert {each.topic_authorized_operations for each in answered.topics} == {NOT_ASKED_FOR}
    assert answered.cluster_authorized_operations == NOT_ASKED_FOR


# Refusal of the whole


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_are_refused_together(version):
    call = called(MetadataRequest(topics=named("t", "u")), version=version)
    refusal = InvalidRequest()
    answered = as_sent(metadata.refused(call, refusal), version=version)
    assert [(each.name, each.error_code) for each in answered.topics] == [
        ("t", code_of(refusal)),
        ("u", code_of(refusal)),
    ]
    assert answered.error_code == (code_of(refusal) if version >= 13 else 0)


def test_what_has_no_name_is_refused_with_its_id():
    call = called(MetadataRequest(topics=by_id(topic_id("t"))), version=10)
    (topic,) = as_sent(metadata.refused(call, InvalidRequest()), version=10).topics
    assert (topic.name, topic.topic_id) == ("", topic_id("t"))


def test_there_is_nothing_to_refuse_where_all_are_asked_for():
    call = called(MetadataRequest(topics=None))
    assert as_sent(metadata.refused(call, KafkaError()), version=12).topics == []


@pytest.mark.parametrize("sizes", [[1] * MANY, [MANY]], ids=["topics", "partitions"])
@pytest.mark.parametrize("is_named", [False, True])
async def test_of_many_partitions_it_is_answered_in_turns(monkeypatch, sizes, is_named):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    topics = {f"t{number:03}": list(map(state, range(size))) for number, size in enumerate(sizes)}
    known = cluster(update(topics))
    call = called(MetadataRequest(topics=named(*topics) if is_named else None))
    answered, turn_count = await in_turns(metadata.handle(known, NOBODY, call))
    assert [len(topic.partitions) for topic in answered.topics] == sizes
    assert names(answered) == list(topics)
    assert turn_count > MANY / 2
