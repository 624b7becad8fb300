"""Tests of broker/handlers/metadata.py."""

import pytest

from odradek.broker import time_slice
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

NOT_REQUESTED = -(2**31)
VERSIONS = versions_of(MetadataRequest)
RequestedTopic = MetadataRequest.Topic


class Creator:
    """Creates every requested topic except those in ``topic_errors``."""

    def __init__(self, *, serves_clients=True, topic_errors=None):
        self.is_enabled_for_clients = serves_clients
        self.topic_errors = topic_errors or {}
        self.created = []

    async def create(self, names):
        self.created += names
        return {name: self.topic_errors.get(name, LeaderNotAvailable()) for name in names}


DISABLED_CREATOR = Creator(serves_clients=False)


def two_topics_cluster():
    return cluster(update({"t": [state()], "u": [state(0), state(1, leader=2)]}))


def named(*names):
    return [RequestedTopic(name=each) for each in names]


def by_id(*ids):
    return [RequestedTopic(topic_id=each, name=None) for each in ids]


def fetch_metadata(
    topics, *, metadata_cache=None, creator=DISABLED_CREATOR, version=12, listener=INSIDE, **fields
):
    request = as_sent(MetadataRequest(topics=topics, **fields), version=version)
    metadata_cache = metadata_cache or two_topics_cluster()
    return answer(
        metadata.handle, metadata_cache, creator, request, version=version, listener=listener
    )


def names(response):
    return [topic.name for topic in response.topics]


def errors(response):
    return [(topic.name, ErrorCode.for_code(topic.error_code).name) for topic in response.topics]


# Requested topics


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_are_returned_by_name_in_every_version(version):
    response = fetch_metadata(named("u"), version=version)
    (topic,) = response.topics
    assert (topic.error_code, topic.name) == (0, "u")
    assert topic.topic_id == (topic_id("u") if version >= 10 else ZERO_UUID)
    assert [each.leader_id for each in topic.partitions] == [1, 2]
    assert [each.leader_epoch for each in topic.partitions] == [5 if version >= 7 else -1] * 2


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_are_returned_in_every_version(version):
    assert names(fetch_metadata([] if version == 0 else None, version=version)) == ["t", "u"]


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_empty_list_returns_no_topics_from_version_1_on(version):
    response = fetch_metadata([], version=version)
    assert response.topics == []
    assert response.brokers


def test_duplicate_topic_is_returned_once():
    assert names(fetch_metadata(named("u", "t", "u"))) == ["u", "t"]


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_returned_by_id(version):
    response = fetch_metadata(by_id(topic_id("u")), version=version)
    assert names(response) == ["u"]
    assert response.topics[0].topic_id == topic_id("u")


def test_unknown_topic_id_returns_an_error():
    response = fetch_metadata(by_id(topic_id("x"), topic_id("t")), creator=Creator())
    assert errors(response) == [(None, "UNKNOWN_TOPIC_ID"), ("t", "NONE")]
    assert response.topics[0].topic_id == topic_id("x")


def test_names_are_ignored_if_there_are_ids():
    assert names(fetch_metadata(by_id(topic_id("t")) + named("u", "x"))) == ["t"]


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("topics", [by_id(topic_id("t")), [RequestedTopic(name=None)]])
def test_topic_ids_are_rejected_in_versions_10_and_11(version, topics):
    with pytest.raises(InvalidRequest):
        fetch_metadata(topics, version=version)


def test_topic_without_name_and_id_is_rejected():
    with pytest.raises(KafkaError) as raised:
        fetch_metadata([RequestedTopic(name=None)])
    assert raised.value.error_code is ErrorCode.UNKNOWN_SERVER_ERROR


# Unknown topics


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_topic_returns_an_error_in_every_version(version):
    response = fetch_metadata(named("x", "t", "a b"), version=version)
    assert errors(response) == [
        ("t", "NONE"),
        ("x", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("a b", "INVALID_TOPIC_EXCEPTION"),
    ]
    assert response.topics[1].partitions == []


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_topic_is_created_automatically(version):
    creator = Creator()
    response = fetch_metadata(named("x", "t", "y"), creator=creator, version=version)
    assert creator.created == ["x", "y"]
    assert errors(response) == [
        ("t", "NONE"),
        ("x", "LEADER_NOT_AVAILABLE"),
        ("y", "LEADER_NOT_AVAILABLE"),
    ]


@pytest.mark.parametrize("version", VERSIONS[4:])
def test_client_can_disallow_auto_creation_from_version_4_on(version):
    creator = Creator()
    fields = {"allow_auto_topic_creation": False}
    response = fetch_metadata(named("x"), creator=creator, version=version, **fields)
    assert errors(response) == [("x", "UNKNOWN_TOPIC_OR_PARTITION")]
    assert creator.created == []


def test_auto_creation_error_is_returned():
    creator = Creator(topic_errors={"a b": InvalidTopic()})
    assert errors(fetch_metadata(named("a b"), creator=creator)) == [
        ("a b", "INVALID_TOPIC_EXCEPTION")
    ]


def test_missing_internal_topic_is_flagged_as_internal():
    response = fetch_metadata(named("__consumer_offsets"), creator=Creator())
    assert response.topics[0].is_internal


def test_request_without_auto_creation_is_answered_immediately():
    request = called(MetadataRequest(topics=named("t", "x"), allow_auto_topic_creation=False))
    assert isinstance(metadata.handle(two_topics_cluster(), Creator(), request), MetadataResponse)


# The cluster


def test_brokers_without_the_clients_listener_are_omitted():
    brokers = [live_broker(1, listeners=[INSIDE, OUTSIDE], rack="r"), live_broker(2)]
    metadata_cache = cluster(update(brokers=brokers, controller_id=2))
    response = fetch_metadata([], metadata_cache=metadata_cache, listener=OUTSIDE)
    assert response.brokers == [
        MetadataResponse.Broker(node_id=1, host="outside1", port=9092, rack="r")
    ]
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 2)


def test_leader_without_the_clients_listener_returns_an_error():
    (topic,) = fetch_metadata(named("t"), listener=OUTSIDE).topics
    assert topic.partitions[0].error_code == ErrorCode.LISTENER_NOT_FOUND.code


def test_version_0_reports_missing_replicas():
    metadata_cache = cluster(update({"t": [state(replicas=[1, 3])]}))
    (topic,) = fetch_metadata(named("t"), metadata_cache=metadata_cache, version=0).topics
    assert topic.partitions[0].error_code == ErrorCode.REPLICA_NOT_AVAILABLE.code


# Authorized operations


@pytest.mark.parametrize("version", VERSIONS[8:])
def test_authorized_operations_are_returned_on_request(version):
    fields = {"include_topic_authorized_operations": True}
    if version <= 10:
        fields["include_cluster_authorized_operations"] = True
    response = fetch_metadata(named("t", "x"), version=version, **fields)
    assert [each.topic_authorized_operations for each in response.topics] == [3576, 3576]
    assert response.cluster_authorized_operations == (8096 if version <= 10 else NOT_REQUESTED)


def test_authorized_operations_are_omitted_by_default():
    response = fetch_metadata(named("t", "x"), version=8)
    assert {each.topic_authorized_operations for each in response.topics} == {NOT_REQUESTED}
    assert response.cluster_authorized_operations == NOT_REQUESTED


# Errors of the whole request


@pytest.mark.parametrize("version", VERSIONS)
def test_request_error_is_returned_for_every_topic(version):
    request = called(MetadataRequest(topics=named("t", "u")), version=version)
    error = InvalidRequest()
    response = as_sent(metadata.error_response(request, error), version=version)
    assert [(each.name, each.error_code) for each in response.topics] == [
        ("t", code_of(error)),
        ("u", code_of(error)),
    ]
    assert response.error_code == (code_of(error) if version >= 13 else 0)


def test_request_error_names_topics_by_id_if_requested_by_id():
    request = called(MetadataRequest(topics=by_id(topic_id("t"))), version=10)
    (topic,) = as_sent(metadata.error_response(request, InvalidRequest()), version=10).topics
    assert (topic.name, topic.topic_id) == ("", topic_id("t"))


def test_request_error_for_all_topics_has_no_topics():
    request = called(MetadataRequest(topics=None))
    assert as_sent(metadata.error_response(request, KafkaError()), version=12).topics == []


@pytest.mark.parametrize("sizes", [[1] * MANY, [MANY]], ids=["topics", "partitions"])
@pytest.mark.parametrize("is_named", [False, True])
async def test_many_partitions_yield_to_the_event_loop(monkeypatch, sizes, is_named):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    topics = {f"t{number:03}": list(map(state, range(size))) for number, size in enumerate(sizes)}
    metadata_cache = cluster(update(topics))
    request = called(MetadataRequest(topics=named(*topics) if is_named else None))
    response, slice_count = await in_turns(
        metadata.handle(metadata_cache, DISABLED_CREATOR, request)
    )
    assert [len(topic.partitions) for topic in response.topics] == sizes
    assert names(response) == list(topics)
    assert slice_count > MANY / 2
